"""Requests as they are written."""

from __future__ import annotations

import pytest

from parley.network.http import HttpRequest
from parley.network.urls import parse_url
from parley.protocol.errors import LocalProtocolError


def test_a_request_is_written_as_it_was_meant() -> None:
    parsed = parse_url("http://a.example/x?y")
    assert HttpRequest("GET", parsed, {"accept": "*/*"}).encode() == (
        b"GET /x?y HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\n\r\n"
    )
    assert HttpRequest("POST", parsed, {}).encode() == (
        b"POST /x?y HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n"
    )


@pytest.mark.parametrize("value", ["Zoë", "日本", "a\tb", "a\x7f", "a\r\nb"])
def test_a_header_that_cannot_be_sent_is_named_and_its_value_is_not(value: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        HttpRequest("GET", parse_url("http://a.example"), {"x-name": value}).encode()
    assert refused.value.message == "The header x-name can hold printable ASCII only"
