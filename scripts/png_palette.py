"""Writes a PNG with a palette of at most 256 colours: a picture of a page becomes much smaller, and looks the same.

It reads what browsers write (8 bits, RGB or RGBA, not interlaced), and needs nothing but the standard library. Colours
that do not fit are replaced with the nearest that does; pages have few, apart from the edges of letters.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_COLOURS = 256
Colour = tuple[int, int, int]


def with_palette(png: bytes) -> bytes:
    """The same picture with a palette."""
    width, height, rows = read_rows(png)
    counted: Counter[bytes] = Counter()
    for row in rows:
        counted.update(row[at : at + 3] for at in range(0, len(row), 3))
    kept = [colour for colour, _ in counted.most_common(MOST_COLOURS)]
    index = {colour: number for number, colour in enumerate(kept)}
    for colour in counted:
        if colour not in index:
            index[colour] = min(range(len(kept)), key=lambda number: _distance(kept[number], colour))
    lines = b"".join(b"\0" + bytes(index[row[at : at + 3]] for at in range(0, len(row), 3)) for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (("IHDR", header), ("PLTE", b"".join(kept)), ("IDAT", zlib.compress(lines, 9)), ("IEND", b""))
    return SIGNATURE + b"".join(_chunk(name.encode(), data) for name, data in chunks)


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def read_rows(png: bytes) -> tuple[int, int, list[bytes]]:
    """The width, the height, and the rows of a picture, three bytes for each pixel."""
    if not png.startswith(SIGNATURE):
        raise ValueError("This is not a PNG.")
    at, header, packed = len(SIGNATURE), b"", b""
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12
        header = data if name == b"IHDR" else header
        packed += data if name == b"IDAT" else b""
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if depth != 8 or kind not in (2, 6) or interlaced:
        raise ValueError("This PNG is not one that a browser writes.")
    channels = 3 if kind == 2 else 4
    rows = _unfilter(zlib.decompress(packed), width * channels, height, channels)
    if channels == 3:
        return width, height, rows
    return width, height, [bytes(byte for at, byte in enumerate(row) if at % 4 != 3) for row in rows]


def _unfilter(data: bytes, stride: int, height: int, channels: int) -> list[bytes]:
    rows: list[bytes] = []
    above = bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        row = bytearray(data[start + 1 : start + 1 + stride])
        match data[start]:
            case 1:
                for at in range(channels, stride):
                    row[at] = (row[at] + row[at - channels]) & 255
            case 2:
                for at in range(stride):
                    row[at] = (row[at] + above[at]) & 255
            case 3:
                for at in range(stride):
                    left = row[at - channels] if at >= channels else 0
                    row[at] = (row[at] + (left + above[at]) // 2) & 255
            case 4:
                for at in range(stride):
                    left, corner = (row[at - channels], above[at - channels]) if at >= channels else (0, 0)
                    row[at] = (row[at] + _paeth(left, above[at], corner)) & 255
            case _:
                pass
        rows.append(bytes(row))
        above = row
    return rows


def _paeth(left: int, above: int, corner: int) -> int:
    """The predictor of the PNG specification, section 9.4."""
    guess = left + above - corner
    distances = (abs(guess - left), abs(guess - above), abs(guess - corner))
    return (left, above, corner)[distances.index(min(distances))]
