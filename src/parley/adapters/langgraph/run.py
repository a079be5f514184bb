"""One run of a graph: the events of its stream become pieces, and what is finished becomes the state of checkpoints.

LangGraph works in supersteps. After each of them, and after each task of one in which other tasks go on, there is a
checkpoint, unless text of a task that goes on was streamed: it would come again after a crash. A state holds the
changes of `TaskCheckpoints` (or the id of a checkpoint that the graph's own checkpointer holds), the ids of the
messages that were streamed, and the tokens that were used.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.constants import TAG_NOSTREAM
from langgraph.pregel import Pregel
from pydantic_core import to_json

from parley.adapters import adapter as a
from parley.adapters.langgraph.checkpoints import TaskCheckpoints
from parley.adapters.langgraph.messages import MessageStream, TaskPath, messages_in
from parley.protocol.jsonvalue import JsonObject, JsonValue

MODES: Any = ["messages", "tools", "tasks", "checkpoints", "values", "custom"]
"""The kinds of events in the stream of a graph."""

STRUCTURED = "structured_response"
"""The channel in which LangChain's agents put their structured output."""

INTERNAL_CALL = "lc_internal_call"
"""The metadata of model calls that LangChain's middleware makes for itself, such as a summary of the conversation."""


class GraphRun:
    """One run of a graph for a task."""

    def __init__(self, start: a.Start, saver: TaskCheckpoints | None, *, hides_text: bool) -> None:
        """`saver` is None if the graph has a checkpointer of its own. `hides_text` streams no text of models."""
        states: list[Any] = [state for state in start.states if isinstance(state, dict)]
        before: Any = start.conversation or {}
        # Not after the context: callers choose its id, and two of them may choose the same one. A thread of the graph's
        # own checkpointer is new if it must begin anew, because there may be something in the old one.
        known = [*[state["thread"] for state in states if "thread" in state], before.get("thread")]
        self.thread_id: str = known[0] or (start.turn.task_id if saver else uuid4().hex)
        self.answers: JsonObject = {id: answer for state in states for id, answer in state.get("answers", {}).items()}
        self.answers |= start.answers
        self.values: Any = None
        self.is_structured = any(state.get("structured") for state in states)
        self._saver = saver
        self._hides_text = hides_text
        self._at: str | None = [before.get("at"), *[state["at"] for state in states if "at" in state]][-1]
        self._newest: str | None = None
        self._messages = MessageStream([id for state in states for id in state.get("messages", ())])
        self._used = sum([Counter(state.get("usage", {})) for state in states], Counter[str]())
        self._models = ModelObserver(self._messages)
        self._running: defaultdict[TaskPath, set[str]] = defaultdict(set)
        self._worked: set[TaskPath] = set()
        """The namespaces in which a task was finished since the last superstep."""
        self._namespaces: set[TaskPath] = set()
        self.config: RunnableConfig = {
            "configurable": {"thread_id": self.thread_id},
            "metadata": {"a2a_task_id": start.turn.task_id},
            "callbacks": [self._models],
        }

    def position(self, config: RunnableConfig) -> RunnableConfig:
        """The configuration to go on with: at the checkpoint of the last state, not at a later one without its text."""
        return merge_configs(config, {"configurable": {"checkpoint_id": self._at}}) if self._at else config

    @property
    def has_text(self) -> bool:
        """Whether text was streamed in this task."""
        return self._messages.has_text

    # --- the stream ---------------------------------------------------------------------------------------------------

    async def stream(
        self, graph: Pregel[Any, Any, Any, Any], input: Any, config: RunnableConfig, context: Any
    ) -> AsyncGenerator[a.Piece]:
        """Run the graph until it ends or pauses."""
        events: Any = graph.astream(
            input,
            config,
            context=context,
            stream_mode=MODES,
            output_keys=graph.output_channels,
            subgraphs=True,
            durability="async" if self._saver else "sync",  # "sync" fails if a subgraph opts out of checkpoints
            version="v2",
        )
        async with aclosing(events):
            async for event in events:
                if event["type"] in ("tasks", "checkpoints"):
                    await asyncio.sleep(0)  # LangGraph stores in the background what these events announce
                for piece in self._pieces(event["type"], event["ns"], event["data"]):
                    if self._is_shown(piece):
                        yield piece
        for piece in self._messages.rest():
            if self._is_shown(piece):
                yield piece

    def _is_shown(self, piece: a.Piece) -> bool:
        return not (self._hides_text and isinstance(piece, str | a.Output))

    def _pieces(self, kind: str, namespace: TaskPath, data: Any) -> Iterator[a.Piece]:
        if kind == "messages":
            message, metadata = data
            if INTERNAL_CALL in metadata:
                return
            yield from self._messages.add(message, tuple(metadata["langgraph_checkpoint_ns"].split("|")))
        elif kind == "tools" and data["event"] == "tool-started":
            yield a.tool_call(data["tool_name"], data.get("input"))
        elif kind == "custom":
            shown = (
                data if isinstance(data, str) else to_json(data, bytes_mode="base64", serialize_unknown=True).decode()
            )
            yield a.Progress(shown)
        elif kind == "values" and not namespace:
            self.values = data
        elif kind == "tasks" and "result" not in data:
            self._running[namespace].add(data["id"])
        elif kind == "tasks":
            yield from self._finished_task(namespace, data)
        elif kind == "checkpoints":
            yield from self._finished_superstep(namespace, data)

    def _finished_task(self, namespace: TaskPath, data: Any) -> Iterator[a.Piece]:
        self._running[namespace].discard(data["id"])
        if data["interrupts"] or data["error"]:
            return
        self._worked.add(namespace)
        self.is_structured = self.is_structured or (not namespace and STRUCTURED in data["result"])
        if self._saver is None or not self._saver.note_streamed(task_id=data["id"]):
            return
        segment = f"{data['name']}:{data['id']}"
        yield from self._messages.finish(lambda path: segment in path)
        if self._running[namespace]:  # else the checkpoint of the superstep comes next
            yield from self._checkpoint()
        yield from self._messages.release()

    def _finished_superstep(self, namespace: TaskPath, data: Any) -> Iterator[a.Piece]:
        self._running[namespace].clear()
        if namespace not in self._namespaces:  # with what the graph began
            self._namespaces.add(namespace)
            self._messages.note_history(data["values"])
        for message in messages_in(data["values"]):  # a message that a node wrote as a dict is in no other event
            yield from self._messages.add(message, namespace)
        if not (self._saver.note_streamed(checkpoint=data["config"]) if self._saver else not namespace):
            return
        if not namespace:
            self._newest = data["config"]["configurable"]["checkpoint_id"]
        yield from self._messages.finish(lambda path: path[: len(namespace)] == namespace)
        is_last = not namespace and not data["next"]  # the end comes next
        if namespace in self._worked and not is_last:  # else the graph has only taken its input
            self._worked.remove(namespace)
            yield from self._checkpoint()
        yield from self._messages.release()

    def _checkpoint(self) -> Iterator[a.Piece]:
        if self._messages.is_settled and (changes := self._saver.take_changes() if self._saver else self._place()):
            yield a.Checkpoint(self._state(changes))

    # --- what is kept -------------------------------------------------------------------------------------------------

    def pause_state(self) -> JsonObject:
        """The state of a pause: everything that the graph has stored."""
        return self._state(self._saver.take_changes(everything=True) if self._saver else self._place())

    def conversation(self) -> JsonObject:
        """What the next run of the conversation needs."""
        if self._saver is None:
            return self._place()
        return {"thread": self.thread_id, **self._saver.conversation(self.thread_id)}

    def _place(self) -> JsonObject:
        """Where the graph is in the checkpointer of its own."""
        return {"thread": self.thread_id, "at": self._newest}

    def usage(self) -> JsonObject:
        """The tokens of the whole task."""
        return dict(self._used + self._models.used)

    def _state(self, changes: JsonObject) -> JsonObject:
        used, self._models.used = self._models.used, Counter()
        self._used += used
        ids = list[JsonValue](self._messages.take_ids())
        optional: JsonObject = {"messages": ids, "usage": dict(used), "structured": self.is_structured}
        return {**changes, **{key: value for key, value in optional.items() if value}}


class ModelObserver(BaseCallbackHandler):
    """Counts the tokens of all models that are called in a run, and hides the messages of those tagged `nostream`."""

    run_inline = True

    def __init__(self, messages: MessageStream) -> None:
        self.used: Counter[str] = Counter()
        self._messages = messages

    def on_llm_end(self, response: LLMResult, *, tags: list[str] | None = None, **_: Any) -> None:
        """A model was called."""
        self.used["requests"] += 1
        for generation in [one for many in response.generations for one in many]:
            message = getattr(generation, "message", None)
            if isinstance(message, AIMessage) and message.usage_metadata:
                self.used["inputTokens"] += message.usage_metadata["input_tokens"]
                self.used["outputTokens"] += message.usage_metadata["output_tokens"]
            if isinstance(message, AIMessage) and TAG_NOSTREAM in (tags or ()):
                self._messages.ignore(message)  # LangGraph would stream it as a whole, when its node returns it
