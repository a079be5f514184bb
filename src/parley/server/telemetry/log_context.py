"""The call or run that the current code belongs to, and its ids for log lines.

It is in a context variable, so that a line that a handler logs has the id of its task. The ids are read when a line is
logged, because a call may learn its task only after it has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeAlias

from parley.engine.runs.run import Run
from parley.protocol.errors import A2AError, InternalError
from parley.protocol.versions import Version
from parley.server.telemetry.call import Call

CallOrRun: TypeAlias = Call | Run

OK = "ok"
"""The outcome of a call without an error."""

DISCONNECTED = "DISCONNECTED"
"""The outcome of a call whose client has disconnected."""

_CURRENT: ContextVar[CallOrRun | None] = ContextVar("parley_log_context", default=None)


@contextmanager
def in_log_context(current: CallOrRun) -> Generator[None]:
    """A context that belongs to this call or run."""
    token = _CURRENT.set(current)
    try:
        yield
    finally:
        # A stream that was not read to its end may be closed in another context, where there is nothing to reset.
        with suppress(ValueError):
            _CURRENT.reset(token)


def log_context_ids() -> dict[str, str]:
    """The ids of the current call or run, as far as they are known: agent, task, context, tenant and caller."""
    current = _CURRENT.get()
    if current is None:
        return {}
    if isinstance(current, Run):
        agent, task_id, context_id = current.program.id, current.key.task_id, current.context_id
        tenant, name = current.caller.tenant, current.caller.name
    else:
        agent, task_id, context_id = current.agent, current.task_id, current.context_id
        tenant = current.caller.tenant if current.caller else ""
        name = current.caller.name if current.caller else current.identity.name
    ids = {"agent": agent, "task": task_id, "context": context_id, "tenant": tenant, "caller": name}
    return {kind: value for kind, value in ids.items() if value}


def caller_version() -> Version | None:
    """The dialect of the caller of the current call or run."""
    current = _CURRENT.get()
    if current is None:
        return None
    return current.caller.version if isinstance(current, Run) else current.version


def outcome_of(error: BaseException) -> str:
    """The outcome of a call that ended with this error: `TaskNotFoundError` → `"TASK_NOT_FOUND"`."""
    if isinstance(error, A2AError):
        return error.row.reason
    if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return DISCONNECTED
    return InternalError.row.reason
