"""The record of a call of `execute` that has ended, so that a restart does not repeat it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from parley.protocol.events import StatusUpdate
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import Message


class CallRecord(Struct, forbid_unknown_fields=True):
    """What one call has said. Chunks of artifacts are only counted, because the log has them."""

    chunks: dict[str, tuple[str, int]] = {}
    """By the executor's id of an artifact: our id, and how many chunks there were."""
    statuses: list[StatusUpdate] = []
    last: Message | StatusUpdate | None = None
    """The message, question or final state with which the call ended."""

    @classmethod
    def read(cls, recorded: JsonValue) -> CallRecord:
        """The record that is in the log."""
        return msgspec.convert(recorded, cls)

    def count_chunk(self, given: str, artifact_id: str) -> None:
        """Add a chunk of an artifact."""
        _, count = self.chunks.get(given, (artifact_id, 0))
        self.chunks[given] = artifact_id, count + 1

    def as_json(self) -> JsonValue:
        """What is stored."""
        return msgspec.json.decode(msgspec.json.encode(self))
