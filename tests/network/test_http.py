"""Requests as they are written, and where URLs lead."""

from __future__ import annotations

import pytest

from parley.network.http import HttpRequest, place_of
from parley.protocol.errors import LocalProtocolError, PeerProtocolError


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/\r\nevil: yes",
        "http://a.example/ä",
        "http://a b.example/",
        "http:///path",
        "http://ada@a.example/",
        "http://a.example:0/",
        "http://a.example:+80/",
        "http://[::1]b.example/",
        "http://a.example[::1]/",
        "http://[a.example]/",
        "http://[::1",
        "http://::1/",
        "http://a.example:99999/",
        "ftp://a.example/",
        "a.example",
        "",
    ],
)
def test_what_is_no_url_leads_nowhere(url: str) -> None:
    with pytest.raises(PeerProtocolError):
        place_of(url)


@pytest.mark.parametrize(
    ("url", "server", "netloc", "target"),
    [
        ("http://a.example", ("http", "a.example", 80), "a.example", "/"),
        ("https://A.example:443/x?y#z", ("https", "a.example", 443), "a.example", "/x?y"),
        ("https://[::1]:8443/", ("https", "::1", 8443), "[::1]:8443", "/"),
        ("http://a.example:443?q", ("http", "a.example", 443), "a.example:443", "/?q"),
        ("HTTP://A.Example:0080//b/../c;d=%2f%E4?", ("http", "a.example", 80), "a.example", "//b/../c;d=%2f%E4"),
        ("http://a.example:?a=?b", ("http", "a.example", 80), "a.example", "/?a=?b"),
    ],
)
def test_where_a_url_leads(url: str, server: tuple[str, str, int], netloc: str, target: str) -> None:
    place = place_of(url)
    assert (place.server, place.netloc, place.target) == (server, netloc, target)
    assert place_of(place.url) == place


def test_a_request_is_written_as_it_was_meant() -> None:
    place = place_of("http://a.example/x?y")
    assert HttpRequest("GET", place, {"accept": "*/*"}).encode() == (
        b"GET /x?y HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\n\r\n"
    )
    assert HttpRequest("POST", place, {}).encode() == (
        b"POST /x?y HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n"
    )


@pytest.mark.parametrize("value", ["Zoë", "日本", "a\tb", "a\x7f", "a\r\nb"])
def test_a_header_that_cannot_be_sent_is_named_and_its_value_is_not(value: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        HttpRequest("GET", place_of("http://a.example"), {"x-name": value}).encode()
    assert refused.value.message == "The header x-name can hold printable ASCII only"
