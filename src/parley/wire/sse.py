"""Server-sent events: an encoder of frames and an incremental decoder of streams.

It does not read a frame's data, which stays bytes, and opens no connection. However a stream is cut into chunks, the
decoder gives the same frames, in time linear in its length and in bounded memory. Spec: WHATWG HTML section 9.2,
"Server-sent events".
"""

from __future__ import annotations

import re

from msgspec import Struct

from parley.protocol.errors import LocalProtocolError, PeerProtocolError

HEARTBEAT = b":\n\n"
"""A comment without text: keeps proxies from closing a quiet connection, and no reader sees it."""

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""How much one frame may hold: a file of 10 MiB in base64 (13.3 MiB) with room around it."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE_END_BYTES = re.compile(rb"\r\n|\r|\n")
_PLAIN_ID = re.compile(rb"id: ([^\r\n\0]*)\r?\n")
_UNFIT_FOR_FIELD = re.compile(r"[\r\n\0]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LF, _CR = b"\n\r"  # numbers, which `in` finds three times faster than bytes


class Frame(Struct, frozen=True, gc=False):
    """One dispatched event; `id` is the last id the stream has given, with this frame or before it."""

    data: bytes
    event: str = "message"
    id: str = ""


def encode_frame(data: bytes, *, id: str | None = None, event: str | None = None) -> bytes:
    """The bytes of one frame; line ends inside `data` reach the reader as newlines.

    Raises:
        LocalProtocolError: `id` or `event` holds a line end or NUL, or is not Unicode: a stream cannot carry it.
    """
    if _LF in data or _CR in data:
        data = b"\ndata: ".join(_LINE_END_BYTES.split(data))
    return b"".join((_encode_field("id", id), _encode_field("event", event), b"data: ", data, b"\n\n"))


def _encode_field(name: str, value: str | None) -> bytes:
    if value is None:
        return b""
    if _UNFIT_FOR_FIELD.search(value):
        raise LocalProtocolError(f"The {name} of a frame cannot hold a line end or NUL")
    try:
        return f"{name}: {value}\n".encode()
    except UnicodeEncodeError as exc:
        raise LocalProtocolError("A stream can carry Unicode only") from exc


class Decoder:
    """Reads a stream chunk by chunk.

    `last_event_id` is the id to resume after: that of the last complete frame, never of a cut one. `retry_ms` is how
    long the peer asks to wait before that.
    """

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self._max_frame_bytes = max_frame_bytes
        self._start_stream()

    def _start_stream(self) -> None:
        self._line = bytearray()
        self._data = bytearray()
        self._event = ""
        self._id = self.last_event_id
        self._on_first_line = True
        self._after_carriage_return = False

    @property
    def pending(self) -> bool:
        """Whether a frame has begun and not ended: at the end of a stream, that the stream was cut."""
        return bool(self._line or self._data or self._event) or self._id != self.last_event_id

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes.

        Raises:
            PeerProtocolError: a frame is longer than allowed. Frames before it are returned first, and the next call
                raises; the stream cannot be read further.
        """
        frames: list[Frame] = []
        end = b"\r\n\r\n" if b"\r" in chunk else b"\n\n"
        if not self._is_between_frames:
            rest, found, chunk = chunk.partition(end)
            self._take_lines(rest + found, frames)
        if self._is_between_frames:
            chunk = chunk[self._take_plain(chunk, end, frames) :]
        self._take_lines(chunk, frames)
        if self._is_too_long() and not frames:
            raise PeerProtocolError(f"A frame of the stream is longer than {self._max_frame_bytes} bytes")
        return frames

    def flush(self) -> None:
        """End the stream: an unfinished frame is discarded, and the next chunk begins a new connection's stream."""
        self._start_stream()

    @property
    def _is_between_frames(self) -> bool:
        return not self._after_carriage_return and not self.pending

    def _take_plain(self, chunk: bytes, end: bytes, frames: list[Frame]) -> int:
        """Take the frames with which a chunk begins, as long as they are what nearly all are: an id and a line of data.

        They are read at once instead of line by line, in a fifth of the time.
        """
        taken = 0
        *whole, _ = chunk.split(end)
        for text in whole:
            before, field, data = text.partition(b"data: ")
            named = _PLAIN_ID.fullmatch(before) if before else None
            is_plain = field and (named or not before) and b"\n" not in data and b"\r" not in data
            if not is_plain or len(text) > self._max_frame_bytes:
                break
            if named:
                self.last_event_id = self._id = named[1].decode(errors="replace")
            frames.append(Frame(data, "message", self._id))
            self._on_first_line = False
            taken += len(text) + len(end)
        return taken

    def _take_lines(self, chunk: bytes, frames: list[Frame]) -> None:
        """Take anything, line by line, unless a frame is too long."""
        for piece in self._pieces(chunk):
            if self._is_too_long():
                break
            content = piece.rstrip(b"\r\n")
            self._line += content
            if len(content) < len(piece) and not self._is_too_long():
                self._end_line(frames)

    def _pieces(self, chunk: bytes) -> list[bytes]:
        """The chunk's lines with their ends; the last may have none. The second half of a split CRLF is left out."""
        pieces = chunk.removeprefix(b"\n") if self._after_carriage_return else chunk
        if chunk:
            self._after_carriage_return = chunk.endswith(b"\r")
        return pieces.splitlines(keepends=True)

    def _is_too_long(self) -> bool:
        return max(len(self._line), len(self._data)) > self._max_frame_bytes

    def _end_line(self, frames: list[Frame]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._on_first_line:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._on_first_line = False
        if line:
            self._read_field(line)
        else:
            self._end_frame(frames)

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data += value
                self._data += b"\n"
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if (
                value.isdigit() and len(value) < 10
            ):  # longer ones are not waiting times, and int() has a limit
                self.retry_ms = int(value)
            case _:
                pass  # a comment, whose name is empty, or an undefined field

    def _end_frame(self, frames: list[Frame]) -> None:
        self.last_event_id = self._id
        if self._data:
            self._data.pop()  # the newline after the last data line
            frames.append(Frame(bytes(self._data), self._event or "message", self._id))
            self._data.clear()
        self._event = ""
