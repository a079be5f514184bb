"""What callers may see of the deliveries to their webhooks, and ask for: sending events again, and resuming.

These operations are not part of A2A. Each first looks for the task among those of the caller with this agent: a task of
another owner, tenant or agent looks like one that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from parley.engine.caller import Caller
from parley.engine.observer import WebhookChange
from parley.engine.reading.views import find_head
from parley.engine.store_errors import translated
from parley.engine.webhooks.configs import DEFAULT_ID
from parley.engine.webhooks.retries import status_of
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.push_deliveries import DeliveryStatus
from parley.stores.interface import TaskKey, Webhook

if TYPE_CHECKING:
    from parley.engine.engine import Engine

MAX_PAGE = 100
"""Webhooks in one page."""


class DeliveriesPage(Struct, frozen=True):
    """Some of a caller's webhooks, and the task and the id after which the next page begins, if there may be one."""

    webhooks: tuple[Webhook, ...]
    next_after: tuple[str, str] | None = None


class DeliveryOperations:
    """The operations on the deliveries of one agent's tasks."""

    __slots__ = ("_agent_id", "_engine")

    def __init__(self, engine: Engine, agent_id: str) -> None:
        self._engine = engine
        self._agent_id = agent_id

    async def list(
        self,
        caller: Caller,
        *,
        task_id: str | None = None,
        status: DeliveryStatus | None = None,
        after: tuple[str, str] | None = None,
        limit: int = MAX_PAGE,
    ) -> DeliveriesPage:
        """The webhooks of a task; or, without one, all that fail, are paused, or have dead letters.

        Raises:
            TaskNotFoundError: the caller has no such task.
        """
        with translated:
            if task_id is not None:
                head = await find_head(self._engine.store, TaskKey(caller.owner, task_id), self._agent_id)
                found = await self._engine.store.outbox.webhooks(head.key)
                return DeliveriesPage(tuple(each for each in found if status in (None, status_of(each))))
            return await self._failing(caller, status, after, min(limit, MAX_PAGE))

    async def _failing(
        self, caller: Caller, status: DeliveryStatus | None, after: tuple[str, str] | None, limit: int
    ) -> DeliveriesPage:
        wanted: list[Webhook] = []
        while True:
            page = await self._engine.store.outbox.failing(
                caller.owner, agent=self._agent_id, after=after, limit=MAX_PAGE
            )
            for webhook in page:
                after = webhook.key.task_id, webhook.config.id or ""
                if status in (None, status_of(webhook)):
                    wanted.append(webhook)
                if len(wanted) == limit:
                    return DeliveriesPage(tuple(wanted), after)
            if len(page) < MAX_PAGE:
                return DeliveriesPage(tuple(wanted))

    async def get(self, task_id: str, config_id: str, caller: Caller) -> Webhook:
        """A webhook, with its deliveries.

        Raises:
            TaskNotFoundError: the caller has no such task, or the task no such webhook.
        """
        with translated:
            head = await find_head(self._engine.store, TaskKey(caller.owner, task_id), self._agent_id)
            found = {each.config.id or "": each for each in await self._engine.store.outbox.webhooks(head.key)}
        webhook = found.get(config_id) or (found.get(task_id) if config_id == DEFAULT_ID else None)
        if webhook is None:
            raise TaskNotFoundError(f"The task has no webhook {config_id!r}", details={"taskId": task_id})
        return webhook

    async def redeliver(self, task_id: str, config_id: str, caller: Caller, *, after: int | None = None) -> Webhook:
        """Send the events after a number again; without one, from the first dead letter on. Returns the webhook then.

        Raises:
            TaskNotFoundError: the caller has no such task, or the task no such webhook.
            InvalidParamsError: the task has no such event.
        """
        webhook = await self.get(task_id, config_id, caller)
        if after is not None and not 0 <= after <= webhook.last_seq:
            raise InvalidParamsError(f"The task has {webhook.last_seq} events", path="$.after")
        config_id = webhook.config.id or ""
        with translated:
            await self._engine.webhooks.send_again(webhook.key, config_id, after=after)
        return await self._changed(webhook, caller, "redelivered")

    async def resume(self, task_id: str, config_id: str, caller: Caller) -> Webhook:
        """Call a webhook at once, although it is paused or waits for its next attempt. Returns the webhook after that.

        Raises:
            TaskNotFoundError: the caller has no such task, or the task no such webhook.
        """
        webhook = await self.get(task_id, config_id, caller)
        with translated:
            await self._engine.webhooks.resume(webhook.key, webhook.config.id or "")
        return await self._changed(webhook, caller, "resumed")

    async def _changed(self, webhook: Webhook, caller: Caller, change: WebhookChange) -> Webhook:
        config_id = webhook.config.id or ""
        if self._engine.observer is not None:
            self._engine.observer.webhook_changed(webhook.key, webhook.agent, config_id, change, caller=caller)
        return await self.get(webhook.key.task_id, config_id, caller)
