"""A LangGraph checkpointer that keeps a graph's state in the log of its task, so that a graph needs no other database.

Within a task, what LangGraph stores is collected here as changes, and the adapter puts them into the states of its own
checkpoints. A new run in another process is given these states, and finds what the last one had. Between tasks, a
conversation is the latest checkpoint of each namespace that the next run can see.

A channel's value is written once per version, and of a list only the items that are new, so a growing history of
messages is not written again with every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import getrandbits
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    SerializerProtocol,
)
from langgraph.checkpoint.memory import InMemorySaver

from parley.adapters.langgraph.checkpoint_json import ITEMS, ItemSerializer, Typed, typed_json, typed_value, writes_json
from parley.protocol.jsonvalue import JsonObject, JsonValue

DELTAS = "counters_since_delta_snapshot"
"""The member of a checkpoint's metadata that names the channels whose value is computed from the writes of tasks."""


@dataclass(frozen=True, kw_only=True)
class CheckpointChange:
    """Something that LangGraph has stored: a checkpoint, or the writes of one of its tasks to a checkpoint."""

    thread_id: str
    namespace: str
    checkpoint_id: str
    task_id: str | None
    """The task that wrote; None for a checkpoint."""
    json: JsonObject


class TaskCheckpoints(InMemorySaver):
    """The checkpoints of one run of a graph: those of the states that it is made with, and what is stored since."""

    def __init__(self, states: Iterable[JsonValue] = (), *, serde: SerializerProtocol | None = None) -> None:
        """`states` are the conversation and the states of earlier runs, oldest first."""
        super().__init__(serde=serde or ItemSerializer())
        self._changes: list[CheckpointChange] = []
        self._deleted: list[str] = []
        self._streamed: set[str] = set()
        self._newest: dict[tuple[str, str], str] = {}
        self._last_lists: dict[tuple[str, str, str], Sequence[Typed]] = {}
        for state in states:
            if isinstance(state, dict):
                self._restore(state)
        self._deleted.clear()

    # --- for LangGraph ------------------------------------------------------------------------------------------------

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that sorts after the current one. Two branches of a thread get different ones."""
        number = int(current.split(".")[0], 16) if current else 0
        return f"{number + 1:06x}.{getrandbits(24):06x}"

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        stored = super().put(config, checkpoint, metadata, new_versions)
        thread_id, namespace = stored["configurable"]["thread_id"], stored["configurable"]["checkpoint_ns"]
        json = self._checkpoint_json(thread_id, namespace, checkpoint["id"], new_versions)
        self._note(thread_id, namespace, checkpoint["id"], None, json)
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task of LangGraph has written."""
        where = config["configurable"]
        key = (where["thread_id"], where.get("checkpoint_ns", ""), where["checkpoint_id"])
        before = dict(self.writes.get(key, {}))
        super().put_writes(config, writes, task_id, task_path)
        new = {inner: write for inner, write in self.writes.get(key, {}).items() if before.get(inner) is not write}
        if new:
            self._note(*key, task_id, writes_json(*key, new))

    def delete_thread(self, thread_id: str) -> None:
        """Forget everything of a thread."""
        super().delete_thread(thread_id)
        self._deleted.append(thread_id)
        self._changes[:] = [change for change in self._changes if change.thread_id != thread_id]
        for key in [key for key in self._last_lists if key[0] == thread_id]:
            del self._last_lists[key]

    def _note(self, thread_id: str, namespace: str, checkpoint_id: str, task_id: str | None, json: JsonObject) -> None:
        self._changes.append(
            CheckpointChange(
                thread_id=thread_id, namespace=namespace, checkpoint_id=checkpoint_id, task_id=task_id, json=json
            )
        )

    # --- for the adapter ----------------------------------------------------------------------------------------------

    def note_streamed(self, *, checkpoint: RunnableConfig | None = None, task_id: str | None = None) -> bool:
        """Note that a checkpoint or a finished task was in the stream; returns whether it is stored here.

        LangGraph works ahead of the reader of its stream. A change that was not in the stream yet must be in no state,
        because the text that belongs to it is not in the log yet.
        """
        if checkpoint is not None:
            where = checkpoint["configurable"]
            thread_id, namespace, id = where["thread_id"], where.get("checkpoint_ns", ""), where["checkpoint_id"]
            self._newest[thread_id, namespace] = id
            return id in self.storage.get(thread_id, {}).get(namespace, {})
        self._streamed.add(str(task_id))
        return any(change.task_id == task_id for change in self._changes)

    def take_changes(self, *, everything: bool = False) -> JsonObject:
        """What is stored and in no state yet, as far as it was in the stream, or everything.

        What tasks have written to a checkpoint is left out if there is a later checkpoint, which holds the result.
        """
        taken: list[CheckpointChange] = []
        kept: list[CheckpointChange] = []
        for change in self._changes:
            if not (everything or self._is_streamed(change)):
                kept.append(change)
            elif not self._is_obsolete(change):
                taken.append(change)
        self._changes[:] = kept  # in place: LangGraph may work with a copy of this object
        deleted = list(self._deleted)
        self._deleted.clear()
        changes: JsonObject = {
            "deleted": list[JsonValue](deleted),
            "checkpoints": [change.json for change in taken if change.task_id is None],
            "writes": [change.json for change in taken if change.task_id is not None],
        }
        return {key: entries for key, entries in changes.items() if entries}

    def _is_streamed(self, change: CheckpointChange) -> bool:
        newest = self._newest.get((change.thread_id, change.namespace), "")
        if change.task_id is None:
            return change.checkpoint_id <= newest
        return change.task_id in self._streamed or change.checkpoint_id < newest

    def _is_obsolete(self, change: CheckpointChange) -> bool:
        newest = self._newest.get((change.thread_id, change.namespace), "")
        found = self.storage.get(change.thread_id, {}).get(change.namespace, {}).get(newest)
        if change.task_id is None or change.checkpoint_id >= newest or found is None:
            return False
        return not self.serde.loads_typed(found[1]).get(DELTAS)

    def conversation(self, thread_id: str) -> JsonObject:
        """A state with the latest checkpoint of each namespace that outlives a run, and what it is made of."""
        checkpoints: list[JsonValue] = []
        writes: list[JsonValue] = []
        for namespace, stored in self.storage.get(thread_id, {}).items():
            if ":" in namespace or not stored:  # the namespace of a subgraph within one task of LangGraph
                continue
            self._last_lists.clear()
            for id in self._with_ancestors(thread_id, namespace, max(stored)):
                versions = self.serde.loads_typed(stored[id][0])["channel_versions"]
                checkpoints.append(self._checkpoint_json(thread_id, namespace, id, versions))
                if found := self.writes.get((thread_id, namespace, id)):
                    writes.append(writes_json(thread_id, namespace, id, found))
        return {"checkpoints": checkpoints, "writes": writes}

    def _with_ancestors(self, thread_id: str, namespace: str, id: str) -> list[str]:
        """A checkpoint, after those that its delta channels are computed from."""
        stored = self.storage[thread_id][namespace]
        missing = set(self.serde.loads_typed(stored[id][1]).get(DELTAS, ()))
        chain = [id]
        while missing and (parent := stored[chain[-1]][2]) in stored:
            versions = self.serde.loads_typed(stored[parent][0])["channel_versions"]
            found = {name: self.blobs.get((thread_id, namespace, name, versions.get(name))) for name in missing}
            missing -= {name for name, blob in found.items() if blob is not None and blob[0] != "empty"}
            chain.append(parent)
        return chain[::-1]

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def _checkpoint_json(self, thread_id: str, namespace: str, id: str, versions: ChannelVersions) -> JsonObject:
        checkpoint, metadata, parent = self.storage[thread_id][namespace][id]
        values: list[JsonValue] = []
        for channel, version in versions.items():
            value = self.blobs.get((thread_id, namespace, channel, version))
            if value is not None:
                values.append([channel, version, self._value_json((thread_id, namespace, channel), value)])
        return {
            "thread": thread_id,
            "ns": namespace,
            "id": id,
            "parent": parent,
            "checkpoint": typed_json(checkpoint),
            "metadata": typed_json(metadata),
            "values": values,
        }

    def _value_json(self, channel: tuple[str, str, str], value: Typed) -> JsonValue:
        """A value; of a list, how many items are those of the value before, and the others."""
        if value[0] != ITEMS:
            return typed_json(value)
        items, before = value[1], self._last_lists.get(channel, ())
        pairs = enumerate(zip(items, before, strict=False))
        same = next((at for at, (item, old) in pairs if item != old), min(len(items), len(before)))
        items[:same] = before[:same]  # all versions share their items in memory, too
        self._last_lists[channel] = items
        return {"same": same, "more": [typed_json(item) for item in items[same:]]}

    def _restore(self, state: dict[str, Any]) -> None:
        for thread_id in state.get("deleted", ()):
            self.delete_thread(thread_id)
        for entry in state.get("checkpoints", ()):
            thread_id, namespace, id = entry["thread"], entry["ns"], entry["id"]
            for channel, version, value in entry["values"]:
                self.blobs[thread_id, namespace, channel, version] = self._value((thread_id, namespace, channel), value)
            checkpoint, metadata = typed_value(entry["checkpoint"]), typed_value(entry["metadata"])
            self.storage[thread_id][namespace][id] = (checkpoint, metadata, entry["parent"])
        for entry in state.get("writes", ()):
            for task_id, index, channel, value, path in entry["writes"]:
                stored = self.writes[entry["thread"], entry["ns"], entry["id"]]
                stored[task_id, index] = (task_id, channel, typed_value(value), path)

    def _value(self, channel: tuple[str, str, str], value: Any) -> Typed:
        if not isinstance(value, dict):
            return typed_value(value)
        items = [*self._last_lists.get(channel, ())[: value["same"]], *[typed_value(item) for item in value["more"]]]
        self._last_lists[channel] = items
        return ITEMS, items
