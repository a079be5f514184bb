"""The client of one agent: finds its card, chooses an interface, and makes calls.

    async with Client("https://agents.example/currency") as agent:
        reply = await agent.send("100 USD")
        if reply.needs_input:
            reply = await reply.answer("EUR")
        print(reply.text)

The short verbs (`send`, `stream`, …) are for programs that people write; the operations of the protocol
(`send_message`, `get_task`, …) take and return canonical values. Calls that are safe to repeat are repeated; a stream
that breaks is resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from copy import copy
from dataclasses import replace
from functools import partial
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast
from urllib.parse import quote
from uuid import uuid4

from msgspec import structs

from parley.ai_catalog.model import AiCatalogEntry
from parley.ai_catalog.names import find_agent_entry, is_catalog_name, named_in_catalog, split_catalog_name
from parley.client.answers import answer_parts
from parley.client.calls import Authenticator, Calls, Interceptor
from parley.client.credentials.credentials import ANY_ORIGIN, Credentials, Secret
from parley.client.discovery.card_cache import CardCache
from parley.client.discovery.catalog_reader import CatalogBounds, CatalogReader, catalog_url
from parley.client.discovery.discovery import Discovery, SignaturePolicy
from parley.client.discovery.selection import interfaces_in_order, newest_of, read_bindings, read_versions
from parley.client.errors import TaskFailedError, TimedOutError
from parley.client.guard import Guard, is_same_host, read_target
from parley.client.options import Bounds, Retries, Timeouts
from parley.client.reply import Reply, Update
from parley.client.server_pages import ServerPages
from parley.client.streams.added_text import AddedText
from parley.client.streams.resuming import SUBSCRIPTION_REFUSED, ResumableStream
from parley.client.streams.task_reader import FIRST_POLL_SECONDS, POLL_SECONDS
from parley.client.transports.connections import Connections, Tls
from parley.client.transports.http import JSON, http_error, with_headers
from parley.client.transports.transport import CallOptions
from parley.contents import Content, parts_of
from parley.dialects.registry import DIALECTS
from parley.network.urls import with_scheme
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import (
    LocalProtocolError,
    MethodNotFoundError,
    PeerProtocolError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from parley.protocol.events import StreamEvent
from parley.protocol.extensions import CURSOR
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import SKILL_KEY, Message, Role
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from parley.client.webhooks.receiver import WebhookReceiver

MAX_EMPTY_PAGES = 20
"""In a row. An agent that filters after paging sends a few; a malicious one sends them for ever."""


class ClientArguments(TypedDict, total=False):
    """The arguments of a `Client` except its target."""

    credentials: Credentials | Authenticator | Mapping[str, Secret] | str | None
    bindings: Sequence[Binding | str]
    versions: Sequence[Version | str]
    extensions: Sequence[str]
    interceptors: Sequence[Interceptor]
    timeouts: Timeouts | None
    retries: Retries | None
    bounds: Bounds | None
    guard: Guard | None
    signatures: SignaturePolicy | None
    cards: CardCache | None
    tls: Tls | None
    app: ASGIApp | None
    catalog: str | None


class Client:
    """Calls one agent. `target` is its URL, the URL of its card, its card, or its name in a catalogue.

    A name needs `catalog`, the URL of an AI Catalog: `Client("currency", catalog="https://agents.example")`. Both
    together are the target `catalog+https://agents.example/.well-known/ai-catalog.json#currency`.
    """

    def __init__(
        self,
        target: str | AgentCard,
        *,
        credentials: Credentials | Authenticator | Mapping[str, Secret] | str | None = None,
        bindings: Sequence[Binding | str] = (),
        versions: Sequence[Version | str] = (),
        extensions: Sequence[str] = (),
        interceptors: Sequence[Interceptor] = (),
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        bounds: Bounds | None = None,
        guard: Guard | None = None,
        signatures: SignaturePolicy | None = None,
        cards: CardCache | None = None,
        tls: Tls | None = None,
        app: ASGIApp | None = None,
        catalog: str | None = None,
    ) -> None:
        """Nothing is called yet. `bindings` and `versions` are those that are accepted, the preferred first.

        `credentials` may also be a bearer token, or secrets by kind as `Credentials` takes them. `app` is an ASGI
        application that is called in process instead of the network, for tests. With a `catalog`, a target that is
        neither a URL nor a host is a name in it; credentials are then for the origin of the catalogue.

        Raises:
            TypeError: an argument has the wrong type.
            LocalProtocolError: a binding or version is unknown.
            ForbiddenTargetError: `catalog` is not a URL.
        """
        _check_kind("target", target, str, AgentCard)
        if catalog is not None and isinstance(target, str) and is_catalog_name(target):
            target = named_in_catalog(catalog_url(catalog), target)
        _check_kind("timeouts", timeouts, Timeouts, NoneType)
        _check_kind("retries", retries, Retries, NoneType)
        _check_kind("bounds", bounds, Bounds, NoneType)
        _check_kind("guard", guard, Guard, NoneType)
        _check_kind("signatures", signatures, SignaturePolicy, NoneType)
        _check_kind("cards", cards, CardCache, NoneType)
        _check_kind("tls", tls, Tls, NoneType)
        credentials = _credentials(credentials)
        self._target = target
        self._bindings = read_bindings(bindings)
        self._versions = read_versions(versions)
        self._timeouts = timeouts or Timeouts()
        self._retries = retries or Retries()
        self._extensions = tuple(extensions)
        self._interceptors = interceptors
        self._credentials = credentials
        self._connect = partial(
            Connections,
            timeouts=self._timeouts,
            bounds=bounds or Bounds(),
            guard=guard or Guard(),
            app=app,
            tls=tls or _tls(credentials),
        )
        self._signatures = signatures or SignaturePolicy()
        self._cards = cards
        self._reset()

    def _reset(self) -> None:
        self._connections = self._connect()
        self._stack = AsyncExitStack()
        self._calls: Calls | None = None
        self._was_entered = False
        self._named_url: str | None = None
        """The URL that the caller named: of the agent, its card or the catalogue."""

    async def __aenter__(self) -> Self:
        """Find the card and choose an interface.

        Raises:
            DiscoveryError: there is no card.
            ForbiddenTargetError: the card points to URLs that this client must not call.
            PeerProtocolError: the card is invalid, or has no interface that this client speaks.
            SignatureInvalidError: the card is not signed as the caller demands.
            UnreachableError: the agent cannot be reached.
            CatalogNameError: the catalogue has no such agent, or several.
            LocalProtocolError: the client was entered before.
        """
        if self._was_entered:
            raise LocalProtocolError("A client can be entered only once; create another")
        self._was_entered = True
        self._stack.push_async_callback(self._connections.close)
        try:
            self._calls = await self._discover()
        except BaseException:
            await self._stack.aclose()
            raise
        self._stack.push_async_callback(self._calls.close)
        return self

    async def _discover(self) -> Calls:
        """The calls to the agent's interfaces, from its card."""
        card = self._target
        if isinstance(card, str):
            named = split_catalog_name(card)
            if named is not None:
                card = await self._card_in_catalog(*named)
            else:
                self._target = self._named_url = url = with_scheme(card)
                card = await self._discovery(url).card(url)
        in_order = interfaces_in_order(card, bindings=self._bindings, versions=self._versions)
        return Calls(
            card,
            self._connections.permitted(in_order),
            self._connections.connect,
            self._authenticator(card),
            self._interceptors,
            self._extensions,
            self._timeouts,
            self._retries,
            self._connections.bounds,
        )

    async def _card_in_catalog(self, url: str, name: str) -> AgentCard:
        """The card of the agent that a name means in a catalogue.

        Another host than that of the catalogue is not trusted, as in a card, and gets no credentials.
        """
        self._named_url = url = catalog_url(url)
        entry = await self._catalog_entry(url, name)
        if entry.data is not None:
            return (await self._discovery(url).read(url, entry.data)).card
        assert entry.url is not None, "An entry has a URL or data"
        guard = self._connections.guard
        if not self._connections.is_in_process:
            guard.check_interface(entry.url, card_url=url, named_by="The catalogue")
            if not is_same_host(read_target(entry.url).host, read_target(url).host):
                self._connections = self._connect(guard=replace(guard, trust_named=False))
                self._stack.push_async_callback(self._connections.close)
        return await self._discovery(entry.url).card(entry.url)

    async def _catalog_entry(self, url: str, name: str) -> AiCatalogEntry:
        reader = CatalogReader(
            self._connections,
            CatalogBounds(seconds=self._timeouts.card),
            authenticate=self._authenticate if self._credentials is not None else None,
        )
        return find_agent_entry((await reader.read(url)).entries, name)

    def _discovery(self, url: str) -> Discovery:
        authenticate = partial(self._authenticate, url) if self._credentials is not None else None
        return Discovery(
            self._connections,
            signatures=self._signatures,
            cache=self._cards,
            retries=self._retries,
            authenticate=authenticate,
            version=newest_of(self._versions),
        )

    async def _authenticate(self, url: str, options: CallOptions) -> CallOptions:
        """A request for a card or a catalogue that requires authentication, with the caller's credentials for it."""
        unknown = AgentInterface(url, Binding.HTTP_JSON, Version.V1_0)
        # Without the card it is unknown what the agent demands: credentials are sent as for a card without security.
        authenticator = self._authenticator(AgentCard("", "", "", (unknown,)))
        return await authenticator.apply(options, unknown) if authenticator is not None else options

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    def _authenticator(self, card: AgentCard) -> Authenticator | None:
        credentials, connections = self._credentials, self._connections
        if not isinstance(credentials, Credentials):
            return credentials
        given = self._named_url
        outside = connections
        if connections.is_in_process:  # where no authorization server can be reached
            outside = Connections(timeouts=self._timeouts, guard=connections.guard)
            self._stack.push_async_callback(outside.close)
        bound = credentials.bind(
            card,
            target_url=ANY_ORIGIN if connections.is_in_process else given,
            channel=outside.channel,
            check=lambda url: outside.guard.check_interface(url, card_url=given),
            trust=lambda url: outside.trust_address(read_target(url).host),
        )
        connections.shows_certificate = bound.may_send_to
        return bound

    def copy(self) -> Client:
        """Another client with the same settings, which is not open."""
        other = copy(self)
        other._reset()
        return other

    @property
    def target(self) -> str:
        """The URL that the client was given, or that of the first interface of its card."""
        return with_scheme(self._target) if isinstance(self._target, str) else self._target.interfaces[0].url

    @property
    def is_open(self) -> bool:
        """Whether calls can be made now."""
        return self._calls is not None and not self._calls.is_closed

    @property
    def calls(self) -> Calls:
        """The calls to the agent. Raises LocalProtocolError outside `async with`."""
        if self._calls is None or self._calls.is_closed:
            raise LocalProtocolError("Use the client as `async with Client(…) as client:`")
        return self._calls

    @property
    def card(self) -> AgentCard:
        """The agent's card."""
        return self.calls.card

    @property
    def interface(self) -> AgentInterface:
        """The interface in use."""
        return self.calls.transport.interface

    @property
    def pages(self) -> ServerPages:
        """Pages of the agent's server that are not A2A."""
        return ServerPages(self.calls, self._connections.channel)

    @property
    def keeps_notes_apart(self) -> bool:
        """Whether messages of the agent while it works are notes about progress and not part of its answer.

        So it is with Parley's agents, which declare cursors.
        """
        return self._calls is not None and self._calls.declares(CURSOR)

    # --- short verbs, for programs that people write ------------------------------------------------------------------

    async def send(
        self,
        *contents: Content,
        task: Task | str | None = None,
        context: str | None = None,
        skill: str | None = None,
        metadata: JsonObject | None = None,
        wait: bool = True,
        message_id: str | None = None,
        accepts: Sequence[str] = (),
        push: PushConfig | None = None,
        notify: WebhookReceiver | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """Send text, data or files and wait for an answer or a question; with `wait=False`, return at once.

        `push` is the webhook that the agent calls when the task changes, or `notify` the receiver of its calls. An
        `idempotency_key` names the send, for a program that repeats it after a crash of its own: an agent that knows
        the `Idempotency-Key` header gives the same key and content the same task.
        """
        push = self._webhook(push, notify)
        message = self.message(
            *contents, task=task, context=context, skill=skill, metadata=metadata, message_id=message_id
        )
        configuration = r.SendConfiguration(tuple(accepts), push, None, not wait)
        request = r.SendMessageRequest(message, configuration, idempotency_key=idempotency_key)
        answer = await self.send_message(request)
        return Reply(self, await self.settled(answer) if wait else answer)

    def stream(
        self,
        *contents: Content,
        task: Task | str | None = None,
        context: str | None = None,
        skill: str | None = None,
        metadata: JsonObject | None = None,
        message_id: str | None = None,
        accepts: Sequence[str] = (),
        push: PushConfig | None = None,
        notify: WebhookReceiver | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncGenerator[Update]:
        """Send text, data or files and stream what happens. An agent that does not stream is polled."""
        push = self._webhook(push, notify)
        message = self.message(
            *contents, task=task, context=context, skill=skill, metadata=metadata, message_id=message_id
        )
        configuration = r.SendConfiguration(tuple(accepts), push)
        request = r.SendMessageRequest(message, configuration, idempotency_key=idempotency_key)
        return self._updates(request)

    def subscribe(self, task: Task | str, *, after: str | None = None) -> AsyncGenerator[Update]:
        """Stream a task that exists already: the task as it is, and what happens from then on.

        `after` is the `cursor` of an earlier update; an agent with cursors then sends only later events. An agent that
        refuses subscriptions is polled.
        """
        return self._updates(r.SubscribeToTaskRequest(_id(task)), after)

    async def get(self, task: Task | str, *, history: int | None = None) -> Reply:
        """Read a task."""
        return Reply(self, await self.get_task(r.GetTaskRequest(_id(task), history)))

    async def list(
        self,
        *,
        context: str | None = None,
        state: TaskState | None = None,
        artifacts: bool = False,
        page_size: int = 50,
    ) -> AsyncGenerator[Task]:
        """The caller's tasks, newest first, a page at a time."""
        token: str | None = None
        tokens: set[int] = set()
        empty_pages = 0
        while token != "":
            page = await self.list_tasks(
                r.ListTasksRequest(context, state, page_size, token, None, None, include_artifacts=artifacts)
            )
            for task in page.tasks:
                yield task
            empty_pages = 0 if page.tasks else empty_pages + 1
            token = page.next_page_token
            if empty_pages > MAX_EMPTY_PAGES or hash(token) in tokens:
                raise PeerProtocolError("The agent's list of tasks never ends")
            tokens.add(hash(token))  # not the token itself, which may be long

    async def cancel(self, task: Task | str) -> Reply:
        """Cancel a task."""
        return Reply(self, await self.cancel_task(r.CancelTaskRequest(_id(task))))

    def message(
        self,
        *contents: Content,
        task: Task | str | None = None,
        context: str | None = None,
        skill: str | None = None,
        metadata: JsonObject | None = None,
        message_id: str | None = None,
    ) -> Message:
        """A message to the agent; without `message_id` it gets a new id."""
        parts = parts_of(contents)
        if isinstance(task, Task):
            context = context or task.context_id
            parts = answer_parts(task.status, parts)
        described: JsonObject = {**(metadata or {}), **({SKILL_KEY: skill} if skill else {})}
        task_id = None if task is None else _id(task)
        return Message(message_id or str(uuid4()), Role.USER, parts, context, task_id, described)

    def webhook_config(self, receiver: WebhookReceiver) -> PushConfig:
        """The config of a receiver for this agent, with the strongest proof that both support.

        Raises:
            LocalProtocolError: the agent does not offer the proof that the receiver demands.
        """
        from parley.client.webhooks.key_sets import GuardedFetch

        fetch = GuardedFetch(self._connect, named=self._named_url)
        return receiver.register(self.target, self.card, fetch, partial(fetch.is_allowed, self._connections))

    def _webhook(self, push: PushConfig | None, notify: WebhookReceiver | None) -> PushConfig | None:
        if notify is None:
            return push
        if push is not None:
            raise LocalProtocolError("Give either `push` or `notify`: a message has one webhook")
        return self.webhook_config(notify)

    # --- the operations of the protocol -------------------------------------------------------------------------------

    async def send_message(self, request: r.SendMessageRequest) -> Task | Message:
        """Send a message and wait for the task or the reply."""
        return _of(await self.calls.call(ops.SEND_MESSAGE, request), Task, Message)

    def send_streaming_message(self, request: r.SendMessageRequest) -> AsyncGenerator[StreamEvent]:
        """Send a message and stream the task's events."""
        return self._events(self._stream(request), request)

    async def get_task(self, request: r.GetTaskRequest) -> Task:
        """Read a task."""
        return _of(await self.calls.call(ops.GET_TASK, request), Task)

    async def list_tasks(self, request: r.ListTasksRequest) -> r.TaskPage:
        """Read a page of the caller's tasks."""
        return _of(await self.calls.call(ops.LIST_TASKS, request), r.TaskPage)

    async def cancel_task(self, request: r.CancelTaskRequest) -> Task:
        """Cancel a task."""
        return _of(await self.calls.call(ops.CANCEL_TASK, request), Task)

    def subscribe_to_task(self, request: r.SubscribeToTaskRequest) -> AsyncGenerator[StreamEvent]:
        """Stream the events of a task that exists already."""
        return self._events(self._stream(request), request)

    async def create_push_config(self, request: r.CreatePushConfigRequest) -> PushConfig:
        """Register a webhook for a task."""
        return _of(await self.calls.call(ops.CREATE_PUSH_CONFIG, request), PushConfig)

    async def get_push_config(self, request: r.GetPushConfigRequest) -> PushConfig:
        """Read one webhook of a task."""
        return _of(await self.calls.call(ops.GET_PUSH_CONFIG, request), PushConfig)

    async def list_push_configs(self, request: r.ListPushConfigsRequest) -> r.PushConfigPage:
        """Read all webhooks of a task."""
        return _of(await self.calls.call(ops.LIST_PUSH_CONFIGS, request), r.PushConfigPage)

    async def delete_push_config(self, request: r.DeletePushConfigRequest) -> None:
        """Remove a webhook of a task."""
        await self.calls.call(ops.DELETE_PUSH_CONFIG, request)

    async def beside_a2a(self, verb: str, path: str, body: bytes = b"") -> bytes:
        """The JSON that an HTTP request below the URL of the agent's HTTP+JSON interface returns, with credentials.

        It is for what Parley's servers offer beside A2A. A tenant in the card's interface comes before the path.

        Raises:
            UnsupportedOperationError: the agent has no such interface.
        """
        interface = next((each for each, _ in self.calls.interfaces if each.binding == Binding.HTTP_JSON), None)
        if interface is None:
            raise UnsupportedOperationError("The agent has no HTTP+JSON interface, below which this is")
        tenant = f"/{quote(interface.tenant, safe='')}" if interface.tenant else ""
        url, authenticator, has_renewed = f"{interface.url.rstrip('/')}{tenant}{path}", self.calls.authenticator, False
        while True:
            options = with_headers(CallOptions(timeout=self._timeouts.read, quiet=self._timeouts.quiet), JSON)
            if authenticator is not None:
                options = await authenticator.apply(options, interface)
            reply = await self._connections.channel.exchange(verb, url, body, options)
            if reply.status < 400:
                return reply.body
            error = http_error(reply)
            is_refused = isinstance(error, UnauthenticatedError | PermissionDeniedError)
            if not is_refused or has_renewed or authenticator is None or not await authenticator.renew(error):
                raise error
            has_renewed = True

    async def get_extended_card(self) -> AgentCard:
        """The card for authenticated callers, which the client uses from then on.

        Its signatures are verified as those of the public card are. Of a verified card, only the signed content is
        used.

        Raises:
            SignatureInvalidError: it is not signed as the caller demands; then the client keeps the card that it has.
        """
        documents: list[bytes] = []
        answer = await self.calls.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest(), on_document=documents.append)
        card = _of(answer, AgentCard)
        # gRPC carries no JSON: there the signatures cover what the message says in JSON, as 1.0 section 8.4 has it.
        document = documents[-1] if documents else DIALECTS[Version.V1_0].encode_card(card)
        if self._signatures.applies_to(document):
            card = await self._verified(document)
        self.calls.card = card
        return card

    async def _verified(self, document: bytes) -> AgentCard:
        url, seconds = self._named_url or self.calls.transport.interface.url, self._timeouts.card
        try:
            async with asyncio.timeout(seconds):
                return (await self._discovery(url).read(url, document)).card
        except TimeoutError as error:
            raise TimedOutError(f"The keys of the extended card were not fetched in {seconds:g} seconds") from error

    # --- streams and polls --------------------------------------------------------------------------------------------

    def _stream(self, request: r.SendMessageRequest | r.SubscribeToTaskRequest) -> ResumableStream:
        return ResumableStream(self.calls, tenant=request.tenant)

    async def _updates(
        self, request: r.SendMessageRequest | r.SubscribeToTaskRequest, after: str | None = None
    ) -> AsyncGenerator[Update]:
        stream = self._stream(request)
        added = AddedText(keeps_notes_apart=self.keeps_notes_apart)
        async with aclosing(self._events(stream, request, after)) as events:
            async for event in events:
                seen = stream.seen
                yield Update(event, seen, stream.cursor, added.text(event), seen.ends_with_replacement)

    async def _events(
        self,
        stream: ResumableStream,
        request: r.SendMessageRequest | r.SubscribeToTaskRequest,
        after: str | None = None,
    ) -> AsyncGenerator[StreamEvent]:
        """The stream; if the agent does not stream this, what polling the task finds."""
        is_send = isinstance(request, r.SendMessageRequest)
        refusals = (UnsupportedOperationError, MethodNotFoundError) if is_send else SUBSCRIPTION_REFUSED
        if self.card.capabilities.streaming is not False:
            try:
                async with aclosing(stream.events(request, after=after)) as events:
                    async for event in events:
                        yield event
                return
            except refusals:
                if stream.seen.task_id is not None:
                    raise
        task_id = "" if is_send else request.task_id
        if is_send:
            configuration = structs.replace(request.configuration, return_immediately=True)
            answer = await self.send_message(structs.replace(request, configuration=configuration))
            stream.seen.add(answer)
            yield answer
        if not stream.seen.is_over:
            async with aclosing(stream.poll_events(task_id)) as events:
                async for event in events:
                    yield event

    async def settled(self, answer: Task | Message, *, tenant: str | None = None) -> Task | Message:
        """The answer once the task is not being worked on: some agents answer at once although asked to wait."""
        deadline = time.monotonic() + self._timeouts.reply
        pause = FIRST_POLL_SECONDS
        while isinstance(answer, Task) and answer.status.state in (TaskState.SUBMITTED, TaskState.WORKING):
            if time.monotonic() > deadline:
                raise TimedOutError("The agent is still working on the task")
            await self.calls.sleep(pause)
            pause = min(pause * 2, POLL_SECONDS)
            answer = await self.get_task(r.GetTaskRequest(answer.id, tenant=tenant))
        return answer

    async def after_authorization(self, task: Task) -> Task | Message:
        """The task once it has gone on after an authorization, and is not being worked on.

        Raises:
            TimedOutError: it still waits after the time for a reply.
        """
        deadline, asked = time.monotonic() + self._timeouts.reply, task.status
        pause = FIRST_POLL_SECONDS
        while task.status == asked:
            if time.monotonic() > deadline:
                raise TimedOutError("The agent still waits for the authorization")
            await self.calls.sleep(pause)
            pause = min(pause * 2, POLL_SECONDS)
            task = await self.get_task(r.GetTaskRequest(task.id))
        return await self.settled(task)


def _check_kind(name: str, value: object, *kinds: type[Any]) -> None:
    """Raise TypeError for an argument of the wrong type, here and not at its first use."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise TypeError(f"Client(…, {name}=…) takes {wanted}, not {type(value).__name__}")


def _credentials(given: Any) -> Credentials | Authenticator | None:
    match given:
        case None | Credentials():
            return given
        case str():
            return Credentials({"bearer": given})
        case Mapping():
            return Credentials(cast(Mapping[str, Secret], given))
        case _ if callable(getattr(given, "apply", None)) and callable(getattr(given, "renew", None)):
            return given
        case _:
            raise TypeError(
                f"Client(…, credentials=…) takes Credentials, a bearer token, or secrets by their kind such as "
                f"{{'basic': ('ada', password)}}, not {type(given).__name__}"
            )


def _tls(credentials: Credentials | Authenticator | None) -> Tls | None:
    return credentials.tls if isinstance(credentials, Credentials) else None


def _id(task: Task | str) -> str:
    return task.id if isinstance(task, Task) else task


def _of(result: Any, *kinds: type[Any]) -> Any:
    if not isinstance(result, kinds):
        raise PeerProtocolError(f"The agent answers with {type(result).__name__}")
    return result


async def ask(url: str, *contents: Content, **options: Unpack[ClientArguments]) -> str:
    """Ask an agent and get its text, or its question: for one-line scripts.

    To tell them apart, or to answer the question, use a `Client`.

    Raises:
        TaskFailedError: the task failed, was rejected or canceled; the message says why.
    """
    async with Client(url, **options) as client:
        reply = await client.send(*contents)
        if reply.has_failed:
            raise TaskFailedError(reply)
        return reply.question or reply.text
