"""The interfaces a server depends on: the operations, authentication, an extra route and an observer of conversations.

Usually an `Engine` runs the operations and `Security` authenticates callers. A proxy implements the same interfaces for
an agent that runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from parley.engine.caller import Caller
from parley.engine.reading.following import Batch
from parley.engine.webhooks.delivery_operations import DeliveriesPage
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, AgentExtension, Binding, SecurityRequirement, SecurityScheme
from parley.protocol.errors import A2AError, UnauthenticatedError
from parley.protocol.events import StreamEvent
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.push_deliveries import DeliveryStatus
from parley.protocol.requests import Request, Result
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.server.bindings.http import AsgiRequest
from parley.server.security.credentials import Identity, PresentedCredentials
from parley.server.telemetry.call import Call
from parley.server.telemetry.metrics import RunCounters
from parley.stores.interface import Webhook

if TYPE_CHECKING:
    from parley.server.site import Site


class EventStream(Protocol):
    """The events of a streaming operation in batches. The operation begins when the first batch is asked for."""

    def __anext__(self) -> Awaitable[Batch]:
        """The next batch, which its reader empties. Raises A2AError, or StopAsyncIteration at the end."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Release what the stream holds."""
        ...


class WebhookOperations(Protocol):
    """The operations on push configs. All raise A2AError."""

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook."""
        ...

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook."""
        ...

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """List all webhooks of a task."""
        ...

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove a webhook."""
        ...


class WebhookDeliveries(Protocol):
    """The operations on the deliveries to webhooks. All raise A2AError."""

    async def list(
        self,
        caller: Caller,
        *,
        task_id: str | None,
        status: DeliveryStatus | None,
        after: tuple[str, str] | None,
        limit: int,
    ) -> DeliveriesPage:
        """The webhooks of a task, or those that fail."""
        ...

    async def get(self, task_id: str, config_id: str, caller: Caller) -> Webhook:
        """Read one webhook with its deliveries."""
        ...

    async def redeliver(self, task_id: str, config_id: str, caller: Caller, *, after: int | None) -> Webhook:
        """Send events again."""
        ...

    async def resume(self, task_id: str, config_id: str, caller: Caller) -> Webhook:
        """Call a paused webhook now."""
        ...


class Operations(WebhookOperations, Protocol):
    """The operations of A2A on one agent's tasks, for an authenticated caller. All raise A2AError."""

    @property
    def deliveries(self) -> WebhookDeliveries | None:
        """The operations on the deliveries to webhooks; None if another server delivers."""
        ...

    async def send_message(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Process a message and return its result."""
        ...

    def send_streaming_message(
        self, request: r.SendMessageRequest, caller: Caller, *, after: int | None
    ) -> EventStream:
        """Process a message and stream the events of its task."""
        ...

    async def get_task(self, request: r.GetTaskRequest, caller: Caller) -> Task:
        """Read a task."""
        ...

    async def list_tasks(self, request: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        """Read one page of the caller's tasks."""
        ...

    async def cancel_task(self, request: r.CancelTaskRequest, caller: Caller) -> Task:
        """Cancel a task."""
        ...

    def subscribe_to_task(self, request: r.SubscribeToTaskRequest, caller: Caller, *, after: int | None) -> EventStream:
        """Stream the events of a task."""
        ...

    async def created_in(self, task_id: str, caller: Caller) -> Version | None:
        """The dialect in which a task was created, or None if that is unknown."""
        ...

    async def answers_demand(self, request: r.SendMessageRequest, caller: Caller) -> bool:
        """Whether a message for a task may answer a demand for authorization, as far as that is known."""
        ...


class OperationsEngine(Protocol):
    """Runs the operations of all agents of an app."""

    @property
    def runs(self) -> RunCounters:
        """The counters of active runs."""
        ...

    def agent(self, agent_id: str) -> Operations:
        """The operations on one agent's tasks."""
        ...

    async def drain(self) -> None:
        """Accept no more work, and end streams with an error that tells readers to subscribe again."""
        ...

    async def __aenter__(self) -> object:
        """Start."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Stop."""
        ...


class RemoteOperations(OperationsEngine, Protocol):
    """The operations of an agent that runs elsewhere. Only that agent knows its extended card."""

    async def get_extended_card(self, caller: Caller) -> AgentCard:
        """The extended card that the agent returns to this caller."""
        ...


class ExtraRoute(Protocol):
    """An HTTP route that is not part of A2A, such as the one where a remote agent posts its notifications."""

    @property
    def path(self) -> str:
        """The prefix of its paths."""
        ...

    @property
    def url(self) -> str:
        """The URL of the prefix, as its clients see it."""
        ...

    async def receive(self, request: AsgiRequest) -> None:
        """Answer a request."""
        ...


class HostedAgents(Protocol):
    """The agents of a host: which of them a name means depends on the caller's tenant.

    It is entered when the store is open, before the engine starts, and left after the engine has stopped.
    """

    @property
    def extensions(self) -> tuple[AgentExtension, ...]:
        """The extensions that all of its agents have."""
        ...

    def new_id(self) -> str:
        """An id for a new task or context."""
        ...

    def agent_named(self, name: str, caller: Caller) -> str | None:
        """The engine's id of the agent that a caller means; None if its tenant has none of this name."""
        ...

    def site_named(self, name: str, identity: Identity) -> Site | None:
        """The site of the agent that a caller means; None if its tenant has none of this name."""
        ...

    def url_of(self, agent_id: str, base_url: str) -> str:
        """The URL of an agent, by the engine's id, for callers who reach the app at this URL."""
        ...

    async def receive(self, request: AsgiRequest) -> None:
        """Answer an HTTP request, whatever its path."""
        ...

    async def __aenter__(self) -> object:
        """Load what the store holds."""
        ...

    async def started(self) -> None:
        """Do what needs a running engine, before the first request."""
        ...

    def drain(self) -> None:
        """End what waits with callers for something to happen, before the engine drains."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Stop what runs beside the engine."""
        ...


CONSOLE_PATH = "/console"
"""What begins so is answered by the console, if the server has one."""

CONSOLE_COOKIE = "parley-console"
"""What the name of the cookie of a session contains."""

CSRF_HEADER = "x-parley-csrf"
"""A request with this header is one of a console's session."""


class ServerConsole(Protocol):
    """The console of a server: a page for people, and the sessions of its browsers."""

    async def answer(self, request: AsgiRequest) -> bool:
        """Answer a request below `CONSOLE_PATH`, or put the credentials of its session into any other one.

        Returns whether the request was answered: also one whose session cannot be used.
        """
        ...

    def drain(self) -> None:
        """End the streams of all pages, and tell them to come back."""
        ...

    async def __aenter__(self) -> object:
        """Start. The store is open and the engine runs."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Stop."""
        ...


class CallerAuthenticator(Protocol):
    """Authenticates callers. `parley.server.security.authentication.Security` is the usual implementation."""

    @property
    def schemes(self) -> Mapping[str, SecurityScheme]:
        """The schemes as the card shows them."""
        ...

    @property
    def requirements(self) -> tuple[SecurityRequirement, ...]:
        """The requirements as the card shows them."""
        ...

    def requirements_for(self, scopes: Iterable[str]) -> tuple[SecurityRequirement, ...]:
        """The requirements with these scopes added."""
        ...

    async def authenticate(self, credentials: PresentedCredentials) -> Identity:
        """Identify the caller. Raises UnauthenticatedError, PermissionDeniedError or UnavailableError."""
        ...

    def authentication_required(self) -> UnauthenticatedError:
        """The error for an anonymous caller of an operation that always needs credentials."""
        ...

    async def close(self) -> None:
        """Release resources."""
        ...


class ConversationObserver(Protocol):
    """Sees every request and reply. Every method is synchronous and fast, and never raises."""

    def requested(self, call: Call, request: Request) -> None:
        """A request was decoded."""
        ...

    def answered(self, call: Call, result: Result) -> None:
        """A request was answered."""
        ...

    def streamed(self, call: Call, event: StreamEvent) -> None:
        """An event is sent on the stream of a request."""
        ...

    def failed(self, call: Call, error: BaseException) -> None:
        """A request was refused, or its stream was cut off."""
        ...

    def refused(self, binding: Binding, error: A2AError) -> None:
        """A request was refused before it was decoded."""
        ...
