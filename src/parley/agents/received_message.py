"""A message from the caller, as handlers read it: its text, its data and its files."""

from __future__ import annotations

from parley.agents.files import ReceivedFile
from parley.engine.program import FileSource
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Message, Part, RawPart, UrlPart


class ReceivedMessage:
    """A message from the caller: the one that began the task, or the answer to a question."""

    def __init__(self, message: Message, files: FileSource | None = None) -> None:
        self.message = message
        self._file_source = files

    @property
    def text(self) -> str:
        """All its text."""
        return self.message.text

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything in it."""
        return self.message.parts

    def __a2a_parts__(self) -> tuple[Part, ...]:
        return self.parts

    @property
    def files(self) -> tuple[ReceivedFile, ...]:
        """Its files, inline or by URL: `await file.read()`."""
        parts = [part for part in self.parts if isinstance(part, RawPart | UrlPart)]
        return tuple([ReceivedFile(part, self._file_source) for part in parts])

    @property
    def data(self) -> JsonValue:
        """Its data: the one data part's content, a list of several, or None."""
        contents = [part.data for part in self.parts if isinstance(part, DataPart)]
        return (contents[0] if len(contents) == 1 else contents) if contents else None

    @property
    def metadata(self) -> JsonObject:
        """Its metadata."""
        return self.message.metadata
