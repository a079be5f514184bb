"""What a worker says of itself with each renewal of its lease, for people and monitoring; no engine decides by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.protocol.jsonvalue import JsonObject

if TYPE_CHECKING:
    from parley.engine.engine import Engine


def report_of(engine: Engine) -> JsonObject:
    """The state of a worker, its runs and what its hints do, beside what its server says in `Engine.replica`."""
    runs, hints = engine.runs, engine.hints
    report: JsonObject = {
        **engine.replica,
        "state": "draining" if engine.is_draining else "ready",
        "runs": runs.working,
        "waiting": runs.waiting,
        "webhooks": engine.webhooks.pending,
    }
    if hints is not None:
        report["hint_lag"] = hints.lag()
        report["hint_problem"] = hints.problem()
    return report
