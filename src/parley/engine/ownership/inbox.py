"""Messages and cancels for tasks that another worker holds.

Only the worker that holds a task appends to it. Another one that gets a message or a cancel for the task leaves it in
the store, gives a hint, and waits until it was taken. The holder takes it when it hears the hint or looks by itself.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from parley.cluster.hints import Hint, HintKind
from parley.engine.caller import Caller
from parley.engine.runs.run import Run
from parley.protocol.errors import ParleyError
from parley.stores.interface import ConflictError, InboxItem, StoreError

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)


async def forward_to_holder(engine: Engine, item: InboxItem, holder: str, agent: str) -> bool:
    """Leave an item for the worker that holds its task, and return when it was taken.

    False if it was not, because the task has ended, waits for its caller, or is held by another worker or a dead one.
    """
    key, inbox = item.key, engine.store.inbox
    try:
        await inbox.post(item)
    except ConflictError:
        return False
    if engine.hints is not None:
        engine.hints.publish(Hint(HintKind.INBOX, key))
    feed = engine.feeds.use(key, agent)
    try:
        while await inbox.has(item):
            head = await engine.store.tasks.head(key)
            if head is None or head.holder != holder or not await engine.claims.may_be_alive(holder):
                return not await inbox.withdraw(item)
            with suppress(TimeoutError):
                async with engine.clock.timeout(engine.limits.poll_seconds):
                    await feed.wait()
    except BaseException:  # the caller went away, or this worker stops: a later run must not get the item
        engine.in_background(_withdraw(engine, item))
        raise
    finally:
        engine.feeds.release(key, feed)
    return True


async def _withdraw(engine: Engine, item: InboxItem) -> None:
    with suppress(StoreError):
        await engine.store.inbox.withdraw(item)


class InboxReader:
    """Takes what other workers leave for the tasks that this one holds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._under_way: set[str] = set()
        self._is_reading = self._must_read = False

    async def read(self) -> None:
        """Handle all items in the inbox. Hints that come while it is read are followed by one more read.

        Raises:
            StoreError: it cannot be read now.
        """
        self._must_read = True
        if self._is_reading:
            return
        self._is_reading = True
        try:
            while self._must_read:
                self._must_read = False
                await self._read_once()
        finally:
            self._is_reading = False

    async def _read_once(self) -> None:
        engine = self._engine
        for item in await engine.store.inbox.items(engine.lease.worker):
            run = engine.runs.find(item.key)
            if run is not None and not run.is_closed and item.id not in self._under_way:
                self._under_way.add(item.id)
                engine.in_background(self._take(item, run))

    async def _take(self, item: InboxItem, run: Run) -> None:
        try:
            if item.message is not None and item.send is not None:
                await self._take_message(item, run)
            else:
                await self._engine.runs.cancel(run)
                await self._engine.store.inbox.withdraw(item)
        except ParleyError as error:  # it stays in the inbox and is retried
            text = "Task %s: a request from another worker was not taken now: %s"
            logger.warning(text, item.key.task_id, error, extra=run.log_fields)
        finally:
            self._under_way.discard(item.id)

    async def _take_message(self, item: InboxItem, run: Run) -> None:
        """Add a message to a run, unless this worker has received the same message itself."""
        sends, owner = self._engine.sends, item.key.owner
        assert item.message is not None
        assert item.send is not None
        if await sends.find(owner, item.send[0]) is not None:
            await self._engine.credentials.delete_unused(owner, item.message)
            await self._engine.store.inbox.withdraw(item)
            return
        if run.is_closed:
            sends.release(owner, item.send[0])
            return
        caller = Caller(owner.name, owner.tenant, version=item.version)
        run.add_message(item.message, item.send, item.webhook, caller, item=item.id)
        await run.settle()
