"""Secrets are found in whatever spelling they come back."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import pytest

from parley.check.report.redaction import NOT_SHOWN, Redaction
from parley.client.transports.transport import CallOptions

SECRET = 'se/cret "of" mine'


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (CallOptions({"authorization": "Bearer abcdef"}), "you sent Bearer abcdef"),
        (CallOptions({"authorization": "Bearer abcdef"}), "no such token: abcdef"),
        (
            CallOptions({"authorization": f"Basic {b64encode(b'ada:open sesame').decode()}"}),
            "ada, not with open sesame",
        ),
        (CallOptions({"cookie": "a=first-one; b=second-one"}), "second-one is too old"),
        (CallOptions(query={"key": SECRET}), f"GET /?key={quote(SECRET, safe='')}"),
        (CallOptions(query={"key": SECRET}), 'the key "se/cret \\"of\\" mine"'),
        (CallOptions({"x-key": SECRET}), SECRET),
    ],
)
def test_a_secret_is_not_shown_in_any_spelling(proof: CallOptions, said: str) -> None:
    redaction = Redaction("https://agent.example")
    redaction.add(proof)
    shown = redaction.text(said)
    assert NOT_SHOWN in shown
    assert not any(word in shown for word in ("abcdef", "sesame", "second-one", "cret"))


def test_what_is_part_of_another_secret_leaves_nothing_of_it() -> None:
    redaction = Redaction("https://agent.example/?key=long-secret")
    redaction.add(CallOptions(query={"key": "long-secret-and-more"}))
    assert redaction.text("long-secret-and-more, long-secret") == f"{NOT_SHOWN}, {NOT_SHOWN}"


def test_what_is_too_short_to_be_a_secret_stays_readable() -> None:
    redaction = Redaction("https://agent.example/?A2A-Version=1.0")
    redaction.add(CallOptions({"x-flag": "on"}))
    assert redaction.text("HTTP 1.0 is on") == "HTTP 1.0 is on"


def test_of_the_callers_webhook_only_the_server_is_shown() -> None:
    redaction = Redaction("https://agent.example", webhook="https://hooks.example.com/T0/secret")
    assert redaction.text('{"url":"https://hooks.example.com/T0/secret"}') == '{"url":"https://hooks.example.com/…"}'
