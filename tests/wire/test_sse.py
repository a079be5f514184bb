"""Server-sent events: the rules of the WHATWG standard, whatever the chunks, and bounds that hold."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.errors import LocalProtocolError, PeerProtocolError
from parley.wire.sse import HEARTBEAT, Decoder, Frame, encode_frame

field_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))
one_line_data = st.binary().filter(lambda data: b"\n" not in data and b"\r" not in data)
streams = st.lists(
    st.sampled_from(
        [
            b"data",
            b"event",
            b"id",
            b"retry",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"x",
            b"7",
            b"\0",
            b"\xef\xbb\xbf",
            b"data: a",
            b"data: b\n\n",
            b"data: c\r\n\r\n",
            b"data: \r\r",
            b"id: 1\ndata: d\n\n",
            b"id: 2\r\ndata: e\r\n\r\n",
            b"id: 3\0\ndata: f\n\n",
            b"id\ndata: data: g\n\n",
            b"event: h\ndata: i\n\n",
            b":\n\n",
        ]
    )
    | st.binary(max_size=3),
).map(b"".join)

Outcome: TypeAlias = tuple[list[Frame], bool, bool, str, int | None]
"""The frames, whether the stream failed or ended within a frame, and what the decoder remembers."""


def frames_of(stream: bytes) -> list[Frame]:
    return Decoder().feed(stream)


@given(one_line_data, field_texts | st.none(), field_texts | st.none())
def test_a_frame_that_was_encoded_is_decoded_to_the_same(data: bytes, id: str | None, event: str | None):
    frame = encode_frame(data, id=id, event=event)
    assert frames_of(frame) == [Frame(data, event or "message", id or "")]


@given(st.binary())
def test_line_ends_in_data_arrive_as_newlines(data: bytes):
    arrived = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert frames_of(encode_frame(data)) == [Frame(arrived)]


def test_a_frame_is_written_with_its_id_first():
    assert encode_frame(b"{}") == b"data: {}\n\n"
    assert encode_frame(b"{}", id="7", event="error") == b"id: 7\nevent: error\ndata: {}\n\n"
    assert encode_frame(b"a\nb", id="7") == b"id: 7\ndata: a\ndata: b\n\n"


@pytest.mark.parametrize("text", ["7\ndata: forged", "7\r", "\0"])
def test_an_id_or_event_cannot_smuggle_in_another_field(text: str):
    with pytest.raises(LocalProtocolError):
        encode_frame(b"{}", id=text)
    with pytest.raises(LocalProtocolError):
        encode_frame(b"{}", event=text)


def test_a_comment_is_not_a_frame():
    decoder = Decoder()
    assert decoder.feed(b": still\n: there\n\n" + HEARTBEAT) == []
    assert not decoder.pending


@given(streams, st.lists(st.integers(min_value=0)))
def test_a_stream_cut_anywhere_gives_the_same_frames(stream: bytes, cuts: list[int]):
    assert outcome_of(split(stream, cuts), max_frame_bytes=1000) == outcome_of([stream], max_frame_bytes=1000)
    assert outcome_of([bytes([b]) for b in stream], max_frame_bytes=1000) == outcome_of([stream], max_frame_bytes=1000)


@given(streams, st.lists(st.integers(min_value=0)))
def test_a_stream_cut_anywhere_fails_after_the_same_frames(stream: bytes, cuts: list[int]):
    assert outcome_of(split(stream, cuts), max_frame_bytes=6) == outcome_of([stream], max_frame_bytes=6)


@given(streams, st.lists(st.integers(min_value=0)), st.sampled_from([4, 12, 1000]))
def test_a_stream_is_read_as_by_somebody_who_takes_one_line_after_the_other(
    stream: bytes, cuts: list[int], max_frame_bytes: int
):
    outcome = outcome_of(split(stream, cuts), max_frame_bytes=max_frame_bytes)
    assert outcome == read_naively(stream, max_frame_bytes=max_frame_bytes)


def read_naively(stream: bytes, *, max_frame_bytes: int) -> Outcome:
    """The standard, word by word, for a whole stream."""
    frames: list[Frame] = []
    data, event, id, last_id, retry = b"", "", "", "", None
    *lines, rest = re.split(rb"\r\n|\r|\n", stream)
    for number, line in enumerate(lines):
        if max(len(line), len(data)) > max_frame_bytes:
            return frames, True, True, last_id, retry
        name, _, value = (line if number else line.removeprefix(b"\xef\xbb\xbf")).partition(b":")
        value = value.removeprefix(b" ")
        if line in (b"", b"\xef\xbb\xbf") and not name:
            last_id = id
            if data:
                frames.append(Frame(data[:-1], event or "message", id))
            data, event = b"", ""
        elif name == b"data":
            data += value + b"\n"
        elif name == b"event":
            event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode(errors="replace")
        elif name == b"retry" and re.fullmatch(rb"[0-9]{1,9}", value):
            retry = int(value)
    failed = max(len(rest), len(data)) > max_frame_bytes
    return frames, failed, bool(rest or data or event or id != last_id), last_id, retry


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(places)]


def outcome_of(chunks: list[bytes], *, max_frame_bytes: int) -> Outcome:
    decoder = Decoder(max_frame_bytes=max_frame_bytes)
    frames: list[Frame] = []
    failed = False
    try:
        for chunk in [*chunks, b""]:
            frames += decoder.feed(chunk)
    except PeerProtocolError:
        failed = True
    return frames, failed, decoder.pending, decoder.last_event_id, decoder.retry_ms


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"data: a\n\n", [Frame(b"a")]),
        (b"data: a\r\rdata: b\r\r", [Frame(b"a"), Frame(b"b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [Frame(b"a"), Frame(b"b")]),
        (b"data: a\n\r\n", [Frame(b"a")]),
        (b"data:a\n\n", [Frame(b"a")]),
        (b"data:  a \n\n", [Frame(b" a ")]),
        (b"data: a:b\n\n", [Frame(b"a:b")]),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Frame(b"YHOO\n+2\n10")]),
        (b"data\n\ndata\ndata\n\ndata:", [Frame(b""), Frame(b"\n")]),
        (b": test\n\ndata: a\n:\n: b\ndata: c\n\n", [Frame(b"a\nc")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Frame(b"a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [Frame(b"b")]),
        (b"\n\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Frame(b"a")]),
        (b"Data: a\ndata : a\nother: a\nx\n\n", []),
        (b"event: error\ndata: a\n\ndata: b\n\n", [Frame(b"a", "error"), Frame(b"b")]),
        (b"event: error\n\ndata: b\n\n", [Frame(b"b")]),
        (b"event\ndata: b\n\n", [Frame(b"b")]),
        (b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", [Frame(b"a", id="1"), Frame(b"b", id="1"), Frame(b"c")]),
        (b"id: 1\n\ndata: b\n\n", [Frame(b"b", id="1")]),
        (b"id: 1\nid: 2\0\ndata: b\n\n", [Frame(b"b", id="1")]),
        (b"id: \xff\xc3\xa9\nevent: \xff\ndata: \xff\n\n", [Frame(b"\xff", "\ufffd", "\ufffdé")]),
        (b"data: a\x0b\x0c\x1c\xc2\x85b\n\n", [Frame(b"a\x0b\x0c\x1c\xc2\x85b")]),
        (b"data: a\n", []),
        (b"data: a", []),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, frames: list[Frame]):
    assert frames_of(stream) == frames


def test_streams_recorded_from_peers_hold_one_json_object_per_frame():
    exchanges = [json.loads(file.read_text()) for file in Path(__file__).parents[1].glob("golden/*/*/*.json")]
    recorded = [exchange["reply"]["sse"] for exchange in exchanges if "sse" in exchange.get("reply", {})]
    assert recorded
    for stream in recorded:
        decoder = Decoder()
        assert all(isinstance(json.loads(frame.data), dict) for frame in decoder.feed(stream.encode()))
        assert not decoder.pending


@pytest.mark.parametrize(
    ("line", "retry"),
    [
        (b"retry: 1500", 1500),
        (b"retry: 1.5", None),
        (b"retry:", None),
        (b"retry: -1", None),
        (b"retry: " + b"9" * 5000, None),
    ],
)
def test_the_peers_waiting_time_is_kept_if_it_is_one(line: bytes, retry: int | None):
    decoder = Decoder()
    decoder.feed(line + b"\n")
    assert decoder.retry_ms == retry


@pytest.mark.parametrize("rest", [b"da", b"data: b", b"data: b\n", b"data: b\r", b"event: error\n", b"id: 2\n", b":"])
def test_a_stream_cut_within_a_frame_can_be_told_and_is_resumed_after_the_last_whole_one(rest: bytes):
    decoder = Decoder()
    assert decoder.feed(b"id: 1\ndata: a\n\n") == [Frame(b"a", id="1")]
    assert not decoder.pending
    assert decoder.feed(rest) == []
    assert decoder.pending
    assert decoder.last_event_id == "1"


def test_after_a_flush_the_next_connection_goes_on_with_the_last_id():
    decoder = Decoder()
    decoder.feed(b"retry: 5\nid: 1\ndata: a\n\nid: 2\nevent: error\ndata: lost\r")
    decoder.flush()
    assert not decoder.pending
    assert decoder.feed(b"\xef\xbb\xbfdata: b\n\n") == [Frame(b"b", id="1")]
    assert decoder.retry_ms == 5


def test_a_frame_may_be_as_long_as_allowed_and_no_longer():
    assert Decoder(max_frame_bytes=10).feed(b"data: abcd\n\n") == [Frame(b"abcd")]
    with pytest.raises(PeerProtocolError, match="longer than 10 bytes"):
        Decoder(max_frame_bytes=10).feed(b"data: abcde")
    with pytest.raises(PeerProtocolError, match="longer than 10 bytes"):
        Decoder(max_frame_bytes=10).feed(b"data\n" * 11)
    with pytest.raises(PeerProtocolError, match="longer than 10 bytes"):
        Decoder(max_frame_bytes=10).feed(b": abcdefghijklmno\n")


def test_what_came_before_a_frame_that_is_too_long_is_not_lost():
    decoder = Decoder(max_frame_bytes=10)
    assert decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: abcdefgh\n\ndata: b\n\n") == [Frame(b"a", id="1")]
    assert decoder.pending
    for _ in range(2):
        with pytest.raises(PeerProtocolError):
            decoder.feed(b"\n\n")
    assert decoder.last_event_id == "1"


def test_a_long_frame_may_come_byte_by_byte():
    """A decoder that scanned or copied its buffer on every chunk would copy 45 GB here."""
    text = b"x" * 300_000
    decoder = Decoder()
    frames = [frame for byte in encode_frame(text) for frame in decoder.feed(bytes([byte]))]
    assert frames == [Frame(text)]


def test_half_a_surrogate_pair_has_no_place_in_a_stream() -> None:
    with pytest.raises(LocalProtocolError, match="Unicode"):
        encode_frame(b"", id="\ud800")
