"""The checkpointer: LangGraph's own conformance suite, and what its states bring back."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer

from parley.adapters.langgraph.checkpoints import TaskCheckpoints
from parley.protocol.jsonvalue import JsonValue

pytestmark = pytest.mark.anyio


@checkpointer_test(name="one process")
async def one_process() -> AsyncIterator[TaskCheckpoints]:
    yield TaskCheckpoints()


class ReadElsewhere(TaskCheckpoints):
    """A checkpointer that is read in another process: what it returns comes from its states."""

    def __init__(self) -> None:
        super().__init__()
        self._states: list[JsonValue] = []

    def _elsewhere(self) -> TaskCheckpoints:
        self._states.append(json.loads(json.dumps(self.take_changes(everything=True))))
        return TaskCheckpoints(self._states)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._elsewhere().get_tuple(config)

    def list(self, *args: Any, **options: Any) -> Any:
        return self._elsewhere().list(*args, **options)


@checkpointer_test(name="another process")
async def another_process() -> AsyncIterator[TaskCheckpoints]:
    yield ReadElsewhere()


@pytest.mark.parametrize("saver", [one_process, another_process], ids=lambda saver: saver.name)
async def test_it_conforms(saver: RegisteredCheckpointer) -> None:
    report = await validate(saver)
    outcomes = {
        name: (result.tests_failed, result.failures) for name, result in report.results.items() if result.detected
    }
    assert outcomes == {name: (0, []) for name in ("put", "put_writes", "get_tuple", "list", "delete_thread")}


def where(checkpoint_id: str | None = None) -> RunnableConfig:
    named = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    return {"configurable": {"thread_id": "1", "checkpoint_ns": "", **named}}


def put(saver: TaskCheckpoints, parent: str | None, step: int, **values: Any) -> str:
    """Store a checkpoint in which all channels have a new version."""
    versions: dict[str, Any] = dict.fromkeys(values, f"{step:06x}.000000")
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = versions
    saver.put(where(parent), checkpoint, {"source": "loop", "step": step}, versions)
    return checkpoint["id"]


def test_what_the_stream_has_not_told_yet_is_in_no_state() -> None:
    saver = TaskCheckpoints()
    first = put(saver, None, 1, x=1)
    saver.note_streamed(checkpoint=where(first))
    saver.put_writes(where(first), [("x", "of a")], "task-a")
    saver.put_writes(where(first), [("x", "of b")], "task-b")
    assert saver.note_streamed(task_id="task-a")
    states = [saver.take_changes()]
    assert not saver.note_streamed(task_id="task-c")
    found = TaskCheckpoints(states).get_tuple(where())
    assert found is not None
    assert found.pending_writes == [("task-a", "x", "of a")]
    assert saver.note_streamed(task_id="task-b")
    found = TaskCheckpoints([*states, saver.take_changes()]).get_tuple(where())
    assert found is not None
    assert found.pending_writes == [("task-a", "x", "of a"), ("task-b", "x", "of b")]
    assert saver.take_changes() == {}


def test_a_state_has_only_the_new_items_of_a_list() -> None:
    saver = TaskCheckpoints()
    parent = put(saver, None, 1, messages=["a" * 1000])
    states = [saver.take_changes(everything=True)]
    put(saver, parent, 2, messages=["a" * 1000, "b"])
    states.append(saver.take_changes(everything=True))
    assert len(json.dumps(states[0])) > 1000
    assert len(json.dumps(states[1])) < 1000
    found = TaskCheckpoints(states).get_tuple(where())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"messages": ["a" * 1000, "b"]}


def test_a_conversation_is_the_latest_checkpoint_and_can_be_continued() -> None:
    saver = TaskCheckpoints()
    put(saver, put(saver, None, 1, messages=["a"]), 2, messages=["a", "b"])
    conversation = json.loads(json.dumps(saver.conversation("1")))
    again = TaskCheckpoints([conversation])
    assert [found.checkpoint["channel_values"] for found in again.list(where())] == [{"messages": ["a", "b"]}]
    latest = again.get_tuple(where())
    assert latest is not None
    put(again, latest.checkpoint["id"], 3, messages=["a", "b", "c"])
    restored = TaskCheckpoints([conversation, again.take_changes(everything=True)]).get_tuple(where())
    assert restored is not None
    assert restored.checkpoint["channel_values"] == {"messages": ["a", "b", "c"]}
