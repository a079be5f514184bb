"""A picture: numbers come as data, a bar chart goes back as a PNG file, made with the standard library alone.

Send {"Mon": 3, "Tue": 5}. Drawing keeps a processor busy, so the handler is a plain function: it runs in a thread.
"""

import struct
import zlib

from parley import Agent, File

HEIGHT, BAR, GAP = 200, 40, 10
BLUE, WHITE = b"\x33\x66\xcc", b"\xff\xff\xff"

agent = Agent("Charts", description="Draws bar charts.", output_modes=["image/png"])


@agent.skill(tags=["charts"], input_modes=["application/json"])
def draw(turn):
    """Draws a bar chart of the numbers it gets as data."""
    if not is_chartable(turn.data):
        turn.wait(turn.reject('Send names and numbers as data, such as {"Mon": 3, "Tue": 5}.'))
    return File(png(chart(list(turn.data.values()))), "chart.png")


def is_chartable(data):
    return isinstance(data, dict) and data and all(isinstance(n, int | float) and n >= 0 for n in data.values())


def chart(values):
    """Rows of pixels, from the top: a blue bar for each value, the largest as high as the picture."""
    unit = HEIGHT / (max(values) or 1)
    for row in range(HEIGHT, 0, -1):
        bars = ((BLUE if value * unit >= row else WHITE) * BAR for value in values)
        yield (WHITE * GAP).join([b"", *bars, b""])


def png(rows):
    """Rows of RGB pixels as a PNG file. Each row is preceded by its filter: none."""
    rows = list(rows)
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
