"""What every store that keeps secrets must do: encrypt them, check its keys, and renew what is plain or old."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest
from msgspec import structs

from parley.engine.sealed_answers import is_left_out
from parley.protocol.events import MessageAdded
from parley.protocol.masking import MASK, SEALED_MESSAGE
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.sealed.errors import SecretError
from parley.sealed.keys import StoreKey, new_key
from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode
from parley.stores.interface import InboxItem, PutRecord, RecordKey, Store, Write
from parley.stores.secret_fields import seal_item
from parley.stores.store_secrets import PAGE, StoreSecrets
from parley.stores.urls import opened
from tests.deadlines import fail_after
from tests.stores.writes import CONTEXT, KEY, NOON, creation

FIRST, SECOND = new_key(), new_key()
HOOK = PushConfig(
    "https://hook.example/a",
    KEY.task_id,
    "h-1",
    "secret-token",
    PushAuthentication(("Bearer",), "secret-credentials", {"clientSecret": "secret-extra", "n": 1}),
)
TOKEN = RecordKey("registry_secrets", "acme", "far")
SERVER = RecordKey("mcp_servers", "acme", "tools")
SERVER_VALUE = {"definition": {"url": "https://mcp.example", "headers": {"X-Key": "secret-header", "X-None": None}}}
PUBLIC = RecordKey("agents", "acme", "a-1")


class Keys:
    """Keys that a test chooses."""

    name = "The keys of the test"

    def __init__(self, *keys: StoreKey) -> None:
        self.keys = keys

    def read(self) -> tuple[StoreKey, ...] | None:
        return self.keys


class SecretStore(Store, Protocol):
    secrets: StoreSecrets


Open = Callable[[Keys], SecretStore]
Execute = Callable[..., Awaitable[list[str]]]
"""Runs a statement, with `?` for values, and returns the first column."""


async def put_all(store: Store) -> None:
    """One secret of each kind, by each way into the store."""
    await store.tasks.write(structs.replace(creation(), webhooks=((HOOK, Version.V1_0),), holder="w"))
    await store.outbox.put(KEY, structs.replace(HOOK, id="h-2"))
    await store.outbox.put(KEY, PushConfig("https://hook.example/open", KEY.task_id, "h-3"))
    await store.inbox.post(InboxItem("i-1", KEY, Version.V1_0, webhook=HOOK))
    await store.records.write(
        PutRecord(TOKEN, {"token": "secret-bearer"}),
        PutRecord(SERVER, SERVER_VALUE),
        PutRecord(PUBLIC, {"token": "a word"}),
    )


async def read_all(store: Store) -> list[object]:
    """What `put_all` has put."""
    records = [await store.records.get(key) for key in (TOKEN, SERVER, PUBLIC)]
    (server,) = await store.records.list("mcp_servers", "acme", limit=5)
    (token,) = await store.records.list_all("registry_secrets", limit=5)
    return [
        *[webhook.config for webhook in await store.outbox.webhooks(KEY)],
        *[item.webhook for item in await store.inbox.items("w")],
        *[record and record.value for record in records],
        server.value,
        token.value,
    ]


EVERYTHING = [
    HOOK,
    structs.replace(HOOK, id="h-2"),
    PushConfig("https://hook.example/open", KEY.task_id, "h-3"),
    HOOK,
    {"token": "secret-bearer"},
    SERVER_VALUE,
    {"token": "a word"},
    SERVER_VALUE,
    {"token": "secret-bearer"},
]


async def texts(execute: Execute) -> str:
    """All columns that may hold a secret."""
    statements = ("SELECT config FROM push_configs", "SELECT item FROM inbox", "SELECT value FROM records")
    return "\n".join([text for statement in statements for text in await execute(statement)])


async def put_what_is_not_renewed(store: Store) -> None:
    """What the engine encrypts for itself: an answer in the log, a credential, and a value of a conversation."""
    sealed = store.sealer.seal("secret-answer", "answer", "acme", "t-1", "m-2")
    message = Message("m-2", Role.USER, (TextPart(MASK),), metadata={SEALED_MESSAGE: sealed})
    answer = MessageAdded(KEY.task_id, "c-1", message)
    await store.tasks.write(Write(KEY, 1, (answer,), TaskState.SUBMITTED, NOON, expected_holder="w", holder="w"))
    credential = {"owner": "ada", "task_id": "t-1", "credential": {"value": "secret-credential"}}
    await store.records.write(PutRecord(RecordKey("task-credentials", "acme", "c"), credential))
    await store.contexts.put(CONTEXT, "credential", store.sealer.seal("secret-value", "own"), at=NOON)


def script_for_a_lost_key(database: str, lost: StoreKey) -> str:
    """What the documentation says to run in a database."""
    page = (Path(__file__).parents[2] / "docs" / "secrets.md").read_text()
    _, _, script = page.partition(f"In {database}:\n\n```sql\n")
    return script.partition("```")[0].replace("KEY.", f"{lost.id}.")


WITHOUT_LOST_SECRETS = [
    ("https://hook.example/a", None),
    ("https://hook.example/a", None),
    ("https://hook.example/open", None),
]


async def check_without_lost_secrets(store: Store) -> None:
    """What is left of `put_all` and `put_what_is_not_renewed` after that script."""
    found = [webhook.config for webhook in await store.outbox.webhooks(KEY)]
    assert [(config.url, config.token) for config in found] == WITHOUT_LOST_SECRETS
    assert [config.authentication for config in found] == [None] * 3
    server = await store.records.get(SERVER)
    assert server is not None
    assert server.value == {"definition": {"url": "https://mcp.example", "headers": {}}}
    assert await store.records.get(TOKEN) is None
    assert await store.records.list_all("task-credentials", limit=5) == []
    assert await store.contexts.get(CONTEXT) == {}
    events = [event for _, event in await store.tasks.events(KEY, after=0, limit=5)]
    (answer,) = [event.message for event in events if isinstance(event, MessageAdded)]
    assert is_left_out(answer)


class SecretsSuite:
    """Subclasses have the fixtures `open_with` and `execute`."""

    async def test_every_secret_is_encrypted_and_read_back(self, open_with: Open, execute: Execute) -> None:
        async with opened(open_with(Keys(FIRST))) as store:
            await put_all(store)
            assert await read_all(store) == EVERYTHING
            found = await texts(execute)
            assert "secret-" not in found
            assert found.count(f"parley-sealed.1.{FIRST.id}.") == 3 * 3 + 2
            assert "https://hook.example/a" in found
            assert "a word" in found

    async def test_a_secret_that_was_moved_to_another_row_is_refused(self, open_with: Open, execute: Execute) -> None:
        """Someone who can write to the database, but has no key, cannot send a secret to a webhook of its own."""
        async with opened(open_with(Keys(FIRST))) as store:
            await put_all(store)
            (text,) = await execute("SELECT config FROM push_configs WHERE id = 'h-1'")
            await execute("UPDATE push_configs SET config = ? WHERE id = 'h-3'", text.replace('"h-1"', '"h-3"'))
            *others, moved = await store.outbox.webhooks(KEY)
        assert [(webhook.config, webhook.problem) for webhook in others] == [(hook, "") for hook in EVERYTHING[:2]]
        assert moved.config == PushConfig(HOOK.url, KEY.task_id, "h-3")
        assert "webhook/acme/t-1/h-3/token" in moved.problem

    async def test_plain_secrets_of_an_earlier_release_are_encrypted(self, open_with: Open, execute: Execute) -> None:
        async with opened(open_with(Keys(FIRST))) as store:
            await store.secrets.close()
            store.sealer._current = None  # as an earlier release wrote
            await put_all(store)
            assert "secret-credentials" in await texts(execute)
        revisions = await execute("SELECT revision FROM records WHERE collection <> 'store_keys'")
        async with opened(open_with(Keys(FIRST))) as store:
            assert "secret-" not in await texts(execute)
            assert await read_all(store) == EVERYTHING
        assert await execute("SELECT revision FROM records WHERE collection <> 'store_keys'") == revisions

    async def test_more_than_a_page_is_encrypted_in_the_background(self, open_with: Open, execute: Execute) -> None:
        await put_plain_webhooks(open_with(Keys(FIRST)), 2 * PAGE + 1)
        with fail_after(20):
            async with opened(open_with(Keys(FIRST))) as store:
                while "secret-" in await texts(execute):
                    await asyncio.sleep(0)
                assert len(await store.outbox.webhooks(KEY)) == 2 * PAGE + 1

    async def test_another_key_takes_over_while_the_store_is_open(self, open_with: Open, execute: Execute) -> None:
        keys = Keys(FIRST)
        async with opened(open_with(keys)) as store:
            await put_all(store)
            keys.keys = (SECOND, FIRST)
            assert await store.secrets.look_for_keys()
            await store.secrets.renew()
            found = await texts(execute)
            assert (FIRST.id in found, found.count(f"parley-sealed.1.{SECOND.id}.")) == (False, 3 * 3 + 2)
            assert await read_all(store) == EVERYTHING
            assert not await store.secrets.look_for_keys()
        async with opened(open_with(Keys(SECOND))) as store:  # the first one is not needed any more
            assert await read_all(store) == EVERYTHING

    async def test_a_store_without_its_key_does_not_open_and_says_which(
        self, open_with: Open, execute: Execute
    ) -> None:
        async with opened(open_with(Keys(FIRST))) as store:
            await put_all(store)
        before = await texts(execute)
        store = open_with(Keys(SECOND))
        with pytest.raises(SecretError) as raised:
            await store.open()
        assert f"key {FIRST.id} (2 webhooks, 2 records, 1 messages that wait)" in str(raised.value)
        assert SECOND.id in str(raised.value)
        assert await texts(execute) == before
        async with opened(open_with(Keys(SECOND, FIRST))) as store:
            assert await read_all(store) == EVERYTHING

    async def test_a_key_that_encrypted_nothing_need_not_be_there(self, open_with: Open, execute: Execute) -> None:
        async with opened(open_with(Keys(FIRST))):
            pass
        async with opened(open_with(Keys(SECOND))):
            assert await execute("SELECT id FROM records WHERE collection = 'store_keys'") == [SECOND.id]

    async def test_one_damaged_row_does_not_keep_the_others_from_being_renewed(
        self, open_with: Open, execute: Execute, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(open_with(Keys(FIRST))) as store:
            await put_all(store)
            moved = store.sealer.seal("secret-bearer", "elsewhere")
            await execute("UPDATE records SET value = ? WHERE id = 'far'", f'{{"token":"{moved}"}}')
        async with opened(open_with(Keys(SECOND, FIRST))) as store:
            assert (await texts(execute)).count(SECOND.id) == 3 * 3 + 1
            assert "A secret of records registry_secrets/acme/far stays as it is" in caplog.text
            assert len(await store.outbox.webhooks(KEY)) == 3

    async def test_one_record_that_cannot_be_read_takes_no_other_out_of_a_list(
        self, open_with: Open, execute: Execute, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(open_with(Keys(FIRST))) as store:
            await put_all(store)
            moved = RecordKey("mcp_servers", "acme", "moved")
            await store.records.write(PutRecord(moved, SERVER_VALUE))
            (text,) = await execute("SELECT value FROM records WHERE id = 'tools'")
            await execute("UPDATE records SET value = ? WHERE id = 'moved'", text)
            whole, unreadable = await store.records.list("mcp_servers", "acme", limit=5)
            assert await store.records.list_all("mcp_servers", limit=5) == [unreadable, whole]
            assert (whole.key, whole.value, whole.problem) == (SERVER, SERVER_VALUE, "")
            headers = {"X-Key": "", "X-None": None}
            assert unreadable.value == {"definition": {"url": "https://mcp.example", "headers": headers}}
            assert (unreadable.key, unreadable.revision) == (moved, 1)
            assert "Set it again" in unreadable.problem
            with pytest.raises(SecretError, match="record/mcp_servers/acme/moved/definition/headers/X-Key"):
                await store.records.get(moved)
        (warning,) = [line for line in caplog.messages if "cannot be read" in line]
        assert warning == f"The secrets of records mcp_servers/acme/moved cannot be read: {unreadable.problem}"

    async def test_an_item_of_the_inbox_waits_until_its_key_is_there_and_the_others_do_not(
        self, open_with: Open, execute: Execute, caplog: pytest.LogCaptureFixture
    ) -> None:
        keys, waiting = Keys(FIRST), InboxItem("i-1", KEY, Version.V1_0, webhook=HOOK)
        async with opened(open_with(keys)) as store:
            await put_all(store)
            await store.inbox.post(InboxItem("i-2", KEY, Version.V1_0))
            of_other_process = encode(seal_item(Sealer([SECOND]), waiting))  # one that got the next key first
            await execute("UPDATE inbox SET item = ? WHERE id = 'i-1'", of_other_process)
            for _ in range(2):
                assert [item.id for item in await store.inbox.items("w")] == ["i-2"]
            assert await store.inbox.has(waiting)
            keys.keys = (SECOND, FIRST)
            await store.secrets.look_for_keys()
            assert [item.webhook for item in await store.inbox.items("w")] == [HOOK, None]
        (warning,) = [line for line in caplog.messages if "cannot be read" in line]
        assert warning.startswith("The secrets of inbox acme/t-1/i-1 cannot be read: ")
        assert warning.endswith("Add that key to the file that --store-key names.")

    async def test_what_the_engine_encrypts_for_itself_counts_as_in_use(
        self, open_with: Open, execute: Execute
    ) -> None:
        async with opened(open_with(Keys(FIRST))) as store:
            sealed = store.sealer.seal("secret-answer", "answer", "acme", "t-1")
            await store.contexts.put(CONTEXT, "credential", sealed, at=NOON)
        with pytest.raises(SecretError, match="1 values of conversations"):
            await open_with(Keys(SECOND)).open()


async def put_plain_webhooks(store: SecretStore, number: int) -> None:
    """Webhooks as an earlier release wrote them."""
    async with opened(store):
        await store.secrets.close()
        store.sealer._current = None
        await store.tasks.write(creation(state=TaskState.WORKING))
        configs = [structs.replace(HOOK, id=f"h-{each:05d}") for each in range(number)]
        await asyncio.gather(*[store.outbox.put(KEY, config) for config in configs])
