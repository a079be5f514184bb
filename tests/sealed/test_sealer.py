"""Texts that are encrypted: who can read them, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.sealed.errors import ChangedSecretError, MissingKeyError, SecretError
from parley.sealed.keys import StoreKey, decode_keys, encode_key, new_key
from parley.sealed.sealer import PREFIX, Sealer, key_of
from parley.stores.interface import StoreError

KEY, OTHER = StoreKey(bytes(range(32))), StoreKey(bytes(32))
PLACE = ("webhook", "acme", "t-1", "h-1", "token")


@given(st.text(), st.lists(st.text()).map(tuple))
def test_a_text_is_read_where_it_was_written(text: str, place: tuple[str, ...]) -> None:
    for sealer in (Sealer([KEY]), Sealer()):
        assert sealer.open(sealer.seal(text, *place), *place) == text


def test_a_text_says_its_version_and_key_and_is_never_the_same_twice() -> None:
    sealer = Sealer([KEY, OTHER])
    first, second = sealer.seal("s3cret", *PLACE), sealer.seal("s3cret", *PLACE)
    assert first.startswith(f"{PREFIX}{KEY.id}.")
    assert first != second
    assert "s3cret" not in first


@pytest.mark.parametrize("number", range(len(PLACE)))
def test_a_text_cannot_be_read_in_another_place(number: int) -> None:
    sealer = Sealer([KEY])
    moved = (*PLACE[:number], "elsewhere", *PLACE[number + 1 :])
    with pytest.raises(ChangedSecretError, match=f"moved to where it does not belong.+|key {KEY.id}"):
        sealer.open(sealer.seal("s3cret", *PLACE), *moved)


def test_names_that_run_together_are_different_places() -> None:
    sealer = Sealer([KEY])
    with pytest.raises(ChangedSecretError):
        sealer.open(sealer.seal("s3cret", "ab", "c"), "a", "bc")


def test_a_text_that_was_changed_is_refused() -> None:
    sealer = Sealer([KEY])
    sealed = sealer.seal("s3cret", *PLACE)
    for changed in (sealed[:-8], sealed[:-6] + "AAAAAA", f"{PREFIX}{KEY.id}.", f"{PREFIX}{KEY.id}.é"):
        with pytest.raises(ChangedSecretError):
            sealer.open(changed, *PLACE)


@pytest.mark.parametrize("keys", [[], [OTHER]])
def test_a_missing_key_is_named(keys: list[StoreKey]) -> None:
    sealed = Sealer([KEY]).seal("s3cret", *PLACE)
    with pytest.raises(MissingKeyError, match=f"encrypted with key {KEY.id}, and this process has") as raised:
        Sealer(keys).open(sealed, *PLACE)
    assert raised.value.key_id == KEY.id


def test_older_keys_decrypt_and_the_first_one_encrypts() -> None:
    old, both = Sealer([OTHER]), Sealer([KEY, OTHER])
    sealed = old.seal("s3cret", *PLACE)
    assert both.open(sealed, *PLACE) == "s3cret"
    renewed = both.renew(sealed, *PLACE)
    assert (key_of(renewed), both.renew(renewed, *PLACE) is renewed) == (KEY.id, True)
    assert Sealer([KEY]).open(renewed, *PLACE) == "s3cret"
    assert key_of(both.renew("plain", *PLACE)) == KEY.id


def test_a_plain_text_that_looks_encrypted_is_read_as_it_was_given() -> None:
    """A caller chooses it: it must neither fail later nor be taken for a value under a missing key."""
    for text in (f"{PREFIX}{KEY.id}.AAAA", "parley-plain.1.x"):
        assert Sealer().open(Sealer().seal(text, *PLACE), *PLACE) == text


def test_half_a_character_is_refused_as_everywhere_in_a_store() -> None:
    with pytest.raises(StoreError, match="not valid Unicode"):
        Sealer([KEY]).seal("\ud800", *PLACE)


def test_keys_are_read_as_people_write_them() -> None:
    key, other = new_key(), new_key()
    text = f"# the present one\n{encode_key(key)}  # since May\n\n{encode_key(other).rstrip('=')}, {encode_key(key)}\n"
    assert decode_keys(text, source="x") == (key, other)
    url_safe = encode_key(key).replace("+", "-").replace("/", "_")
    assert decode_keys(url_safe, source="x") == (key,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "keys.txt holds no key"),
        ("# none", "keys.txt holds no key"),
        ("s3cret!", "keys.txt: key 1 is not base64"),
        (f"{encode_key(KEY)} AAAA", "keys.txt: key 2 has 3 bytes, and must have 32"),
    ],
)
def test_what_is_not_a_key_is_named_by_its_number_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(SecretError, match=said) as raised:
        decode_keys(text, source="keys.txt")
    assert "s3cret" not in str(raised.value)


def test_a_key_does_not_show_itself() -> None:
    assert repr(KEY) == f"StoreKey({KEY.id})"
    assert repr([KEY]) == f"[StoreKey({KEY.id})]"
