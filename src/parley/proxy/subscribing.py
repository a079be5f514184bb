"""Subscribes to tasks of the agent.

A subscriber gets the task first and all later events, and the right error or last status for a task that has ended,
even if the agent itself behaves differently.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from parley.engine.caller import Caller
from parley.engine.reading.following import Numbered
from parley.protocol import requests as r
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import is_terminal
from parley.protocol.versions import Version
from parley.proxy.addressing import Addressing
from parley.proxy.upstream import Upstream


async def subscribed(
    upstream: Upstream, addressing: Addressing, request: r.SubscribeToTaskRequest, caller: Caller, after: int | None
) -> AsyncGenerator[Numbered]:
    """A task's events, those after a number where the agent has numbers."""
    asked = addressing.of_task(request, caller)
    view = addressing.view(caller)
    following = upstream.following(asked.tenant)
    if after is None or not upstream.has_cursors:
        task = await upstream.read(asked.task_id, asked.tenant)
        if is_terminal(task.status.state):
            if caller.version is Version.V1_0:
                raise UnsupportedOperationError("The task has ended; read it instead")
            shown = view.task(task)
            yield 0, StatusUpdate(shown.id, shown.context_id, shown.status)
            return
        if not upstream.has_cursors:  # such an agent may begin with the next event instead of the task
            following.begin_with(task)
            yield 0, view.task(task)
    try:
        async with aclosing(upstream.follow(asked, after, following)) as events:
            async for number, event in events:
                yield number, view.event(event)
    except (UnsupportedOperationError, InvalidParamsError, TaskNotFoundError):
        if following.seen.task_id is None:
            raise
        # It has ended in between.
        for event in following.seen.difference(await upstream.read(asked.task_id, asked.tenant)):
            yield 0, view.event(event)
