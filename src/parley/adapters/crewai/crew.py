"""Crews: a copy of a crew for one run, which begins with the first task that is not done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crewai
import msgspec
from crewai.events.base_events import BaseEvent
from crewai.events.types.task_events import TaskCompletedEvent
from crewai.tasks.task_output import TaskOutput
from crewai.utilities.llm_utils import create_llm

from parley.adapters import adapter as a
from parley.adapters.crewai.agent import keep_servers, record_work_of, with_coroutines_awaited
from parley.adapters.crewai.input import CrewRequest
from parley.adapters.crewai.recorded_calls import record_calls_of
from parley.adapters.crewai.run import CrewRun
from parley.protocol.messages import RawPart


async def kickoff_crew(run: CrewRun, original: crewai.Crew, request: CrewRequest) -> Any:
    """Have a crew begin with the first task that is not done."""
    crew, inputs = _copy_of(original), dict(request.inputs)
    crew.stream = False
    first, last = crew.tasks[0], crew.tasks[-1]
    unused = request.text and request.text not in inputs.values()
    inputs |= {"history": request.history, **({"message": request.text} if unused else {})}
    if unused and "{message}" not in first.description:
        first.description += "\n\nThe message: {message}"
    if request.messages and "history" not in original.fetch_inputs():
        first.description += "\n\nEarlier in this conversation:\n{history}"
    crew.manager_llm = create_llm(crew.manager_llm) if crew.manager_llm else None
    agents = [*crew.agents, *(task.agent for task in crew.tasks), crew.manager_agent]
    for agent in {id(agent): agent for agent in agents if agent is not None}.values():
        record_work_of(run, agent)
    record_calls_of(run, crew.manager_llm)
    for number, task in enumerate(crew.tasks):
        task.tools = [with_coroutines_awaited(run, tool) for tool in task.tools or ()]
        if (known := run.finished.take(f"task:{number}")) is not None:
            task.output = _task_output(task, known["output"])
            if known["streamed"]:
                run.speech.note_said(task.output.raw)
            crew.checkpoint_kickoff_event_id = "parley"  # makes CrewAI begin with the first task without an output
    is_changed = last.human_input or last.guardrail or last.guardrails or last.output_pydantic or last.output_json
    plans = any(getattr(agent, "planning_enabled", False) for agent in (last.agent, crew.manager_agent))
    is_final = not (is_changed or plans or crew.after_kickoff_callbacks)
    run.speech.is_heard = lambda event: is_final and event.task_id == str(last.id)

    def on_event(source: Any, event: BaseEvent) -> None:
        if not isinstance(event, TaskCompletedEvent) or not any(source is task for task in crew.tasks):
            return
        output = event.output
        if source.output_file:
            text = msgspec.json.encode(output.json_dict).decode() if output.json_dict else output.raw
            name = Path(source.output_file).name
            run.thread.put(a.Output((RawPart(text.encode(), None, name),), artifact=name))
        if source is not last:
            run.thread.put(a.Progress(f"{source.name or source.agent.role} is done"))
        kept = output.model_dump(mode="json", exclude={"messages", "tool_failures"})
        number = next(number for number, task in enumerate(crew.tasks) if task is source)
        run.checkpoint({"key": f"task:{number}", "output": kept, "streamed": output.raw.strip() == run.speech.said})

    run.on_event = on_event
    return await crew.akickoff(inputs=inputs, input_files=request.files)


def _copy_of(original: crewai.Crew) -> crewai.Crew:
    """A copy of a crew. CrewAI alone finds the agents of tasks by their roles, and in the crew only."""
    agents = list(
        {id(agent): agent for agent in (*original.agents, *(task.agent for task in original.tasks)) if agent}.values()
    )
    crew = original.model_copy(update={"agents": agents}).copy()
    copies = {id(agent): copied for agent, copied in zip(agents, crew.agents, strict=True)}
    for agent in agents:
        keep_servers(agent, copies[id(agent)])
    if original.manager_agent and crew.manager_agent:
        keep_servers(original.manager_agent, crew.manager_agent)
    for task, copied in zip(original.tasks, crew.tasks, strict=True):
        copied.agent = copies[id(task.agent)] if task.agent else None
    crew.agents = [copies[id(agent)] for agent in original.agents]
    return crew


def _task_output(task: crewai.Task, kept: Any) -> TaskOutput:
    kind: Any = task.output_pydantic
    made = kind.model_validate(kept["pydantic"]) if kind and kept.get("pydantic") else None
    return TaskOutput(**{**kept, "pydantic": made})
