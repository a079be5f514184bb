"""Sleeps and recorded values, as authors ask for them: `turn.sleep("3 days")`, `turn.now()`, `turn.uuid()`.

A value is recorded like a step, so that a handler that begins again gets the same one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

from parley.agents.durations import Duration, parse_duration
from parley.agents.threads import is_running_here
from parley.engine.runs.run import Run
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue


def wake_time(value: Duration | datetime, now: datetime) -> datetime:
    """The moment at which a sleep ends, in UTC: after a duration from now on, or at a moment.

    Raises:
        LocalProtocolError: it is neither, or it is after the year 9999.
    """
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise LocalProtocolError(
            f"Invalid moment: {value.isoformat()}. It has no time zone; write for example datetime(…, tzinfo=UTC)."
        )
    try:
        return value.astimezone(UTC) if isinstance(value, datetime) else now + parse_duration(value)
    except OverflowError as exc:
        raise LocalProtocolError(f"Invalid sleep: {value!r}. It would end after the year 9999.") from exc


def recorded_now(run: Run, name: str) -> datetime:
    """The present moment in UTC, when it was first asked for under this name."""
    return datetime.fromisoformat(str(_recorded(run, name, lambda: run.engine.clock.now().isoformat())))


def recorded_random(run: Run, name: str) -> float:
    """A random number from 0 to 1, the same in every run."""
    value = _recorded(run, name, random.random)
    assert isinstance(value, float)
    return value


def recorded_uuid(run: Run, name: str) -> str:
    """A random UUID, the same in every run."""
    return str(_recorded(run, name, lambda: str(uuid4())))


def _recorded(run: Run, name: str, make: Callable[[], JsonValue]) -> JsonValue:
    """A recorded value. Code in threads calls over to the event loop of the run, and waits."""
    if is_running_here(run.loop):
        return run.steps.value(name, make)

    async def record() -> JsonValue:
        return run.steps.value(name, make)

    return asyncio.run_coroutine_threadsafe(record(), run.loop).result()
