"""Relays the agent's notifications to callers' webhooks, each in the caller's dialect.

The agent's webhook is an inbox, a URL of the proxy with a random token. From there notifications go to the webhooks of
the task's caller: in order, with retries, and checked by the server's guard.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from weakref import WeakValueDictionary

from msgspec import structs

from parley.client.webhooks import TOKEN_HEADER, PushNotification, WebhookReceiver
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.reading.feed import Feeds
from parley.engine.webhooks.configs import Webhooks
from parley.engine.webhooks.deliveries import Deliveries
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    PeerProtocolError,
    TaskNotFoundError,
    UnavailableError,
)
from parley.protocol.events import StreamEvent
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.addressing import Addressing
from parley.proxy.caller_view import CallerView
from parley.proxy.inboxes import NotificationInbox, NotificationInboxes, key_of, scoped
from parley.proxy.trace import Trace
from parley.proxy.upstream import Upstream
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.http import AsgiRequest, reply_error
from parley.server.limits import ServerLimits
from parley.stores.interface import Store, TaskKey

logger = logging.getLogger(__name__)

PATH = "/.parley/notifications/"
"""The path of all inboxes."""


class Relay:
    """The operations on webhooks, and the inboxes. `url` is the URL at which the agent reaches the proxy."""

    path = PATH

    def __init__(
        self,
        upstream: Upstream,
        addressing: Addressing,
        *,
        agent: str,
        url: str,
        store: Store,
        deliveries: Deliveries,
        limits: ServerLimits | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._upstream = upstream
        self._addressing = addressing
        self._store = store
        self.url = f"{url.rstrip('/')}{PATH}"
        self._inboxes = NotificationInboxes(store, deliveries, agent=agent, url=self.url)
        self._limits = limits or ServerLimits()
        self._trace = trace
        self._bodies = BodyBudget(self._limits.bodies_bytes)
        self._agent = agent
        self._webhooks = Webhooks(store, Feeds(store, Limits()), Limits(), deliveries=deliveries)
        self._opening: WeakValueDictionary[TaskKey, asyncio.Lock] = WeakValueDictionary()

    # --- requests of callers ------------------------------------------------------------------------------------------

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook, and the proxy's own at the agent if it is the first of its task."""
        with self._upstream.working():
            asked, key = self._addressing.of_task(request, caller), key_of(caller, request.task_id)
            async with self._opening.setdefault(key, asyncio.Lock()):
                if self._inboxes.of(key) is None:
                    await self._register(self._addressing.view(caller), asked)
            return await self._webhooks.create(request, scoped(caller), self._agent)

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook."""
        with self._upstream.working():
            if not await self._has_webhooks(request.task_id, caller):
                raise TaskNotFoundError("The task has no webhooks", details={"taskId": request.task_id})
            return await self._webhooks.get(request, scoped(caller), self._agent)

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """Read all webhooks of a task."""
        with self._upstream.working():
            if not await self._has_webhooks(request.task_id, caller):
                return r.PushConfigPage(())
            return await self._webhooks.list(request, scoped(caller), self._agent)

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove a webhook, and the proxy's own at the agent if it was the last of its task."""
        with self._upstream.working():
            if not await self._has_webhooks(request.task_id, caller):
                return
            await self._webhooks.delete(request, scoped(caller), self._agent)
            inbox = self._inboxes.of(key_of(caller, request.task_id))
            if inbox is None or inbox.key is None or await self._store.outbox.configs(inbox.key):
                return
            await self._inboxes.forget(inbox)
            wanted = r.DeletePushConfigRequest(inbox.remote_id or "", inbox.config.id or "", tenant=inbox.tenant)
            with suppress(A2AError):  # its dialect may have no deletion; notifications find no inbox any more
                await self._upstream.client.delete_push_config(wanted)

    async def _has_webhooks(self, name: str, caller: Caller) -> bool:
        """Whether webhooks of a task are known. Raises TaskNotFoundError: the caller has no such task."""
        wanted = self._addressing.of_task(r.GetTaskRequest(name), caller)
        if self._inboxes.of(key_of(caller, name)) is not None:
            return True
        await self._upstream.client.get_task(wanted)
        return False

    async def _register(self, view: CallerView, asked: r.CreatePushConfigRequest) -> None:
        """Open an inbox for a task and register it at the agent."""
        task = view.task(await self._upstream.read(asked.task_id, asked.tenant))
        inbox = self._inboxes.make(view, asked.tenant)
        inbox.remote_id = asked.task_id
        try:
            await self._inboxes.open(inbox, task)
            config = structs.replace(inbox.config, task_id=asked.task_id)
            await self._upstream.client.create_push_config(structs.replace(asked, config=config))
        except InvalidParamsError as error:
            await self._inboxes.forget(inbox)
            raise UnavailableError(f"The agent does not accept the proxy's own webhook: {error}") from error
        except BaseException:
            await self._inboxes.forget(inbox)
            raise

    # --- webhooks of sends --------------------------------------------------------------------------------------------

    async def expect(
        self, asked: r.SendMessageRequest, view: CallerView
    ) -> tuple[r.SendMessageRequest, NotificationInbox | None]:
        """The send with the proxy's webhook instead of the caller's, and its inbox."""
        config = asked.configuration.push_config
        if config is None:
            return asked, None
        inbox = self._known(asked.message.task_id, view.caller)
        if inbox is None:
            inbox = self._inboxes.make(view, asked.tenant)
        elif inbox.key is not None:
            await self._webhooks.check_room(inbox.key, config)
        inbox.waiting.append(config)
        configuration = structs.replace(asked.configuration, push_config=inbox.config)
        return structs.replace(asked, configuration=configuration), inbox

    def _known(self, remote_id: str | None, caller: Caller) -> NotificationInbox | None:
        """The inbox of a task that a send continues, if it has one."""
        if remote_id is None:
            return None
        name = self._addressing.ledger.tasks.name_of(caller, remote_id) or remote_id
        inbox = self._inboxes.of(key_of(caller, name))
        return inbox if inbox is not None and inbox.remote_id == remote_id else None

    async def begin(self, inbox: NotificationInbox, event: StreamEvent) -> None:
        """Learn from the agent's answer which task a send has started, and register the caller's webhook for it."""
        async with inbox.lock:
            await self._begin(inbox, event)

    async def _begin(self, inbox: NotificationInbox, event: StreamEvent) -> None:
        if not inbox.waiting:
            return
        if isinstance(event, Message):
            if inbox.key is None:
                await self._inboxes.forget(inbox)  # there is no task
            return
        if inbox.key is None:
            shown = inbox.view.event(event)
            assert not isinstance(shown, Message)
            inbox.remote_id = event.id if isinstance(event, Task) else event.task_id
            name = shown.id if isinstance(shown, Task) else shown.task_id
            history = shown.history[:1] if isinstance(shown, Task) else ()
            # The webhook gets all later changes from the agent's notifications.
            await self._inboxes.open(
                inbox, Task(name, shown.context_id, TaskStatus(TaskState.SUBMITTED), history=history)
            )
        while inbox.waiting and inbox.key is not None:
            await self._webhooks.register(inbox.key, inbox.waiting.pop(0), inbox.view.caller, self._agent)

    async def abandon(self, inbox: NotificationInbox, config: PushConfig | None) -> None:
        """Remove the webhook of a send that has failed."""
        if config in inbox.waiting:
            inbox.waiting.remove(config)
        if inbox.key is None:
            await self._inboxes.forget(inbox)

    # --- notifications of the agent -----------------------------------------------------------------------------------

    async def receive(self, request: AsgiRequest) -> None:
        """Handle a request of the agent to an inbox."""
        inbox = self._inboxes.named(request.path.removeprefix(PATH))
        try:
            if inbox is None:
                raise TaskNotFoundError("There is no such inbox")
            if request.verb == "GET" and (proof := request.query.get("validationToken")):
                await request.reply(200, proof[0].encode(), b"text/plain")  # how 0.1 verifies a webhook
                return
            body = await request.read_json_body(self._limits, self._bodies)
            # The random URL authenticates the agent: not every agent sends the token.
            await self._receiver(inbox).receive({**request.headers, TOKEN_HEADER: inbox.token}, body)
        except PeerProtocolError as error:
            logger.warning("A notification of the agent is not valid: %s", error)
            await reply_error(request, Version.V1_0, InvalidParamsError(str(error)))
        except Exception as error:  # here a request ends
            await reply_error(request, Version.V1_0, error)
        else:
            await request.reply(200, b"{}")

    def _receiver(self, inbox: NotificationInbox) -> WebhookReceiver:
        """Decodes the notifications of an inbox in any dialect, and drops repeats."""

        async def handle(notification: PushNotification) -> None:
            if self._trace is not None:
                self._trace.notified(notification.event, self._upstream.version)
            async with inbox.lock:
                await self._begin(inbox, notification.event)
                await self._inboxes.write(inbox, notification.event)

        if inbox.receiver is None:
            inbox.receiver = WebhookReceiver(inbox.config, handle)
        return inbox.receiver
