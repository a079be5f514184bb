"""What the tests of the native API share: a model that answers or waits, and bodies to send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from parley.host.models.model import ModelRequest
from tests.host.function_model import FunctionModel
from tests.host.running_host import ReadEvent

NEVER_USED = "0123456789abcdef"
"""An id that no request has."""


async def _echo(request: ModelRequest) -> AsyncIterator[str]:
    yield f"{request.agent_id} heard "
    if "wait" in request.query:
        await asyncio.Event().wait()
    if "fail" in request.query:
        raise RuntimeError("a bug of the model")
    yield request.query


def echo_models() -> dict[str, Any]:
    """For `running_host`: the default model says what it hears, and waits for ever when it hears `wait`."""
    return {"parley/router": FunctionModel(_echo)}


def constitution(agent_id: str = "writer", **members: Any) -> dict[str, Any]:
    """A constitution that can be stored."""
    return {"id": agent_id, "name": agent_id.title(), "role": "worker", "goal": f"Does {agent_id} work.", **members}


def event_named(events: list[ReadEvent], name: str) -> dict[str, Any]:
    """The payload of the one event of a name."""
    (found,) = [event.payload for event in events if event.name == name]
    return found
