"""The webhooks of tasks: they are registered, read, listed and deleted here, and called by `deliveries`.

A webhook that is registered without an id gets its task's, in place of an earlier one registered so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial

from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.ownership.hints import Hint, HintKind, Hints
from parley.engine.reading.feed import Feeds
from parley.engine.reading.views import find_head
from parley.engine.store_errors import translated
from parley.engine.webhooks.deliveries import Deliveries
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CreatePushConfigRequest,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    ListPushConfigsRequest,
    PushConfigPage,
)
from parley.stores.interface import ConflictError, Store, StoreError, TaskKey

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

    async def create(self, request: CreatePushConfigRequest, caller: Caller, agent: str) -> PushConfig:
        """Register a webhook; it comes back with its id.

        Raises:
            TaskNotFoundError: the caller has no such task.
            InvalidParamsError: the task has too many webhooks.
        """
        with translated:
            key = await self._known(request.task_id, caller, agent)
            return await self.register(key, request.config, caller, agent)

    async def register(
        self, key: TaskKey, config: PushConfig, caller: Caller, agent: str, *, after: int | None = None
    ) -> PushConfig:
        """Register a webhook of a task that is known to be there, for the events after a number. Raises as above."""
        await self.check_room(key, config)
        config = config.of_task(key.task_id)
        try:
            # Shielded from the caller's disconnect: a webhook that is stored must be called.
            await asyncio.shield(self._in_background(self._keep(key, config, caller, agent, after)))
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

    async def check_room(self, key: TaskKey, config: PushConfig | None) -> None:
        """Make sure that a task may have one more webhook. Raises InvalidParamsError if not."""
        if config is None:
            return
        others = [other for other in await self._store.outbox.configs(key) if other.id != (config.id or key.task_id)]
        self.check_number(len(others) + 1)

    def check_number(self, number: int) -> None:
        """Check that a task may have this many webhooks. Raises InvalidParamsError if not."""
        if number > self._limits.push_configs_per_task:
            raise InvalidParamsError(f"A task may have at most {self._limits.push_configs_per_task} webhooks")

    async def get(self, request: GetPushConfigRequest, caller: Caller, agent: str) -> PushConfig:
        """A webhook by its id, or the one registered without.

        Raises:
            TaskNotFoundError: the caller has no such task, or the task no such webhook.
        """
        with translated:
            key = await self._known(request.task_id, caller, agent)
            found = await self._find(key, request.id or DEFAULT_ID)
        if found is None:
            wanted = request.id or DEFAULT_ID
            raise TaskNotFoundError(f"The task has no webhook {wanted!r}", details={"taskId": request.task_id})
        return found

    async def list(self, request: ListPushConfigsRequest, caller: Caller, agent: str) -> PushConfigPage:
        """All webhooks of a task; there are few enough for one page. Raises TaskNotFoundError."""
        with translated:
            key = await self._known(request.task_id, caller, agent)
            return PushConfigPage(tuple(await self._store.outbox.configs(key)))

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
