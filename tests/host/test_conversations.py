"""Conversations, without their messages."""

from __future__ import annotations

import asyncio

import pytest

from parley.host.data.conversations import (
    ConversationNotFoundError,
    Conversations,
    StoredConversation,
    context_id_of,
    conversation_of,
)
from parley.host.data.errors import InvalidValueError
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

NOON = 1_767_225_600


async def test_a_conversation_is_created_changed_and_deleted() -> None:
    clock = FakeClock()
    conversations = Conversations(MemoryStore().records, clock)
    created = await conversations.create(ACME, title="Trip", agent_id="scout", agent_def={"id": "scout"})
    assert created == StoredConversation(
        id=1, title="Trip", agent_id="scout", agent_def={"id": "scout"}, created_at=NOON, updated_at=NOON
    )
    assert created.context_id == "urn:parley:conversation:1"
    assert (created.archived, created.folder_id, created.message_count, created.origin) == (False, None, 0, "api")
    await clock.advance(5)
    changed = await conversations.update(ACME, 1, archived=True)
    assert (changed.title, changed.archived, changed.updated_at) == ("Trip", True, NOON + 5)
    assert await conversations.get(ACME, 1) == changed
    await conversations.delete(ACME, 1)
    for forgotten in (conversations.get(ACME, 1), conversations.delete(ACME, 1), conversations.update(ACME, 1)):
        with pytest.raises(ConversationNotFoundError):
            await forgotten
    assert (await conversations.create(ACME)).id == 2


async def test_each_tenant_counts_for_itself_and_sees_only_its_own() -> None:
    conversations = Conversations(MemoryStore().records, FakeClock())
    mine, theirs = await conversations.create(ACME), await conversations.create(OTHER, title="theirs")
    assert (mine.id, theirs.id) == (1, 1)
    assert (await conversations.list(ACME), await conversations.list(OTHER)) == ([mine], [theirs])
    await conversations.delete(ACME, 1)
    assert await conversations.get(OTHER, 1) == theirs


async def test_conversations_are_listed_in_pages_the_one_that_changed_last_first() -> None:
    clock = FakeClock()
    conversations = Conversations(MemoryStore().records, clock)
    for _ in range(4):
        await conversations.create(ACME)
        await clock.advance(1)
    await conversations.update(ACME, 1, title="again")
    page = await conversations.list(ACME, limit=2)
    assert [one.id for one in page] == [1, 4]
    assert [one.id for one in await conversations.list(ACME, before_updated_at=page[-1].updated_at)] == [3, 2]


async def test_messages_count_once_for_each_key() -> None:
    conversations = Conversations(suspending_records(5), FakeClock())
    await conversations.create(ACME)
    await asyncio.gather(
        *(conversations.add_messages(ACME, 1, messages=2, tokens=7, key=key) for key in ("r1", "r1", "r2", None, None))
    )
    counted = await conversations.get(ACME, 1)
    assert (counted.message_count, counted.total_tokens) == (8, 28)


async def test_a_title_that_is_too_long_changes_nothing() -> None:
    conversations = Conversations(MemoryStore().records, FakeClock())
    created = await conversations.create(ACME)
    with pytest.raises(InvalidValueError, match=r"^\$\.title"):
        await conversations.create(ACME, title="x" * 501)
    with pytest.raises(InvalidValueError, match=r"^\$\.title"):
        await conversations.update(ACME, 1, title="x" * 501)
    assert await conversations.list(ACME) == [created]


def test_a_context_id_names_its_conversation() -> None:
    assert context_id_of(7) == "urn:parley:conversation:7"
    assert conversation_of(context_id_of(7)) == 7
    for other in ("7", "urn:parley:conversation:", "urn:parley:conversation:07", "urn:parley:conversation:7\n", "x"):
        assert conversation_of(other) is None
    for other in ("urn:parley:conversation:-7", "urn:parley:conversation:٧", f"urn:parley:conversation:{'9' * 17}"):
        assert conversation_of(other) is None
