"""A push notification as a program gets it, decoded from any dialect, and the id of its delivery.

Parley's agents number the events of a task: the id of a delivery is `TASK:SEQ`, with the task's id percent-encoded, and
before 1.0 `TASK:VERSION:SEQ`. It is the same for every attempt. The ids of other agents are texts without a meaning.
Spec: 1.0 section 4.3.3, 0.3 section 9.5.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from parley.dialects.registry import DIALECTS
from parley.protocol.errors import PeerProtocolError
from parley.protocol.events import StreamEvent
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

SHAPES = (Version.V1_0, Version.V0_3, Version.V0_1)
"""The versions whose notifications differ: an event since 1.0, a task before. 0.2 is like 0.3."""

_NUMBERED_ID = re.compile(r"(?P<task>[^:]*):(?:0\.[1-3]:)?(?P<number>[0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class PushNotification:
    """A notification of an agent: an event since 1.0, before that the task as it is."""

    event: StreamEvent
    number: int | None = None
    """The number of the event in its task, from Parley's agents: it increases, and is the same for a repeat."""
    id: str | None = None
    """The id of the delivery, if the agent sends one: the same for every attempt."""
    agent: str | None = None
    """The URL of the agent that sent it, as the client was given it; None if the receiver has one config for all."""

    @property
    def task_id(self) -> str | None:
        """The id of its task."""
        return task_of(self.event)


Handler: TypeAlias = Callable[[PushNotification], Awaitable[None]]
"""Called with each notification. If it raises, the agent gets an error and may send the notification again."""


def task_of(event: StreamEvent) -> str | None:
    """The id of the task that an event is about."""
    return event.id if isinstance(event, Task) else event.task_id


def decode_event(body: bytes) -> StreamEvent:
    """The event in the body of a notification of any version. Raises PeerProtocolError."""
    problems: list[str] = []
    for version in SHAPES:
        try:
            return DIALECTS[version].decode_push(body)
        except PeerProtocolError as error:
            problems.append(f"{version}: {error}")
    raise PeerProtocolError(f"The notification is not valid in any version of A2A ({'; '.join(problems)})")


def describe_delivery(event: StreamEvent, delivery_id: str | None, *, agent: str | None = None) -> PushNotification:
    """The notification of an event that was delivered under an id, by an agent if that is known.

    Raises:
        PeerProtocolError: the id belongs to another task.
    """
    numbered = _NUMBERED_ID.fullmatch(delivery_id or "")
    if numbered is None:
        return PushNotification(event, None, delivery_id, agent)
    if unquote(numbered["task"]) != task_of(event):
        raise PeerProtocolError("The notification's id belongs to another task")
    return PushNotification(event, int(numbered["number"]), delivery_id, agent)
