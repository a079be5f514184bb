"""Flows: a copy of a flow for one run, whose finished methods are not executed again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from copy import deepcopy
from functools import wraps
from typing import Any

from crewai.events.base_events import BaseEvent
from crewai.events.types.task_events import TaskStartedEvent
from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai.flow.flow import Flow
from crewai.flow.flow_config import flow_config
from pydantic import BaseModel

from parley.adapters.crewai.input import CrewRequest
from parley.adapters.crewai.questions import CallerProvider
from parley.adapters.crewai.records import is_json
from parley.adapters.crewai.run import CrewRun
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject

_method: ContextVar[str | None] = ContextVar("parley_flow_method", default=None)


async def kickoff_flow(run: CrewRun, original: Flow[Any], request: CrewRequest) -> Any:
    """Have a flow execute the methods that are not finished."""
    settings = {
        name: getattr(original, name) for name in original.model_fields_set if not name.startswith("checkpoint")
    }
    flow = type(original)(**settings)
    flow.stream = False
    for kind in ("hitl_provider", "input_provider"):
        if getattr(flow_config, kind) is None:
            setattr(flow_config, kind, CallerProvider())
    flow._methods.update({name: _recorded(run, flow, name, method) for name, method in flow._methods.items()})
    listened = str([method.listen for method in flow._definition.methods.values()])
    last_methods = {name for name in flow._methods if repr(str(name)) not in listened}
    last_tasks: set[str] = set()
    run.speech.is_heard = lambda event: _method.get() in last_methods and event.task_id in {None, *last_tasks}

    def on_event(source: Any, event: BaseEvent) -> None:
        crew = getattr(source.agent, "crew", None) if isinstance(event, TaskStartedEvent) else None
        if crew is not None and source is crew.tasks[-1]:
            last_tasks.add(str(source.id))

    run.on_event = on_event
    inputs = {**(request.state if flow.persistence is not None else {}), **request.inputs}
    inputs.pop("id", None)  # of a state that CrewAI would load, which may be that of another caller
    if isinstance(flow.state, dict) or "history" in type(flow.state).model_fields:
        inputs["history"] = request.messages
    result = await flow.kickoff_async(inputs=inputs, input_files=request.files)
    if isinstance(result, HumanFeedbackPending):
        raise LocalProtocolError("A `provider` of @human_feedback answers later; without one, the caller is asked")
    if flow.persistence is not None:
        run.state = {name: value for name, value in _state(flow).items() if name != "id"}
    return result


def _recorded(run: CrewRun, flow: Flow[Any], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a flow that is not executed again: its result and its changes of the state are recorded."""
    is_coroutine = asyncio.iscoroutinefunction(method)  # CrewAI marks its wrappers of coroutine functions for this one

    def call(*args: Any, **kwargs: Any) -> Any:
        run.thread.calls.begin(call_key := object())
        try:
            return method(*args, **kwargs)
        finally:
            run.thread.calls.end(call_key)

    def note(before: JsonObject, result: Any) -> None:
        changed = {name: value for name, value in _state(flow).items() if name not in before or before[name] != value}
        if is_json(result) and is_json(changed):
            streamed = str(result).strip() == run.speech.said
            run.checkpoint({"key": f"method:{name}", "result": result, "state": changed, "streamed": streamed})

    @wraps(method)
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        _method.set(name)
        if (known := run.finished.take(f"method:{name}")) is not None:
            _change(flow, known["state"])
            if known["streamed"]:
                run.speech.note_said(str(known["result"]))
            return known["result"]
        before = _state(flow)
        with run.speech.work():
            result = await (method(*args, **kwargs) if is_coroutine else asyncio.to_thread(call, *args, **kwargs))
            await asyncio.to_thread(note, before, result)  # it may have to wait for another method of this loop
            return result

    return recorded


def _state(flow: Flow[Any]) -> JsonObject:
    state = flow.state
    made: JsonObject = state.model_dump(mode="json") if isinstance(state, BaseModel) else deepcopy(dict(state))
    return made


def _change(flow: Flow[Any], changed: JsonObject) -> None:
    """Make changes to a flow's state that a method has made before."""
    state = flow.state
    if not isinstance(state, BaseModel):
        state.update(changed)
        return
    validated = type(state).model_validate({**state.model_dump(), **changed})
    for name in changed:
        setattr(state, name, getattr(validated, name))
