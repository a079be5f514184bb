"""How URLs are read, what is wrong with others, and what of them may be shown."""

from __future__ import annotations

import pytest

from parley.network.urls import (
    AGENT,
    MAX_URL,
    InvalidUrlError,
    host_of,
    parse_url,
    text_without_secrets,
    with_scheme,
    without_secrets,
)

HOST_OR_PORT = "Invalid URL: its host or its port is invalid."
CHARACTERS = "Invalid URL: it must be printable ASCII, without spaces and backslashes."
NAME = "Invalid URL: its host name must consist of letters, digits and hyphens."


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("", "Invalid URL: it is empty."),
        ("http://a.example/" + "x" * MAX_URL, "Invalid URL: it has more than 2048 characters."),
        ("http://a.example/\r\nevil: yes", CHARACTERS),
        ("http://a.example/ä", CHARACTERS),
        ("http://a b.example/", CHARACTERS),
        ("http://a.example\\@b.example", CHARACTERS),
        ("http:///path", HOST_OR_PORT),
        ("http://", HOST_OR_PORT),
        ("http://a.example:/", None),
        ("http://a.example:0/", HOST_OR_PORT),
        ("http://a.example:+80/", HOST_OR_PORT),
        ("http://a.example:99999/", HOST_OR_PORT),
        ("http://[::1]b.example/", HOST_OR_PORT),
        ("http://a.example[::1]/", HOST_OR_PORT),
        ("http://[a.example]/", HOST_OR_PORT),
        ("http://[::1", HOST_OR_PORT),
        ("http://::1/", HOST_OR_PORT),
        ("http://ada@a.example/", "Invalid URL: it must not contain a user name."),
        ("http://a..example/", NAME),
        ("http://a%2eexample/", NAME),
        ("http://127.1/", "Invalid URL: its address must be four decimal numbers."),
        ("http://[fe80::1%25eth0]/", "Invalid URL: its address must not have a zone."),
        ("a.example", "Invalid URL: 'a.example'. It must start with http:// or https://."),
        ("localhost:8080", "Invalid URL: 'localhost:8080'. It must start with http:// or https://."),
        ("ftp://ada:pw@a.example/secret", "Invalid URL: 'ftp://a.example'. It must start with http:// or https://."),
        ("grpcs://a.example", "Invalid URL: 'grpcs://a.example'. It must start with http:// or https://."),
    ],
)
def test_an_invalid_url_is_refused_with_the_reason(url: str, error: str | None) -> None:
    with pytest.raises(InvalidUrlError) as refused:
        parse_url(url)
    assert refused.value.message == (error or HOST_OR_PORT)
    assert host_of(url) == ""


@pytest.mark.parametrize(
    ("url", "origin", "port", "target"),
    [
        ("http://a.example", "http://a.example", 80, "/"),
        ("https://A.example:443/x?y#z", "https://a.example", 443, "/x?y"),
        ("https://[::1]:8443/", "https://[::1]:8443", 8443, "/"),
        ("http://a.example:443?q", "http://a.example:443", 443, "/?q"),
        ("HTTP://A.Example:0080//b/../c;d=%2f%E4?", "http://a.example", 80, "//b/../c;d=%2f%E4"),
        ("grpcs://a.example", "grpcs://a.example", 443, "/"),
        ("a.example:443", "a.example:443", 443, "/"),
        ("a.example", "a.example:443", 443, "/"),
    ],
)
def test_a_url_has_an_origin_and_a_target(url: str, origin: str, port: int, target: str) -> None:
    parsed = parse_url(url, AGENT)
    assert (parsed.origin, parsed.port, parsed.target) == (origin, port, target)
    assert parse_url(parsed.text, AGENT).text == parsed.text
    assert repr(parsed) == f"Url({origin}/…)"


def test_what_people_type_becomes_a_url() -> None:
    typed = ("localhost:8080", "127.0.0.1/x", "[::1]:1", "a.example", "ftp://a.example", "a b", "")
    assert [with_scheme(text) for text in typed] == [
        "http://localhost:8080",
        "http://127.0.0.1/x",
        "http://[::1]:1",
        "https://a.example",
        "ftp://a.example",
        "https://a b",
        "",
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com/services/T0/B1/secret", "https://hooks.example.com/…"),
        ("https://ada:secret@hooks.example.com:8443/?key=secret#secret", "https://hooks.example.com:8443/…"),
        ("http://[::1]:9/secret", "http://[::1]:9/…"),
        ("https://secret\\@hooks.example.com", "https://hooks.example.com/…"),
        ("https://[secret/", "…"),
        ("https://se%63ret", "…"),
        ("secret", "…"),
    ],
)
def test_only_the_server_of_a_webhook_is_shown(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_urls_in_a_text_are_shown_without_their_secrets() -> None:
    text = 'Not "HTTPS://a.example/secret", nor http://b.example/secret\\secret\nsecond line'
    assert text_without_secrets(text) == 'Not "https://a.example/…", nor http://b.example/…\nsecond line'
