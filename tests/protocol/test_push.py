"""What of a webhook's URL may be shown."""

from __future__ import annotations

import pytest

from parley.protocol.push import text_without_secrets, without_secrets


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
