"""A line chart with two logarithmic axes, as SVG: all that RESULTS.md needs of a plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 50
COLOURS = ("#0b6e4f", "#1f9e89", "#c1121f", "#780000", "#e09f3e", "#555555")


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through some points."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from one value to another, between two places on the paper."""

    low: float
    high: float
    begin: float
    end: float

    def place(self, value: float) -> float:
        part = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.begin + part * (self.end - self.begin)


def draw(title: str, across: str, upwards: str, lines: Sequence[Line]) -> str:
    """The chart."""
    xs = sorted({x for line in lines for x, _ in line.points})
    ys = [y for line in lines for _, y in line.points]
    decades = range(math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))) + 1)
    horizontal = Axis(xs[0], xs[-1], LEFT, WIDTH - RIGHT)
    vertical = Axis(10 ** decades[0], 10 ** decades[-1], HEIGHT - BOTTOM, TOP)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            'font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(LEFT, 22, title, size=15),
            *_grid(horizontal, vertical, xs, [10**decade for decade in decades]),
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, across, anchor="middle"),
            f'<g transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">'
            f"{_text(0, 0, upwards, anchor='middle')}</g>",
            *_curves(horizontal, vertical, lines),
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#222", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-size="{size}">{escape(text)}</text>'


def _grid(horizontal: Axis, vertical: Axis, xs: Sequence[float], ys: Sequence[float]) -> Iterator[str]:
    for x in xs:
        at = horizontal.place(x)
        yield f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield _text(at, HEIGHT - BOTTOM + 18, f"{x:,.0f}", anchor="middle")
    for y in ys:
        at = vertical.place(y)
        yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>'
        yield _text(LEFT - 8, at + 4, f"{y:,.0f}", anchor="end")


def _curves(horizontal: Axis, vertical: Axis, lines: Sequence[Line]) -> Iterator[str]:
    labels = _apart([vertical.place(line.points[-1][1]) for line in lines])
    for line, label, colour in zip(lines, labels, COLOURS, strict=False):
        points = [(horizontal.place(x), vertical.place(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)
        last_x, last_y = points[-1]
        end = WIDTH - RIGHT + 12
        yield f'<line x1="{last_x:.1f}" y1="{last_y:.1f}" x2="{end}" y2="{label:.1f}" stroke="{colour}" opacity="0.3"/>'
        yield _text(end + 4, label + 4, line.name, colour=colour)


def _apart(places: Sequence[float], room: float = 16) -> list[float]:
    """The places of labels, moved so that none lies on another."""
    moved = list(places)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + room)
    return moved
