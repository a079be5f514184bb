"""Calls the webhooks of callers: the agent notifies the proxy, which notifies callers in their own versions.

The proxy registers webhooks of its own at the agent, with secret URLs. Notifications that arrive there are delivered to
the webhooks of the task's caller: in order, with retries, and only to URLs that the webhook policy allows.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

from msgspec import structs

from parley.client.webhooks.notification import PushNotification
from parley.client.webhooks.proofs import TOKEN_HEADER
from parley.client.webhooks.receiver import WebhookReceiver
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
from parley.protocol.masking import with_kept_secrets
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.id_mapping import CallerView, IdMapping
from parley.proxy.trace import Direction, Trace
from parley.proxy.upstream import Upstream
from parley.proxy.upstream_webhooks import UpstreamWebhook, UpstreamWebhooks, key_of, scoped
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.http import AsgiRequest, reply_error
from parley.server.limits import ServerLimits
from parley.stores.interface import Store, TaskKey

logger = logging.getLogger(__name__)

PATH = "/.parley/notifications/"
"""The prefix of the paths that the agent calls."""


class WebhookRelay:
    """The operations on webhooks, and the route that the agent calls. `url` is the proxy's URL for the agent."""

    path = PATH

    def __init__(
        self,
        upstream: Upstream,
        ids: IdMapping,
        *,
        agent: str,
        url: str,
        store: Store,
        deliveries: Deliveries,
        limits: ServerLimits | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.url = f"{url.rstrip('/')}{PATH}"
        self._upstream = upstream
        self._ids = ids
        self._store = store
        self._own = UpstreamWebhooks(store, deliveries, agent=agent, url=self.url)
        self._limits = limits or ServerLimits()
        self._trace = trace
        self._bodies = BodyBudget(self._limits.bodies_bytes)
        self._agent = agent
        self._webhooks = Webhooks(store, Feeds(store, Limits()), Limits(), deliveries=deliveries)
        self._registering: WeakValueDictionary[TaskKey, asyncio.Lock] = WeakValueDictionary()

    # --- operations of callers ----------------------------------------------------------------------------------------

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook, and one of the proxy's own at the agent if it is the first of its task."""
        with self._upstream.working():
            forwarded, key = self._ids.for_task(request, caller), key_of(caller, request.task_id)
            async with self._registering.setdefault(key, asyncio.Lock()):
                if key not in self._own.by_key:
                    await self._register(self._ids.view(caller), forwarded)
            return await self._webhooks.create(request, scoped(caller), self._agent)

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook."""
        with self._upstream.working():
            if await self._find(request.task_id, caller) is None:
                raise TaskNotFoundError("The task has no webhooks", details={"taskId": request.task_id})
            return await self._webhooks.get(request, scoped(caller), self._agent)

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """List all webhooks of a task."""
        with self._upstream.working():
            if await self._find(request.task_id, caller) is None:
                return r.PushConfigPage(())
            return await self._webhooks.list(request, scoped(caller), self._agent)

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove a webhook, and the proxy's own at the agent if it was the last of its task."""
        with self._upstream.working():
            own = await self._find(request.task_id, caller)
            if own is None:
                return
            await self._webhooks.delete(request, scoped(caller), self._agent)
            if own.key is None or await self._store.outbox.configs(own.key):
                return
            await self._own.remove(own)
            forwarded = r.DeletePushConfigRequest(own.remote_id or "", own.config.id or "", tenant=own.tenant)
            with suppress(A2AError):  # its version may not have it; its notifications are refused from now on
                await self._upstream.client.delete_push_config(forwarded)

    async def _find(self, name: str, caller: Caller) -> UpstreamWebhook | None:
        """The proxy's webhook for a task. Raises TaskNotFoundError if the caller has no such task."""
        forwarded = self._ids.for_task(r.GetTaskRequest(name), caller)
        own = self._own.by_key.get(key_of(caller, name))
        if own is None:
            await self._upstream.client.get_task(forwarded)
        return own

    async def _register(self, view: CallerView, forwarded: r.CreatePushConfigRequest) -> None:
        """Register a webhook of the proxy for a task at the agent."""
        task = view.task(await self._upstream.read(forwarded.task_id, forwarded.tenant))
        own = self._own.create(view, forwarded.tenant)
        own.remote_id = forwarded.task_id
        try:
            await self._own.open(own, task)
            config = structs.replace(own.config, task_id=forwarded.task_id)
            await self._upstream.client.create_push_config(structs.replace(forwarded, config=config))
        except BaseException as error:
            await self._own.remove(own)
            if isinstance(error, InvalidParamsError):
                raise UnavailableError(f"The agent refuses the proxy's own webhook: {error}") from error
            raise

    # --- webhooks of messages -----------------------------------------------------------------------------------------

    async def replace_webhook(
        self, forwarded: r.SendMessageRequest, view: CallerView
    ) -> tuple[r.SendMessageRequest, UpstreamWebhook | None]:
        """The request with a webhook of the proxy instead of the caller's, and that webhook."""
        config = forwarded.configuration.push_config
        if config is None:
            return forwarded, None
        own = self._find_continued(forwarded.message.task_id, view.caller)
        if own is None:
            with_kept_secrets(config, None)
            own = self._own.create(view, forwarded.tenant)
        elif own.key is not None:
            await self._webhooks.completed(own.key, config)
        own.pending.append(config)
        configuration = structs.replace(forwarded.configuration, push_config=own.config)
        return structs.replace(forwarded, configuration=configuration), own

    def _find_continued(self, remote_id: str | None, caller: Caller) -> UpstreamWebhook | None:
        """The proxy's webhook for a task that a message continues."""
        if remote_id is None:
            return None
        own = self._own.by_key.get(key_of(caller, self._ids.ledger.tasks.name_of(caller, remote_id) or remote_id))
        return own if own is not None and own.remote_id == remote_id else None

    async def answered(self, own: UpstreamWebhook, event: StreamEvent) -> None:
        """Register the caller's webhook, now that the agent's answer to the message tells the task."""
        async with own.lock:
            await self._register_pending(own, event)

    async def _register_pending(self, own: UpstreamWebhook, event: StreamEvent) -> None:
        if not own.pending:
            return
        if isinstance(event, Message):
            if own.key is None:
                await self._own.remove(own)  # the message creates no task
            return
        if own.key is None:
            shown = own.view.event(event)
            assert not isinstance(shown, Message)
            own.remote_id = event.id if isinstance(event, Task) else event.task_id
            name = shown.id if isinstance(shown, Task) else shown.task_id
            history = shown.history[:1] if isinstance(shown, Task) else ()
            # The agent sends notifications of everything after the beginning.
            task = Task(name, shown.context_id, TaskStatus(TaskState.SUBMITTED), history=history)
            await self._own.open(own, task)
        while own.pending and own.key is not None:
            await self._webhooks.register(own.key, own.pending.pop(0), own.view.caller, self._agent)

    async def failed(self, own: UpstreamWebhook, config: PushConfig | None) -> None:
        """Forget the webhook of a message that could not be sent."""
        if config in own.pending:
            own.pending.remove(config)
        if own.key is None:
            await self._own.remove(own)

    # --- notifications of the agent -----------------------------------------------------------------------------------

    async def receive(self, request: AsgiRequest) -> None:
        """Answer a request of the agent."""
        own = self._own.by_token.get(request.path.removeprefix(PATH))
        try:
            if own is None:
                raise TaskNotFoundError("There is no such webhook")
            if request.verb == "GET" and (token := request.query.get("validationToken")):
                await request.reply(200, token[0].encode(), b"text/plain")  # the check of a new webhook in 0.1
                return
            body = await request.read_json_body(self._limits, self._bodies)
            if own.receiver is None:
                own.receiver = WebhookReceiver(own.config, partial(self._handle, own), seen=own.seen)
            # The secret URL authenticates the agent: not all agents send the token as well.
            await own.receiver.receive({**request.headers, TOKEN_HEADER: own.token}, body)
        except PeerProtocolError as error:
            logger.warning("Invalid notification of the agent: %s", error)
            await reply_error(request, Version.V1_0, InvalidParamsError(str(error)))
        except Exception as error:  # a request ends here
            await reply_error(request, Version.V1_0, error)
        else:
            await request.reply(200, b"{}")

    async def _handle(self, own: UpstreamWebhook, notification: PushNotification) -> None:
        if self._trace is not None:
            self._trace.notified(Direction.AGENT_TO_PROXY, notification.event, self._upstream.version)
        async with own.lock:
            await self._register_pending(own, notification.event)
            await self._own.write(own, notification.event)
