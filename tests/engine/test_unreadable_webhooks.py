"""A webhook whose secrets cannot be read is not called, and says so; all others are called as ever."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.reading.feed import Feeds
from parley.engine.webhooks.configs import Webhooks
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.protocol.errors import InvalidParamsError
from parley.protocol.masking import MASK
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import DeletePushConfigRequest, ListPushConfigsRequest
from parley.sealed.keys import new_key
from parley.stores.interface import Owner, TaskKey
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened
from tests.deadlines import fail_after
from tests.engine.test_deliveries import Clock, Inbox, delivering
from tests.stores.secrets_suite import Keys
from tests.stores.writes import KEY, addition, creation

pytestmark = pytest.mark.anyio

OTHER = TaskKey(Owner("umbrella", "eve"), "u-1")


def hook(key: TaskKey, config_id: str) -> PushConfig:
    proof = PushAuthentication(("Bearer",), "secret-credentials")
    return PushConfig(f"https://{config_id}.example", key.task_id, config_id, "secret-token", proof)


async def put_all(store: SqliteStore, file: Path) -> None:
    """Two webhooks of one task, of which the first cannot be read, and one of another tenant's."""
    for key in (KEY, OTHER):
        await store.tasks.write(creation(key))
        await store.tasks.write(addition(1, key))
    for key, config_id in ((KEY, "broken"), (KEY, "whole"), (OTHER, "other")):
        await store.outbox.put(key, hook(key, config_id), after=0)
    with closing(sqlite3.connect(file)) as shell, shell:
        (text,) = shell.execute("SELECT config FROM push_configs WHERE id = 'whole'").fetchone()
        moved = text.replace('"whole"', '"broken"')
        shell.execute("UPDATE push_configs SET config = ? WHERE id = 'broken'", (moved,))


async def test_a_webhook_whose_secrets_cannot_be_read_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, inbox, clock = tmp_path / "tasks.db", Inbox(), Clock()
    async with opened(SqliteStore(file, keys=Keys(new_key()))) as store:
        await put_all(store, file)
        async with delivering(store, inbox, clock=clock, limits=DeliveryLimits(attempts=2)) as deliveries:
            await inbox.until(lambda: len(inbox.got) == 2)
            await clock.wait_for_sleeper(1)
            broken, whole = await store.outbox.webhooks(KEY)
            with fail_after(5):  # until the delivery is noted
                while whole.delivered_seq < whole.last_seq:
                    await asyncio.sleep(0.01)
                    broken, whole = await store.outbox.webhooks(KEY)
            assert broken.failure is not None
            assert (broken.failure.attempts, broken.failure.text) == (1, "The server cannot read its secrets")
            assert (whole.failure, whole.delivered_seq) == (None, whole.last_seq)
            await store.outbox.put(KEY, hook(KEY, "broken"))
            deliveries.notify(KEY)
            await inbox.until(lambda: len(inbox.got) == 3)
    assert sorted(told.config.id or "" for told in inbox.got) == ["broken", "other", "whole"]
    assert all(told.config.token == "secret-token" for told in inbox.got)
    assert "webhook/acme/t-1/broken/token" in caplog.text


async def test_a_webhook_whose_secrets_cannot_be_read_is_listed_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    async with opened(SqliteStore(file, keys=Keys(new_key()))) as store:
        await put_all(store, file)
        limits = Limits()
        webhooks, ada = Webhooks(store, Feeds(store, limits), limits), Caller(KEY.owner.name, KEY.owner.tenant)
        page = await webhooks.list(ListPushConfigsRequest(KEY.task_id), ada, "cook")
        assert [config.id for config in page.configs] == ["broken", "whole"]
        kept = structs.replace(hook(KEY, "broken"), token=MASK)
        with pytest.raises(InvalidParamsError, match="there is none"):
            await webhooks.register(KEY, kept, ada, "cook")
        await webhooks.delete(DeletePushConfigRequest(KEY.task_id, "broken"), ada, "cook")
        assert [config.id for config in await store.outbox.configs(KEY)] == ["whole"]
