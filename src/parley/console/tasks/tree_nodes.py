"""The nodes of one task's tree, made of its log: steps, streams, model and tool calls, delegations, sleeps, questions.

A log says when a step has ended, and seldom when it began. Then its beginning is taken to be the end of what came
before it: of the step, message, status or takeover before it, or of the event before the first chunk of a stream. So of
steps that run side by side only the first has its true beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from parley.agents.elsewhere import asked_elsewhere
from parley.console.tasks.summaries import MAX_STATUS_TEXT, one_line, shown_text
from parley.protocol.events import (
    ArtifactUpdate,
    MessageAdded,
    NoteAdded,
    QuestionAsked,
    SleepStarted,
    StatusUpdate,
    StepKind,
    StepProgressed,
    StepRecorded,
    TaskClaimed,
    TaskCreated,
)
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import DataPart
from parley.protocol.tasks import TaskState
from parley.stores.interface import StoredEvent, TaskHead

NodeKind = Literal[
    "task", "step", "stream", "model", "tool", "delegate", "remote", "sleep", "question", "approval", "value"
]

HOST_PREFIX = "x-arbiter."
"""The prefix of metadata in artifacts with which a host reports what its agents do."""

MODEL_CALL = "model call "
COMMAND = " command "
"""Parts of the names of a host's steps: `model call 1`, `call 1 command 2`."""

HIDDEN_VALUES = ("parley", "urn:", "constitution")
"""Prefixes of the names of values that a host keeps for itself."""

MAX_NAME = 200

WORKING, COMPLETED, FAILED = TaskState.WORKING.value, TaskState.COMPLETED.value, TaskState.FAILED.value


class Node(Struct, kw_only=True):
    """A node, while the log is read."""

    id: str
    parent: str | None
    kind: NodeKind
    name: str
    state: str = WORKING
    task: str | None = None
    agent: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    detail: str = ""
    error: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: str | None = None
    currency: str = ""
    seq: int | None = None
    approval: str | None = None
    call_number: int = 0
    """Of a model call: which of its task it is, from 1."""
    delegated: tuple[str, str] | None = None
    """Of a delegation: the agent's name, and its task once that is known, else empty."""


