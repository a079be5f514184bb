"""Files that came with a message, inline or by URL: the same methods read both.

The name, the type and the URL are the sender's: none of them is trusted. A file by URL is fetched each time it is read,
from where the server allows (`FileSource`), within a number of bytes and of seconds.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from tempfile import NamedTemporaryFile

from parley.client.errors import FileError, FileTooLargeError
from parley.engine.program import FileSource
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Part, RawPart, UrlPart
from parley.safe_text import printable_line

READ_BYTES = 32 * 1024 * 1024
"""What `read` takes into memory unless it is told otherwise: twice as much as a message may bring inline."""

STREAM_BYTES = 1024 * 1024 * 1024
"""What `chunks` and `save` take unless they are told otherwise. A disk has room for it."""

SECONDS = 300.0
"""For a whole file: a gigabyte at 3.6 MB a second."""

_CHARSET = re.compile(r';\s*charset="?([\w.:-]+)', re.IGNORECASE)


class ReceivedFile:
    """A file of a message: `await file.read()`."""

    def __init__(self, part: RawPart | UrlPart, source: FileSource | None = None) -> None:
        """`source` fetches files by URL; by default only from public hosts."""
        self.part = part
        self._source = source

    def __repr__(self) -> str:
        return f"ReceivedFile({self.name!r}, {self.media_type!r})"  # a URL may hold a key

    def __a2a_parts__(self) -> tuple[Part, ...]:
        """What is sent if a handler sends the file on."""
        return (self.part,)

    @property
    def name(self) -> str | None:
        """Its name without directories, if it has one."""
        name = printable_line(re.split(r"[/\\]", self.part.filename or "")[-1])
        return None if name in ("", ".", "..") else name

    @property
    def media_type(self) -> str | None:
        """Its media type, as the sender says or as its name suggests."""
        return self.part.media_type or mimetypes.guess_type(self.name or "")[0]

    @property
    def raw(self) -> bytes | None:
        """Its bytes, if they came with the message."""
        return self.part.raw if isinstance(self.part, RawPart) else None

    @property
    def url(self) -> str | None:
        """Its URL, if it did not come with the message."""
        return self.part.url if isinstance(self.part, UrlPart) else None

    @property
    def metadata(self) -> JsonObject:
        """What the sender says about it."""
        return self.part.metadata

    async def read(self, *, max_bytes: int = READ_BYTES, seconds: float = SECONDS) -> bytes:
        """All its bytes.

        Raises:
            FileTooLargeError: it has more than `max_bytes`.
            FileForbiddenError: it is at a URL that this server must not call.
            FileUnavailableError: it cannot be fetched, or not within `seconds`.
        """
        async with aclosing(self.chunks(max_bytes=max_bytes, seconds=seconds)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def text(self, *, max_bytes: int = READ_BYTES, seconds: float = SECONDS) -> str:
        """Its text, in the character set of its media type or else UTF-8.

        Raises as `read` does, and:
            FileError: it is not text in that character set.
        """
        content = await self.read(max_bytes=max_bytes, seconds=seconds)
        named = _CHARSET.search(self.media_type or "")
        charset = named[1] if named else "utf-8-sig"
        try:
            return content.decode(charset)
        except (UnicodeError, LookupError):
            raise FileError(f"The file is not text in {charset.removesuffix('-sig')}") from None

    async def chunks(self, *, max_bytes: int = STREAM_BYTES, seconds: float = SECONDS) -> AsyncGenerator[bytes]:
        """Its bytes as they come, for files that are too large to hold. Raises as `read` does."""
        if isinstance(self.part, RawPart):
            if len(self.part.raw) > max_bytes:
                raise FileTooLargeError(f"The file has more than {max_bytes} bytes")
            yield self.part.raw
            return
        source = self._source or _public_hosts()
        async with aclosing(source.fetch(self.part.url, max_bytes=max_bytes, seconds=seconds)) as fetched:
            async for chunk in fetched:
                yield chunk

    async def save(self, path: str | Path, *, max_bytes: int = STREAM_BYTES, seconds: float = SECONDS) -> Path:
        """Write it to a path and return that. The path has the whole file, or what it had before.

        Raises as `read` does, and:
            OSError: it cannot be written.
        """
        path = Path(path)
        unfinished = await asyncio.to_thread(_temporary_file, path.parent)
        try:
            with unfinished.open("wb") as file:
                async with aclosing(self.chunks(max_bytes=max_bytes, seconds=seconds)) as chunks:
                    async for chunk in chunks:
                        await asyncio.to_thread(file.write, chunk)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path


def _temporary_file(directory: Path) -> Path:
    """An empty file beside the one to be written: renaming works within one file system only."""
    with NamedTemporaryFile(dir=directory, prefix=".parley-", delete=False) as file:
        return Path(file.name)


def _public_hosts() -> FileSource:
    from parley.client.file_fetcher import FileFetcher  # not above: an agent that fetches nothing needs no HTTP client

    return FileFetcher()
