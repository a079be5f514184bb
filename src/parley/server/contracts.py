"""What a server needs of its neighbours: who does the work, who keeps the door, and who may listen.

An `Engine` does the work of agents of this process, and `Security` keeps the door; anything with the same verbs can
stand in for them, such as an agent elsewhere. Nothing here knows which it is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Protocol

from parley.engine.caller import Caller
from parley.engine.views import Batch
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, Binding, SecurityRequirement, SecurityScheme
from parley.protocol.errors import A2AError, UnauthenticatedError
from parley.protocol.events import StreamEvent
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.requests import Request, Result
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.server.bindings.http import HttpRequest
from parley.server.security.credentials import Credentials, Identity
from parley.server.telemetry.metrics import Runs
from parley.server.telemetry.observer import Call


class Named(Protocol):
    """Something with a name."""

    @property
    def id(self) -> str:
        """The name under which it is served."""
        ...


class WebhookOperations(Protocol):
    """The operations on webhooks. All raise A2AErrors."""

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook."""
        ...

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook."""
        ...

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """Read all webhooks of a task."""
        ...

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove a webhook."""
        ...


class Operations(Protocol):
    """The operations of A2A on one agent's tasks, for whoever the door let in. All raise A2AErrors."""

    @property
    def program(self) -> Named:
        """The agent."""
        ...

    @property
    def webhooks(self) -> WebhookOperations:
        """The operations on webhooks."""
        ...

    @property
    def runs(self) -> Runs:
        """What is under way."""
        ...

    async def send_message(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Take a message in and answer."""
        ...

    def send_streaming_message(
        self, request: r.SendMessageRequest, caller: Caller, *, after: int | None
    ) -> AsyncGenerator[Batch]:
        """Take a message in and follow what happens."""
        ...

    async def get_task(self, request: r.GetTaskRequest, caller: Caller) -> Task:
        """A task as it stands."""
        ...

    async def list_tasks(self, request: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        """A page of the caller's tasks."""
        ...

    async def cancel_task(self, request: r.CancelTaskRequest, caller: Caller) -> Task:
        """Stop a task."""
        ...

    def subscribe_to_task(
        self, request: r.SubscribeToTaskRequest, caller: Caller, *, after: int | None
    ) -> AsyncGenerator[Batch]:
        """Follow a task."""
        ...

    async def created_in(self, task_id: str, caller: Caller) -> Version | None:
        """The dialect in which a task was created, if that is known."""
        ...

    async def drain(self) -> None:
        """Take no more work, and end streams with an error that says to come back."""
        ...

    async def __aenter__(self) -> object:
        """Begin."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """End."""
        ...


class RemoteOperations(Operations, Protocol):
    """The same of an agent elsewhere, which alone knows its extended card."""

    async def get_extended_card(self, caller: Caller) -> AgentCard:
        """The card that the agent shows to this caller."""
        ...


class SideDoor(Protocol):
    """A door for others than callers, such as an agent elsewhere that tells of its tasks, below a path of its own."""

    @property
    def path(self) -> str:
        """The beginning of its paths."""
        ...

    @property
    def url(self) -> str:
        """Where the others reach it."""
        ...

    async def receive(self, request: HttpRequest) -> None:
        """Answer a request."""
        ...


class Doorkeeper(Protocol):
    """Who says who a caller is. See `parley.server.security.requirements.Security`, which is the usual one."""

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

    async def authenticate(self, credentials: Credentials) -> Identity:
        """Who the request comes from. Raises UnauthenticatedError, PermissionDeniedError or UnavailableError."""
        ...

    def demand(self) -> UnauthenticatedError:
        """The error for a stranger who asks for what strangers never get."""
        ...

    async def open(self) -> None:
        """Get ready."""
        ...

    async def close(self) -> None:
        """Let go of what is held."""
        ...


class Tap(Protocol):
    """Somebody who listens to a conversation. Every method is synchronous and quick, and raises nothing."""

    def asked(self, call: Call, request: Request) -> None:
        """A request was understood."""
        ...

    def answered(self, call: Call, result: Result) -> None:
        """It was answered."""
        ...

    def told(self, call: Call, event: StreamEvent) -> None:
        """Its stream tells of an event."""
        ...

    def failed(self, call: Call, error: BaseException) -> None:
        """It was refused, or its stream was cut."""
        ...

    def refused(self, binding: Binding, error: A2AError) -> None:
        """A request was refused before it was understood."""
        ...
