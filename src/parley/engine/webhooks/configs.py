"""The webhooks of tasks: they are registered, read, listed and deleted here, and called by `deliveries`.

A webhook that is registered without an id gets its task's, in place of an earlier one registered so.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from datetime import datetime
from functools import partial
from weakref import WeakValueDictionary

from parley.cluster.hints import Hint, HintKind, Hints
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.outliving import outliving
from parley.engine.reading.feed import Feeds
from parley.engine.reading.views import find_head
from parley.engine.store_errors import translated
from parley.engine.webhooks.deliveries import Deliveries
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.masking import masked, with_kept_secrets
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CreatePushConfigRequest,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    ListPushConfigsRequest,
    PushConfigPage,
)
from parley.stores.interface import ConflictError, Store, StoreError, TaskKey, Webhook

DEFAULT_ID = "default"
"""The name that some peers use for the webhook that was registered without an id."""


class Webhooks:
    """The operations on webhooks. Each first makes sure that the task is the caller's."""

    def __init__(
        self,
        store: Store,
        feeds: Feeds,
        limits: Limits,
        *,
        deliveries: Deliveries | None = None,
        hints: Hints | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._store = store
        self._feeds = feeds
        self._limits = limits
        self._deliveries = deliveries
        self._hints = hints
        self._observer = observer
        self._background: set[asyncio.Task[None]] = set()
        self._registering: WeakValueDictionary[TaskKey, asyncio.Lock] = WeakValueDictionary()

    async def create(self, request: CreatePushConfigRequest, caller: Caller, agent: str) -> PushConfig:
        """Register a webhook; it comes back with its id, and with masks for its secrets.

        Raises:
            TaskNotFoundError: the caller has no such task.
            InvalidParamsError: the task has too many webhooks, or a secret is a mask and none is stored.
        """
        with translated:
            key = await self._known(request.task_id, caller, agent)
            return masked(await self.register(key, request.config, caller, agent))

    async def register(
        self, key: TaskKey, config: PushConfig, caller: Caller, agent: str, *, after: int | None = None
    ) -> PushConfig:
        """Register a webhook of a task that is known to be there, for the events after a number. Raises as above."""
        async with self._registering.setdefault(key, asyncio.Lock()):  # one by one, so that each counts those before it
            config = (await self.completed(key, config)).of_task(key.task_id)
            try:
                # Also if the caller disconnects: a webhook that is stored must be called.
                await outliving(self._in_background(self._keep(key, config, caller, agent, after)))
            except ConflictError:  # deleted a moment ago
                raise TaskNotFoundError.for_task(key.task_id) from None
        return config

    async def _keep(self, key: TaskKey, config: PushConfig, caller: Caller, agent: str, after: int | None) -> None:
        worker = "" if self._deliveries is None else self._deliveries.worker
        await self._store.outbox.put(key, config, version=caller.version, after=after, holder=worker)
        self.kept(key, config, caller, agent)
        if self._hints is not None:
            self._hints.publish(Hint(HintKind.OUTBOX, key))

    def kept(self, key: TaskKey, config: PushConfig, caller: Caller, agent: str) -> None:
        """Begin to call a webhook that was just stored."""
        self._watch(key)
        if self._observer is not None:
            self._observer.push_config_changed(key, agent, caller, "created", config.id or key.task_id)

    def watch(self, key: TaskKey) -> None:
        """Notify the deliveries of events of a continued task, if it has webhooks. Call it after its run begins."""
        if self._deliveries is not None:
            self._in_background(self._watch_if_wanted(key))  # whether or not the caller waits

    async def _watch_if_wanted(self, key: TaskKey) -> None:
        try:
            is_wanted = len(await self._store.outbox.configs(key)) > 0
        except StoreError:
            is_wanted = True  # they will look again
        if is_wanted:
            self._watch(key)

    def _in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def notify(self, key: TaskKey) -> None:
        """Let the deliveries check whether a task has webhooks that are behind."""
        if self._deliveries is not None:
            self._deliveries.notify(key)

    @property
    def pending(self) -> int:
        """How many webhooks are behind, of those that this worker knows."""
        return 0 if self._deliveries is None else self._deliveries.pending

    def next_attempt_at(self, webhook: Webhook) -> datetime | None:
        """When a webhook is called again, if it pauses."""
        if self._deliveries is not None:
            return self._deliveries.next_attempt_at(webhook)
        return None if webhook.failure is None else webhook.failure.next_at

    async def send_again(self, key: TaskKey, config_id: str, *, after: int | None = None) -> bool:
        """Deliver the events after a number again, or without one those that were not delivered, now.

        Events that were given up count as not delivered. A paused webhook is resumed. Return False if there is no such
        webhook.
        """
        webhooks = await self._store.outbox.webhooks(key)
        letters = next((each.dead_letters for each in webhooks if (each.config.id or "") == config_id), None)
        if letters is None:
            return False
        if after is None and letters:
            after = min(letter.first_seq for letter in letters) - 1
        return await self._rewind(key, config_id, after if after is not None else sys.maxsize)

    async def resume(self, key: TaskKey, config_id: str) -> bool:
        """Call a webhook at once, also if it is paused or waits for its next attempt. Return False if there is none."""
        return await self._rewind(key, config_id, sys.maxsize)

    async def _rewind(self, key: TaskKey, config_id: str, seq: int) -> bool:
        worker = "" if self._deliveries is None else self._deliveries.worker
        if not await self._store.outbox.rewind(key, config_id, seq, holder=worker):
            return False
        self.send_now(key)
        if self._hints is not None:  # another worker may have the task in its outbox
            self._hints.publish(Hint(HintKind.OUTBOX, key))
        return True

    def send_now(self, key: TaskKey) -> None:
        """Let the deliveries call the webhooks of a task that are behind, whether or not they pause."""
        if self._deliveries is not None:
            self._deliveries.send_now(key)

    def send_now_if_known(self, key: TaskKey) -> None:
        """The same, if this worker calls the webhooks of the task."""
        if self._deliveries is not None and self._deliveries.holds(key):
            self._deliveries.send_now(key)

    def sweep(self) -> None:
        """Let the deliveries look for webhooks that no live worker delivers to."""
        if self._deliveries is not None:
            self._deliveries.sweep()

    def _watch(self, key: TaskKey) -> None:
        if self._deliveries is None:
            return
        feed = self._feeds.get(key)
        if feed is not None:
            feed.on_publish = partial(self._deliveries.notify, key)
        self._deliveries.notify(key)

    async def completed(self, key: TaskKey, config: PushConfig) -> PushConfig:
        """A webhook for a task, with stored secrets in place of masks.

        Raises:
            InvalidParamsError: the task may not have one more webhook, or a secret is a mask and none is stored.
        """
        others = {other.id: other for other in await self._store.outbox.configs(key)}
        earlier = others.pop(config.id or key.task_id, None)
        self.check_number(len(others) + 1)
        return with_kept_secrets(config, earlier)

    def check_first(self, config: PushConfig, *, has_task: bool) -> None:
        """Check the webhook of a message that has a task, or may have one. Raises InvalidParamsError."""
        with_kept_secrets(config, None)
        if has_task:
            self.check_number(1)

    def check_number(self, number: int) -> None:
        """Check that a task may have this many webhooks. Raises InvalidParamsError if not."""
        if number > self._limits.push_configs_per_task:
            raise InvalidParamsError(f"A task may have at most {self._limits.push_configs_per_task} webhooks")

    async def get(self, request: GetPushConfigRequest, caller: Caller, agent: str) -> PushConfig:
        """A webhook by its id, or the one registered without, with masks for its secrets.

        Raises:
            TaskNotFoundError: the caller has no such task, or the task no such webhook.
        """
        with translated:
            key = await self._known(request.task_id, caller, agent)
            found = await self._find(key, request.id or DEFAULT_ID)
        if found is None:
            wanted = request.id or DEFAULT_ID
            raise TaskNotFoundError(f"The task has no webhook {wanted!r}", details={"taskId": request.task_id})
        return masked(found)

    async def list(self, request: ListPushConfigsRequest, caller: Caller, agent: str) -> PushConfigPage:
        """All webhooks of a task, with masks; there are few enough for one page. Raises TaskNotFoundError."""
        with translated:
            key = await self._known(request.task_id, caller, agent)
            return PushConfigPage(tuple(map(masked, await self._store.outbox.configs(key))))

    async def delete(self, request: DeletePushConfigRequest, caller: Caller, agent: str) -> None:
        """Remove the webhook that `get` shows; without one, nothing happens.

        Raises:
            TaskNotFoundError: the caller has no such task.
        """
        with translated:
            key = await self._known(request.task_id, caller, agent)
            found = await self._find(key, request.id)
            config_id = (found and found.id) or request.id
            await self._store.outbox.delete(key, config_id)
        if self._observer is not None:
            self._observer.push_config_changed(key, agent, caller, "deleted", config_id)

    async def _find(self, key: TaskKey, config_id: str) -> PushConfig | None:
        """The webhook of this id; `default` is also the one registered without an id, unless another has that id."""
        configs = {config.id: config for config in await self._store.outbox.configs(key)}
        return configs.get(config_id) or (configs.get(key.task_id) if config_id == DEFAULT_ID else None)

    async def _known(self, task_id: str, caller: Caller, agent: str) -> TaskKey:
        return (await find_head(self._store, TaskKey(caller.owner, task_id), agent)).key
