"""Workflows of Microsoft Agent Framework.

The framework's checkpoint after each superstep is one of ours, so a run that was cut off goes on with the superstep
that it was at. Requests for information are questions. A workflow keeps the state of one run in its executors, so each
run has a copy of it, with the same agents. A conversation is the messages so far, if the start executor takes several.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Any, get_args

from agent_framework import AgentExecutorResponse, Message, Workflow, WorkflowEvent

from parley.adapters.adapter import (
    Checkpoint,
    Description,
    End,
    Pause,
    Piece,
    Progress,
    Start,
    skill,
)
from parley.adapters.agent_framework.checkpoints import WorkflowCheckpoints
from parley.adapters.agent_framework.messages import message_of, pieces_of
from parley.adapters.agent_framework.requests import request_question, response_to
from parley.protocol.errors import LocalProtocolError


class WorkflowAdapter:
    """One workflow."""

    def __init__(
        self, workflow: Workflow, build: Callable[[], Workflow] | None, checkpoint_types: Iterable[type]
    ) -> None:
        self._workflow = workflow
        self._build = build or self._copy
        executors = workflow.get_executors_list()
        # What is sent, said, requested and answered is in checkpoints.
        declared = [kind for each in executors for kind in (*each.input_types, *each.output_types)]
        asked = [kind for each in executors for kinds in getattr(each, "_response_handlers", ()) for kind in kinds]
        types = [kind for each in (*declared, *asked, *checkpoint_types) for kind in (each, *get_args(each))]
        names = [f"{kind.__module__}:{kind.__qualname__}" for kind in types if isinstance(kind, type)]
        self._allowed_types = frozenset(names)
        accepted = workflow.get_start_executor().input_types
        self._takes = {Message: Message in accepted, str: str in accepted}
        self._takes_several = any(
            Message in get_args(get_args(each)[0]) or Message in get_args(each) for each in accepted if get_args(each)
        )

    def describe(self) -> Description:
        """Its name and description; its executors are its skills."""
        skills = [skill(executor.id) for executor in self._workflow.get_executors_list()]
        return Description(name=self._workflow.name, description=self._workflow.description or "", skills=skills)

    async def run(self, start: Start) -> AsyncIterator[Piece]:
        """Run a copy of it, from the message or from the last checkpoint."""
        checkpoints = WorkflowCheckpoints(start.states, start.answers, self._allowed_types)
        if start.answers:
            yield Checkpoint({"answers": start.answers})
        message, history = await message_of(start.turn), start.conversation or []
        workflow, last = self._build(), await checkpoints.latest()
        options: Any = {"stream": True, "checkpoint_storage": checkpoints}
        if last is None:
            stream = workflow.run(self._input(message, history, start), **options)
        else:
            asked = last.pending_request_info_events
            responses = {id: response_to(asked[id], answer) for id, answer in checkpoints.answers.items()}
            stream = workflow.run(checkpoint_id=last.checkpoint_id, responses=responses or None, **options)
        requests: dict[str, WorkflowEvent[Any]] = {}
        async with aclosing(checkpoints.queue.pieces_of(_report(stream, checkpoints, requests))) as pieces:
            async for piece in pieces:
                yield piece
        if requests:
            if checkpoints.failure is not None:
                raise LocalProtocolError(
                    f"The workflow cannot be saved: {checkpoints.failure}"
                ) from checkpoints.failure
            yield Pause(tuple(request_question(id, event) for id, event in requests.items()))
            return
        said = [message.to_dict(), Message("assistant", [checkpoints.text]).to_dict()]
        yield End([*history, *said] if self._takes_several else None, dict(checkpoints.usage))

    def _copy(self) -> Workflow:
        agents = [getattr(executor, "agent", None) for executor in self._workflow.get_executors_list()]
        try:
            return copy.deepcopy(self._workflow, {id(agent): agent for agent in agents})
        except TypeError as exc:
            hint = "Pass a function that builds it: Agent.of(workflow, build=make_workflow)"
            raise LocalProtocolError(f"The workflow {self._workflow.name!r} cannot be copied: {exc}. {hint}") from exc

    def _input(self, message: Message, history: Any, start: Start) -> Any:
        """The message in the type that the start executor takes."""
        if self._takes_several:
            return [*[Message.from_dict(each) for each in history], message]
        if self._takes[Message]:
            return message
        return start.turn.text if self._takes[str] or start.turn.data is None else start.turn.data


async def _report(stream: Any, checkpoints: WorkflowCheckpoints, requests: dict[str, WorkflowEvent[Any]]) -> None:
    async for event in stream:
        if event.type == "executor_invoked":
            checkpoints.queue.put(Progress(f"Running {event.executor_id}"))
        elif event.type == "request_info":
            requests[event.request_id] = event
        elif event.type in ("output", "intermediate"):
            pieces = pieces_of(event.data)
            checkpoints.text += "".join(piece for piece in pieces if isinstance(piece, str))
            checkpoints.queue.put(*pieces)
        elif event.type == "executor_completed":
            for sent in event.data or ():
                if isinstance(sent, AgentExecutorResponse):
                    checkpoints.count(sent.agent_response)
