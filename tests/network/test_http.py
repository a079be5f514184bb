"""Requests as they are written, and where URLs lead."""

from __future__ import annotations

import pytest

from parley.network.http import HttpRequest
from parley.network.urls import parse_http_url
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
        parse_http_url(url)


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
    parsed = parse_http_url(url)
    assert (parsed.origin, parsed.authority, parsed.target) == (server, netloc, target)
    assert parse_http_url(parsed.text) == parsed


def test_a_request_is_written_as_it_was_meant() -> None:
    parsed = parse_http_url("http://a.example/x?y")
    assert HttpRequest("GET", parsed, {"accept": "*/*"}).encode() == (
        b"GET /x?y HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\n\r\n"
    )
    assert HttpRequest("POST", parsed, {}).encode() == (
        b"POST /x?y HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n"
    )


@pytest.mark.parametrize("value", ["Zoë", "日本", "a\tb", "a\x7f", "a\r\nb"])
def test_a_header_that_cannot_be_sent_is_named_and_its_value_is_not(value: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        HttpRequest("GET", parse_http_url("http://a.example"), {"x-name": value}).encode()
    assert refused.value.message == "The header x-name can hold printable ASCII only"
