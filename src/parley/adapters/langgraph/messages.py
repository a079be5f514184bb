"""The text of the messages of a graph's models, in an order that a person can read, and each message once.

Models in nodes that run side by side produce text at the same time: one message is streamed to its end before the next
one begins. A task of LangGraph whose text was streamed and which is not finished produces it again after a crash, so
there must be no checkpoint until it is finished. This module knows nothing of states and checkpoints.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_messages

from parley.adapters.adapter import Output, Piece
from parley.adapters.durable_run import SEPARATOR
from parley.protocol.messages import RawPart

TaskPath: TypeAlias = tuple[str, ...]
"""The tasks of LangGraph, from the outermost to the innermost, in which something happens, each as `name:id`."""


@dataclass
class PendingMessage:
    """A message that is not streamed to its end."""

    path: TaskPath
    pieces: list[Piece] = field(default_factory=list[Piece])
    is_begun: bool = False
    is_over: bool = False


class MessageStream:
    """The messages of one run."""

    def __init__(self, streamed_before: Iterable[str]) -> None:
        """`streamed_before` are the ids of the messages that earlier runs of the task have streamed."""
        self._history = set(streamed_before)
        self._streamed: set[str] = set()
        self.has_text = bool(self._history)
        self._new: list[str] = []
        """The ids of the messages that were streamed since the last checkpoint."""
        self._pending: dict[str, PendingMessage] = {}
        self._unfinished: set[TaskPath] = set()

    @property
    def is_settled(self) -> bool:
        """Whether all text is from tasks that are finished."""
        return not self._unfinished

    def add(self, message: object, path: TaskPath) -> Iterator[Piece]:
        """Add a message, or a chunk of one; yields what can be streamed now."""
        if not isinstance(message, AIMessage) or message.id is None:
            return
        is_chunk = isinstance(message, AIMessageChunk)
        if message.id in self._history or (message.id in self._streamed and not is_chunk):
            return  # an old message, or the whole of what was streamed in chunks
        if pieces := _pieces_of(message):
            self._pending.setdefault(message.id, PendingMessage(path)).pieces += pieces
        if message.id in self._pending and (not is_chunk or message.chunk_position == "last"):
            self._pending[message.id].is_over = True
        yield from self.release()

    def note_history(self, state: object) -> None:
        """Ignore the messages that a graph begins with."""
        for message in messages_in(state):
            self.ignore(message)

    def ignore(self, message: BaseMessage) -> None:
        """Never stream a message."""
        if message.id is not None:
            self._history.add(message.id)

    def finish(self, is_of_task: Callable[[TaskPath], bool]) -> Iterator[Piece]:
        """Note that tasks are finished, and with them their messages; yields what can be streamed now of these."""
        for pending in self._pending.values():
            pending.is_over = pending.is_over or is_of_task(pending.path)
        yield from self.release(begin=False)
        self._unfinished = {path for path in self._unfinished if not is_of_task(path)}

    def release(self, *, begin: bool = True) -> Iterator[Piece]:
        """What can be streamed now. Unless `begin`, no message is begun that is still growing."""
        while self._pending:
            id, pending = next(iter(self._pending.items()))
            if not (begin or pending.is_begun or pending.is_over):
                return
            if not pending.is_begun:
                pending.is_begun = True
                self._streamed.add(id)
                self._unfinished.add(pending.path)
                self.has_text = True
                if self._new:  # else only a checkpoint can be between this text and an earlier one, and separates them
                    yield SEPARATOR
                self._new.append(id)
            yield from pending.pieces
            pending.pieces.clear()
            if not pending.is_over:
                return
            del self._pending[id]

    def rest(self) -> Iterator[Piece]:
        """Everything that is left when the run is over."""
        yield from self.finish(lambda path: True)

    def take_ids(self) -> list[str]:
        """The ids of the messages that were streamed since the last call. Called at each checkpoint."""
        new, self._new = self._new, []
        return new


def messages_in(state: object) -> list[BaseMessage]:
    """The messages in the `messages` of a state or of what a node returns, in whatever form they are written."""
    found: Any = state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    try:
        return convert_to_messages(found if isinstance(found, list) else [found]) if found else []
    except (ValueError, NotImplementedError, KeyError, TypeError):
        return []  # the author means something else by `messages`


def _pieces_of(message: AIMessage) -> list[Piece]:
    """The text of a message, and the files in it."""
    pieces: list[Piece] = [str(message.text)] if message.text else []
    if isinstance(message.content, str):
        return pieces
    blocks: list[Any] = list(message.content_blocks)
    files = [block for block in blocks if block["type"] in ("image", "audio", "video", "file") and block.get("base64")]
    return [*pieces, *[Output((RawPart(b64decode(block["base64"]), block.get("mime_type")),)) for block in files]]
