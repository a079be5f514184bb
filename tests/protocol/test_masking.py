"""Secrets of webhooks as callers see them, and what a mask keeps that comes back."""

from typing import Any

import pytest

from parley.protocol.errors import InvalidParamsError
from parley.protocol.masking import MASK, SEALED_MESSAGE, has_mask, masked, with_kept_secrets, without_sealed_message
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushAuthentication, PushConfig

URL = "https://hooks.example/x"
STORED = PushConfig(URL, token="t", authentication=PushAuthentication(("Bearer",), "c", {"key": "k"}))
BARE = PushConfig(URL)


def test_what_is_set_is_masked_and_what_is_not_stays_so() -> None:
    shown = PushConfig(URL, token=MASK, authentication=PushAuthentication(("Bearer",), MASK, {"key": MASK}))
    assert masked(STORED) == shown
    assert masked(BARE) is BARE
    named = PushConfig(URL, authentication=PushAuthentication(("Bearer",)))
    assert masked(named) == named
    assert masked(PushConfig(URL, token="t")) == PushConfig(URL, token=MASK)


def test_a_mask_that_comes_back_keeps_the_secret() -> None:
    assert with_kept_secrets(masked(STORED), STORED) == STORED
    assert with_kept_secrets(BARE, STORED) is BARE
    assert with_kept_secrets(PushConfig(URL, token=MASK), STORED) == PushConfig(URL, token="t")
    unnamed = PushConfig(URL, authentication=PushAuthentication((), "c"))
    assert with_kept_secrets(masked(unnamed), unnamed) == unnamed
    other = PushConfig(URL, token=MASK, authentication=PushAuthentication(("Basic",), "new"))
    assert with_kept_secrets(other, STORED).authentication == other.authentication
    assert not has_mask(STORED)


NAMES = ("mTLS", "HMAC", "Bearer")
LISTED = PushConfig(URL, authentication=PushAuthentication(NAMES, "c"))


@pytest.mark.parametrize("names", [NAMES, ("mtls", "hmac"), ("mTLS",)])
def test_credentials_are_kept_for_the_same_names_of_schemes_or_the_first_of_them(names: tuple[str, ...]) -> None:
    """A reader of 1.0 sees the first name only."""
    config = PushConfig(URL, authentication=PushAuthentication(names, MASK))
    assert with_kept_secrets(config, LISTED).authentication == PushAuthentication(names, "c")


@pytest.mark.parametrize(
    ("config", "stored"),
    [
        (masked(STORED), None),
        (masked(STORED), BARE),
        (PushConfig("https://other.example", token=MASK), STORED),
        (PushConfig(URL, authentication=PushAuthentication(("HMAC",), MASK)), STORED),
        (
            PushConfig(URL, authentication=PushAuthentication(("mTLS", "Bearer"), MASK)),
            LISTED,
        ),  # would send it in plain
        (PushConfig(URL, authentication=PushAuthentication((*NAMES, "X"), MASK)), LISTED),
        (PushConfig(URL, authentication=PushAuthentication((), MASK)), STORED),
        (PushConfig(URL, authentication=PushAuthentication(("Bearer",), "c", {"other": MASK})), STORED),
    ],
)
def test_a_mask_keeps_nothing_for_another_url_or_scheme(config: PushConfig, stored: Any) -> None:
    with pytest.raises(InvalidParamsError, match="Send the secret"):
        with_kept_secrets(config, stored)


def test_readers_do_not_get_the_encrypted_message() -> None:
    message = Message("m-1", Role.USER, (TextPart("x"),), metadata={SEALED_MESSAGE: "…", "a": 1})
    assert without_sealed_message(message).metadata == {"a": 1}
    plain = Message("m-1", Role.USER, (TextPart("x"),))
    assert without_sealed_message(plain) is plain
