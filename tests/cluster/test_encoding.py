"""Hints as bytes: there and back, in messages of bounded size, and no message that crashes a reader."""

from __future__ import annotations

import contextlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from parley.cluster.encoding import decode, encode
from parley.cluster.hints import AnyHint, Hint, HintKind, LookHint, RecordsHint
from parley.cluster.pending import Pending
from parley.stores.interface import Owner, TaskKey
from tests.cluster.listening import events, key

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
keys = st.builds(TaskKey, st.builds(Owner, names, names), names)
task_hints = st.builds(Hint, st.sampled_from(HintKind), keys, st.integers(0, 2**63 - 1))
hints: st.SearchStrategy[AnyHint] = task_hints | st.builds(RecordsHint, names, names) | st.just(LookHint())


@given(st.lists(hints, max_size=30), st.integers(1000, 5000))
def test_messages_hold_all_hints_in_their_order_and_are_bounded(sent: list[AnyHint], size: int) -> None:
    messages = list(encode(sent, max_bytes=size))
    assert all(len(message) <= size for message in messages)
    assert [hint for message in messages for hint in decode(message)] == sent


def test_a_hint_that_fits_into_no_message_is_left_out() -> None:
    sent = [events(1), events(1, "x" * 1000), events(2)]
    assert [hint for message in encode(sent, max_bytes=100) for hint in decode(message)] == [events(1), events(2)]


@given(st.binary(max_size=200))
def test_bytes_are_hints_or_an_error_of_their_own(message: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode(message)


def test_kinds_of_a_later_release_are_ignored() -> None:
    message = msgspec.msgpack.encode([("later", "a", 1), ("later", "a", "b", "c", 1), (), (1,), ("look", 2), ("look",)])
    assert decode(message) == [LookHint()]


def test_of_hints_about_the_same_thing_one_is_kept() -> None:
    pending = Pending()
    assert not pending
    for hint in (events(2), events(5), events(3), Hint(HintKind.INBOX, key()), Hint(HintKind.INBOX, key())):
        pending.add(hint)
    assert set(pending.take()) == {events(5), Hint(HintKind.INBOX, key())}
    assert not pending


def test_more_than_the_limit_and_what_follows_becomes_one_hint_to_look() -> None:
    pending = Pending(limit=2)
    for number in range(5):
        pending.add(events(1, f"t-{number}"))
    assert pending.take() == [LookHint()]
    pending.add(events(1))
    assert pending.take() == [events(1)]
