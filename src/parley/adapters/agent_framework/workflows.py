"""Workflows of Microsoft Agent Framework.

The framework's checkpoint after each superstep is one of ours, so a run that was cut off goes on with the superstep
that it was at. Requests for information are questions. A workflow keeps the state of one run in its executors, so each
run has a copy of it, with the same agents. A conversation is the messages so far, if the start executor takes several.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, get_args

from agent_framework import AgentExecutorResponse, Message, Workflow, WorkflowEvent

from parley.adapters.adapter import Checkpoint, Description, End, Pause, Piece, Progress, Start, skill
from parley.adapters.agent_framework.checkpoints import WorkflowCheckpoints, type_names
from parley.adapters.agent_framework.copies import copy_of
from parley.adapters.agent_framework.messages import message_of, pieces_of
from parley.adapters.agent_framework.requests import request_question, response_to
from parley.protocol.errors import LocalProtocolError

MADE_UP = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""How names end that the framework makes up."""


class WorkflowAdapter:
    """One workflow."""

    def __init__(
        self, workflow: Workflow, build: Callable[[], Workflow] | None, checkpoint_types: Iterable[type]
    ) -> None:
        self._workflow = workflow
        self._build = build or partial(copy_of, workflow)
        executors = workflow.get_executors_list()
        # What is sent, said, requested and answered is in checkpoints.
        declared = [kind for each in executors for kind in (*each.input_types, *each.output_types)]
        asked = [kind for each in executors for kinds in getattr(each, "_response_handlers", ()) for kind in kinds]
        self._allowed_types = type_names([*declared, *asked, *checkpoint_types])
        accepted = workflow.get_start_executor().input_types
        self._takes = {Message: Message in accepted, str: str in accepted}
        self._takes_several = any(
            Message in get_args(get_args(each)[0]) or Message in get_args(each) for each in accepted if get_args(each)
        )

    def describe(self) -> Description:
        """Its name and description; its executors are its skills."""
        skills = [skill(executor.id) for executor in self._workflow.get_executors_list()]
        name, description = given_name(self._workflow.name), self._workflow.description or ""
        return Description(name=name, description=description, skills=skills)

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

    def _input(self, message: Message, history: Any, start: Start) -> Any:
        """The message in the type that the start executor takes."""
        if self._takes_several:
            return [*[Message.from_dict(each) for each in history], message]
        if self._takes[Message]:
            return message
        return start.turn.text if self._takes[str] or start.turn.data is None else start.turn.data


def given_name(name: str | None) -> str:
    """The name of a workflow; empty if the framework has made it up, because another process makes up another."""
    return "" if name is None or MADE_UP.search(name) else name


async def _report(stream: Any, checkpoints: WorkflowCheckpoints, requests: dict[str, WorkflowEvent[Any]]) -> None:
    narration = checkpoints.narration
    async for event in stream:
        said: Iterable[Piece] = ()
        match event.type:
            case "executor_invoked":
                narration.begin(event.executor_id)
                said = [Progress(f"Running {event.executor_id}")]
            case "request_info":
                requests[event.request_id] = event
            case "output" | "intermediate":
                said = narration.say(event.executor_id, pieces_of(event.data))
            case "executor_completed":
                said = narration.end(event.executor_id)
                for sent in event.data or ():
                    if isinstance(sent, AgentExecutorResponse):
                        checkpoints.count(sent.agent_response)
            case _:
                pass
        checkpoints.say(*said)
