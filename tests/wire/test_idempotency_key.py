"""The `Idempotency-Key` header: which values name which key, and which name none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.errors import InvalidParamsError
from parley.wire.idempotency_key import MAX_KEY, read_idempotency_key, write_idempotency_key

PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=MAX_KEY)


@pytest.mark.parametrize(
    ("value", "key"),
    [("k-1", "k-1"), ('"k-1"', "k-1"), (' "a b" ', "a b"), (r'"a\"b\\"', 'a"b\\'), ("x" * MAX_KEY, "x" * MAX_KEY)],
)
def test_bare_and_quoted_values_name_the_same_key(value: str, key: str) -> None:
    assert read_idempotency_key(value) == key


@pytest.mark.parametrize("value", ["", " ", '""', '"a', "a\x00b", "ü", "x" * (MAX_KEY + 1), f'"{"x" * (MAX_KEY + 1)}"'])
def test_other_values_are_refused(value: str) -> None:
    with pytest.raises(InvalidParamsError, match="Idempotency-Key"):
        read_idempotency_key(value)


@given(PRINTABLE)
def test_every_printable_key_is_read_as_it_was_written(key: str) -> None:
    assert read_idempotency_key(write_idempotency_key(key)) == key


@pytest.mark.parametrize("key", ["", "ü", "x" * (MAX_KEY + 1)])
def test_no_other_key_is_written(key: str) -> None:
    with pytest.raises(InvalidParamsError):
        write_idempotency_key(key)