class TaskNodes:
    """Reads the log of a task in order, and makes its nodes."""

    def __init__(self, head: TaskHead, *, parent: str | None, agent: str, name: str) -> None:
        self._head = head
        task_id = head.key.task_id
        self.root = Node(
            id=task_id, parent=parent, kind="task", name=name, task=task_id, agent=agent, state=head.state.value, seq=1
        )
        self.root.started_at = head.created_at
        self.nodes: list[Node] = [self.root]
        self._steps: dict[tuple[str, int], Node] = {}
        self._last_at: datetime | None = None
        """When the event before was written."""
        self._boundary: datetime | None = head.created_at
        """When the last event was written after which a step can have begun."""
        self._chunks: dict[str, list[datetime | None]] = {}
        """Of each artifact, when the event before each of its chunks was written."""
        self._question_name = ""
        self._waits: Node | None = None
        self._sleeps: Node | None = None
        self._model: Node | None = None
        self._tool: Node | None = None
        self._calls = 0

    def read(self, stored: StoredEvent) -> None:
        """Read the next event."""
        event, at = stored.event, stored.written_at
        match event:
            case StepRecorded():
                self._record(event, stored)
            case StepProgressed():
                self._progress(event, stored)
            case ArtifactUpdate():
                self._chunks.setdefault(event.artifact.artifact_id, []).append(self._last_at)
                self._read_tool_call(event, stored)
            case NoteAdded():
                self._note(event)
            case QuestionAsked():
                self._question_name = event.name
            case StatusUpdate():
                self._change(event, stored)
            case MessageAdded():
                self._end_wait(at)
            case SleepStarted():
                self._sleeps = next((node for node in reversed(self.nodes) if node.kind == "sleep"), None)
            case TaskClaimed():
                self._wake(at)
            case TaskCreated():
                self.root.started_at = at or event.status.timestamp or self.root.started_at
            case _:
                pass
        if not isinstance(event, ArtifactUpdate | NoteAdded | StepProgressed):
            self._boundary = at or self._boundary
        self._last_at = at

    # --- steps --------------------------------------------------------------------------------------------------------

    def _node(self, name: str, number: int, kind: StepKind, seq: int) -> Node:
        node = self._steps.get((name, number))
        if node is None:
            kinds: dict[StepKind, NodeKind] = {
                "step": "tool" if COMMAND in name else "step",
                "stream": "model" if name.startswith(MODEL_CALL) else "stream",
                "delegate": "delegate",
                "sleep": "sleep",
                "value": "value",
            }
            shown = f"{name} {number + 1}" if number else name
            node = Node(
                id=f"{self._head.key.task_id}/{name}#{number}",
                parent=self.root.id,
                kind=kinds[kind],
                name=shown[:MAX_NAME],
                seq=seq,
            )
            self._steps[name, number] = node
            self.nodes.append(node)
        return node

    def _progress(self, event: StepProgressed, stored: StoredEvent) -> None:
        node = self._node(event.name, event.number, event.kind, stored.seq)
        node.started_at = node.started_at or stored.written_at
        if event.kind == "delegate":
            self._delegate(node, event.value)

    def _delegate(self, node: Node, progress: JsonValue) -> None:
        match progress:
            case {"agent": str(agent)}:
                task = progress.get("task")
                node.name = agent[:MAX_NAME]
                node.delegated = (agent, task if isinstance(task, str) else "")
            case _:
                pass

    def _record(self, event: StepRecorded, stored: StoredEvent) -> None:
        if event.kind == "value" and event.name.startswith(HIDDEN_VALUES):
            return
        is_new = (event.name, event.number) not in self._steps
        node = self._node(event.name, event.number, event.kind, stored.seq)
        at = stored.written_at
        if node.started_at is None or (is_new and event.kind in ("value", "sleep")):
            node.started_at = at if event.kind in ("value", "sleep") else self._beginning(event)
        node.ended_at, node.state = at, COMPLETED
        match event.kind:
            case "sleep":
                self._record_sleep(node, event.value)
            case "delegate":
                self._record_delegation(node, event.value)
            case "step" if node.kind == "tool":
                self._tool = node
            case "step" | "value" if isinstance(event.value, str | int | float | bool):
                node.detail = one_line(str(event.value), MAX_STATUS_TEXT)
            case "stream" if node.kind == "model":
                self._model = node
            case _:
                pass

    def _beginning(self, event: StepRecorded) -> datetime | None:
        match event.value:
            case {"artifact": str(name), "first": int(first)} if event.kind == "stream":
                before = self._chunks.get(name, [])[first : first + 1]
                return before[0] if before else self._boundary
            case _:
                return self._boundary

    def _record_sleep(self, node: Node, value: JsonValue) -> None:
        try:
            until = datetime.fromisoformat(str(value))
        except ValueError:
            return
        node.ended_at, node.detail = until, f"until {until.isoformat()}"

    def _record_delegation(self, node: Node, value: JsonValue) -> None:
        outcome = value.get("outcome") if isinstance(value, dict) else None
        match outcome:
            case {"type": "failed"}:
                node.state = FAILED
                node.error = one_line(str(outcome.get("reason", "")), MAX_STATUS_TEXT)
            case {"type": "task", "id": str(task)} if node.delegated is not None and not node.delegated[1]:
                node.delegated = (node.delegated[0], task)
            case _:
                pass

    def add_in_progress(self, steps: Sequence[tuple[str, int, StepKind]]) -> None:
        """Add the steps that a run of this process works on, and of which the log says nothing yet."""
        for name, number, kind in steps:
            if (name, number) not in self._steps and kind != "value":
                node = self._node(name, number, kind, self._head.last_seq)
                node.started_at = self._boundary

    # --- what a host tells --------------------------------------------------------------------------------------------

    def _read_tool_call(self, event: ArtifactUpdate, stored: StoredEvent) -> None:
        """Read the name and the outcome of a tool call, which follow the call. Some calls are not steps."""
        markers = event.metadata or event.artifact.metadata
        if f"{HOST_PREFIX}tool_call" not in markers or not event.artifact.parts:
            return
        match event.artifact.parts[0]:
            case DataPart(data={"tool": str(tool), "ok": ok}):
                node, self._tool = self._tool, None
                self._boundary = stored.written_at or self._boundary
                if node is None:
                    node = self._node(f"tool{COMMAND}{stored.seq}", 0, "step", stored.seq)
                    node.started_at = node.ended_at = stored.written_at
                node.name, node.state = tool[:MAX_NAME], COMPLETED if ok else FAILED
            case _:
                pass

    def _note(self, event: NoteAdded) -> None:
        value = event.value
        match event.name:
            case "token_usage":
                self._calls += 1
                node, self._model = self._model, None
                if node is None:  # a call that is not a step, such as that of an advisor
                    return
                node.name = one_line(str(value.get("model", node.name)), MAX_NAME)
                node.input_tokens, node.output_tokens = _count(value, "input_tokens"), _count(value, "output_tokens")
                node.call_number = self._calls
            case "approval_decided":
                found = [node for node in self.nodes if node.approval and node.approval == value.get("approval_id")]
                for node in found:
                    node.state = str(value.get("state", value.get("decision", COMPLETED)))[:MAX_NAME]
                    node.detail = one_line(f"{value.get('decision', '')} by {value.get('decided_by', '')}", 200)
            case _:
                pass

    # --- the task -----------------------------------------------------------------------------------------------------

    def _change(self, event: StatusUpdate, stored: StoredEvent) -> None:
        status, at = event.status, event.status.timestamp or stored.written_at
        said = shown_text(status.message, MAX_STATUS_TEXT) if status.message is not None else ""
        self._end_wait(stored.written_at)
        self._wake(stored.written_at)
        if is_interrupted(status.state):
            self._wait(event, stored, said)
            self.root.detail = said
        elif is_terminal(status.state):
            self.root.ended_at = at
            if status.state is TaskState.COMPLETED:
                self.root.detail = said
            else:
                error = event.metadata.get(f"{HOST_PREFIX}error")
                self.root.error = said or (one_line(error, MAX_STATUS_TEXT) if isinstance(error, str) else "")
            self._end_open(status.state, at)
        else:
            self.root.ended_at = None
            self.root.detail = said

    def _wait(self, event: StatusUpdate, stored: StoredEvent, said: str) -> None:
        elsewhere = asked_elsewhere(event.status)
        name, self._question_name = self._question_name, ""
        self._waits = Node(
            id=f"{self._head.key.task_id}/waits#{stored.seq}",
            parent=self.root.id,
            kind="question" if elsewhere is None else "approval",
            name="approval" if elsewhere is not None else one_line(name, MAX_NAME) or "question",
            state=event.status.state.value,
            started_at=stored.written_at or event.status.timestamp,
            detail=said,
            seq=stored.seq,
            approval=None if elsewhere is None else elsewhere[0],
        )
        self.nodes.append(self._waits)

    def _end_wait(self, at: datetime | None) -> None:
        if self._waits is not None:
            self._waits.ended_at, self._waits.state = at, COMPLETED
            self._waits = None

    def _wake(self, at: datetime | None) -> None:
        if self._sleeps is not None and at is not None:
            self._sleeps.ended_at = at
            self._sleeps = None

    def _end_open(self, state: TaskState, at: datetime | None) -> None:
        """End the nodes that are open when the task ends."""
        for node in self.nodes[1:]:
            if node.ended_at is None:
                node.ended_at = at
                node.state = COMPLETED if state is TaskState.COMPLETED else state.value


def _count(value: JsonObject, name: str) -> int:
    count = value.get(name)
    return count if isinstance(count, int) and not isinstance(count, bool) else 0
