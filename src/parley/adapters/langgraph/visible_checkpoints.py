"""Which checkpointer a run of a graph gets, and how the nodes of a graph with one in memory see that of their run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from parley.adapters.langgraph.checkpoints import TaskCheckpoints
from parley.protocol.jsonvalue import JsonValue


class VisibleCheckpoints(InMemorySaver):
    """In place of the author's checkpointer in memory: within a run it is the run's, elsewhere it is the author's.

    So `graph.get_state` works in nodes, which know the author's graph, and not the one that is run.
    """

    def __init__(self, author: InMemorySaver) -> None:
        super().__init__(serde=author.serde)
        self.author = author
        self.run: ContextVar[TaskCheckpoints | None] = ContextVar("run", default=None)

    @property
    def _saver(self) -> InMemorySaver:
        return self.run.get() or self.author

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint."""
        return self._saver.get_tuple(config)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Checkpoints."""
        return self._saver.list(config, **options)

    def put(self, *args: Any) -> RunnableConfig:
        """Store a checkpoint."""
        return self._saver.put(*args)

    def put_writes(self, *args: Any) -> None:
        """Store what a task of LangGraph has written."""
        self._saver.put_writes(*args)

    def delete_thread(self, thread_id: str) -> None:
        """Forget everything of a thread."""
        self._saver.delete_thread(thread_id)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that sorts after the current one."""
        return self._saver.get_next_version(current, channel)

    def get_delta_channel_history(self, **options: Any) -> Mapping[str, DeltaChannelHistory]:
        """What channels of deltas are computed from."""
        return self._saver.get_delta_channel_history(**options)


def make_visible(graph: Pregel[Any, Any, Any, Any]) -> None:
    """Let the nodes of a graph with a checkpointer in memory read the checkpoints of their run."""
    if isinstance(graph.checkpointer, InMemorySaver) and not isinstance(graph.checkpointer, VisibleCheckpoints):
        graph.checkpointer = VisibleCheckpoints(graph.checkpointer)


def saver_for(graph: Pregel[Any, Any, Any, Any], states: Iterable[JsonValue]) -> TaskCheckpoints | None:
    """The checkpointer for a run of a graph in place of the one that it has, if that is in memory or missing.

    A serialiser that the author has chosen is kept, such as one that encrypts.
    """
    checkpointer = graph.checkpointer
    if isinstance(checkpointer, VisibleCheckpoints):
        is_chosen = checkpointer.serde is not InMemorySaver.serde
        saver = TaskCheckpoints(states, serde=checkpointer.serde if is_chosen else None)
        checkpointer.run.set(saver)
        return saver
    return TaskCheckpoints(states) if checkpointer is None or isinstance(checkpointer, bool) else None
