"""What the code at hand is busy with, a call or a run, and the ids by which telemetry names it.

The subject is in a context variable, so that a line logged deep inside a handler knows its task without being told. It
is read late: a call learns its task on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeAlias

from parley.engine.run import Run
from parley.protocol.errors import A2AError, InternalError
from parley.protocol.versions import Version
from parley.server.telemetry.observer import Call

Subject: TypeAlias = Call | Run

OK = "ok"
"""The outcome of a call that no error ended."""

DISCONNECTED = "DISCONNECTED"
"""The outcome of a call whose caller went away."""

_SUBJECT: ContextVar[Subject | None] = ContextVar("parley_subject", default=None)


@contextmanager
def about(subject: Subject) -> Generator[None]:
    """A block that is busy with this call or run."""
    token = _SUBJECT.set(subject)
    try:
        yield
    finally:
        # A stream that nobody reads to its end may be closed from another context, where there is nothing to undo.
        with suppress(ValueError):
            _SUBJECT.reset(token)


def subject_ids() -> dict[str, str]:
    """The ids of the present subject, as far as they are known: agent, task, context, tenant and caller."""
    subject = _SUBJECT.get()
    if subject is None:
        return {}
    if isinstance(subject, Run):
        agent, task_id, context_id = subject.program.id, subject.key.task_id, subject.context_id
        tenant, name = subject.caller.tenant, subject.caller.name
    else:
        agent, task_id, context_id = subject.agent, subject.task_id, subject.context_id
        tenant = subject.caller.tenant if subject.caller else ""
        name = subject.caller.name if subject.caller else subject.identity.name
    ids = {"agent": agent, "task": task_id, "context": context_id, "tenant": tenant, "caller": name}
    return {kind: value for kind, value in ids.items() if value}


def subject_version() -> Version | None:
    """The dialect that the present subject's caller speaks."""
    subject = _SUBJECT.get()
    if subject is None:
        return None
    return subject.caller.version if isinstance(subject, Run) else subject.version


def outcome_of(error: BaseException) -> str:
    """How a call ended that this error ended, as one of a few words: `TaskNotFoundError` → `"TASK_NOT_FOUND"`."""
    if isinstance(error, A2AError):
        return error.row.reason
    if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return DISCONNECTED
    return InternalError.row.reason
