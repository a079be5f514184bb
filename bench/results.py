"""The figures of a run, and what is made of them: the ratio table with its goals, and the page RESULTS.md."""

from __future__ import annotations

import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from contenders import BARE, CONTENDERS, FASTA2A, OURS, OURS_DURABLE, SDK, SDK_DURABLE, Contender
from plot import Line, draw

HERE = Path(__file__).parent
SIZES = (1_000, 4_000, 16_000)


class Figures:
    """What was measured: for each kind of work and each server, one figure a round."""

    def __init__(self) -> None:
        self._rounds: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, work: str, name: str, figure: float) -> None:
        self._rounds[work, name].append(figure)

    def rounds(self, work: str, contender: Contender) -> list[float]:
        return self._rounds.get((work, contender.name), [])

    def best(self, work: str, contender: Contender) -> float | None:
        return max(self.rounds(work, contender), default=None)

    def least(self, work: str, contender: Contender) -> float | None:
        return min(self.rounds(work, contender), default=None)

    def middle(self, work: str, contender: Contender) -> float | None:
        rounds = self.rounds(work, contender)
        return median(rounds) if rounds else None

    def syncs(self) -> list[float]:
        return self._rounds["syncs", "disk"]


# --- the goals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio of two measured figures and what it should be."""

    work: str
    against: str
    bound: float
    is_least: bool
    ratio: Callable[[Figures], float | None]
    unit: str = "×"

    def line(self, figures: Figures) -> tuple[str, ...] | None:
        """The goal, what was measured, and how far that is from it."""
        value = self.ratio(figures)
        if value is None:
            return None
        sign = "≥" if self.is_least else "≤"
        is_met = value >= self.bound if self.is_least else value <= self.bound
        verdict = "met" if is_met else f"missed by {abs(value / self.bound - 1):.0%}"
        return self.work, self.against, f"{sign} {self.bound:,g} {self.unit}", f"{plain(value)} {self.unit}", verdict


def plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def faster(work: str, ours: Contender, theirs: Contender) -> Callable[[Figures], float | None]:
    """Our rate over theirs: best of all rounds against best of all rounds."""
    return lambda figures: _over(figures.best(work, ours), figures.best(work, theirs))


def paired(one: str, other: str, contender: Contender) -> Callable[[Figures], float | None]:
    """One figure over another of the same server, taken one after the other: of all rounds, the one in the middle."""

    def ratio(figures: Figures) -> float | None:
        pairs = list(zip(figures.rounds(one, contender), figures.rounds(other, contender), strict=False))
        return median(a / b for a, b in pairs if b) if pairs else None

    return ratio


def amount(work: str, contender: Contender) -> Callable[[Figures], float | None]:
    return lambda figures: figures.middle(work, contender)


GOALS = (
    Goal("SendMessage, durable", "a2a-sdk, memory", 10, True, faster("sends", OURS_DURABLE, SDK)),
    Goal("SendMessage, durable", "a2a-sdk, SQLite", 80, True, faster("sends", OURS_DURABLE, SDK_DURABLE)),
    Goal("SendMessage, in memory", "a2a-sdk, memory", 25, True, faster("sends", OURS, SDK)),
    Goal("SendMessage, in memory", "bare uvicorn reply", 0.4, True, faster("sends", OURS, BARE)),
    Goal("stream of 4,000, durable", "a2a-sdk, SQLite", 100, True, faster("talk 4000", OURS_DURABLE, SDK_DURABLE)),
    Goal("stream of 4,000, durable", "fasta2a, memory", 1, True, faster("talk 4000", OURS_DURABLE, FASTA2A)),
    Goal("cost of a chunk, durable", "16,000 : 1,000", 1.2, False, paired("talk 1000", "talk 16000", OURS_DURABLE)),
    Goal("the same, pausing agent", "16,000 : 1,000", 1.2, False, paired("mumble 1000", "mumble 16000", OURS_DURABLE)),
    Goal(
        "agent's time, 1 of 100 stalled", "100 reading", 1.1, False, paired("agent 99+1", "agent 100+0", OURS_DURABLE)
    ),
    Goal("agent's time, 1 of 100 stalled", "99 reading", 1.1, False, paired("agent 99+1", "agent 99+0", OURS_DURABLE)),
    Goal("a parked task, durable", "", 2_048, False, amount("parked bytes", OURS_DURABLE), "bytes"),
    Goal("asyncio tasks of a parked task", "", 0, False, amount("parked tasks", OURS_DURABLE), "each"),
    Goal("sends in 0.3", "1.0", 0.8, True, paired("sends in 0.3", "sends in 1.0", OURS)),
    Goal("sends in 0.1", "1.0", 0.8, True, paired("sends in 0.1", "sends in 1.0", OURS)),
)


# --- the tables -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of text under headings; the first column is of words."""

    title: str
    headings: tuple[str, ...]
    lines: list[tuple[str, ...]]

    def shown(self) -> Iterator[str]:
        """As a terminal shows it."""
        widths = [max(map(len, column)) for column in zip(self.headings, *self.lines, strict=True)]
        yield self.title
        for line in (self.headings, *self.lines):
            cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
            yield "  " + "   ".join([line[0].ljust(widths[0]), *cells[1:]]).rstrip()

    def written(self) -> Iterator[str]:
        """As Markdown."""
        yield from (f"## {self.title}", "")
        yield f"| {' | '.join(self.headings)} |"
        yield f"|{'|'.join(['---', *['---:'] * (len(self.headings) - 1)])}|"
        yield from (f"| {' | '.join(line)} |" for line in self.lines)
        yield ""


def number(value: float | None, form: str = ",.0f") -> str:
    return "–" if value is None else "never" if value == float("inf") else format(value, form)


def goal_table(figures: Figures) -> Table:
    lines = [line for goal in GOALS if (line := goal.line(figures))]
    return Table("Goals", ("work", "against", "goal", "measured", ""), lines)


def send_table(figures: Figures) -> Table:
    lines = [
        (
            c.name,
            number(figures.best("sends", c)),
            number(figures.middle("sends", c)),
            number(figures.middle("p99", c), ".1f"),
            number(figures.least("send cpu", c)),
        )
        for c in CONTENDERS
        if figures.rounds("sends", c)
    ]
    return Table(
        "SendMessage, 16 connections", ("", "best, a second", "median", "99 % within, ms", "processor, µs each"), lines
    )


def dialect_table(figures: Figures) -> Table:
    versions = ("1.0", "0.3", "0.1")
    lines = [
        (c.name, *(number(figures.best(f"sends in {version}", c)) for version in versions))
        for c in CONTENDERS
        if figures.rounds("sends in 1.0", c)
    ]
    return Table("Sends a second in other dialects", ("", *versions), lines)


def stream_table(figures: Figures, manner: str, title: str) -> Table:
    lines = [
        (c.name, *(number(figures.best(f"{manner} {size}", c)) for size in SIZES))
        for c in CONTENDERS
        if figures.rounds(f"{manner} {SIZES[0]}", c)
    ]
    return Table(title, ("", *(f"{size:,}" for size in SIZES)), lines)


def follower_table(figures: Figures) -> Table:
    def microseconds(work: str, contender: Contender) -> str:
        rounds = figures.rounds(work, contender)
        return number(min(rounds) * 1e6 if rounds else None)

    columns = ("agent 100+0", "agent 99+1", "agent 99+0")
    lines = [
        (c.name, *(microseconds(work, c) for work in columns)) for c in CONTENDERS if figures.rounds(columns[0], c)
    ]
    headings = ("", "100 read", "99 read, 1 stalls", "99 read")
    return Table("Agent's time for a chunk with followers, µs", headings, lines)


def memory_table(figures: Figures) -> Table:
    works = ("parked bytes", "parked tasks", "idle bytes", "idle bytes, own task")
    lines = [
        (c.name, *(number(figures.middle(work, c)) for work in works))
        for c in CONTENDERS
        if any(figures.rounds(work, c) for work in works)
    ]
    headings = ("", "parked task, bytes", "its asyncio tasks", "idle stream, bytes", "with its own task")
    return Table("Memory", headings, lines)


def tables(figures: Figures) -> list[Table]:
    made = [
        goal_table(figures),
        send_table(figures),
        dialect_table(figures),
        stream_table(figures, "talk", "Chunks a second, agent without pauses, by length of the stream"),
        stream_table(figures, "mumble", "Chunks a second, agent that pauses after each"),
        follower_table(figures),
        memory_table(figures),
    ]
    return [table for table in made if table.lines]


# --- where they go ----------------------------------------------------------------------------------------------------


def conditions(figures: Figures) -> str:
    low, high = min(figures.syncs()), max(figures.syncs())
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores. The disk syncs {low:,.0f} to {high:,.0f} times a "
        "second."
    )


def show(figures: Figures) -> None:
    """Print everything."""
    print(conditions(figures))
    for table in tables(figures):
        print()
        print(*table.shown(), sep="\n")


def chunk_costs(figures: Figures) -> Sequence[Line]:
    """Microseconds for a chunk by the length of its stream, for each server."""
    lines = []
    for contender in CONTENDERS:
        points = [(size, 1e6 / rate) for size in SIZES if (rate := figures.best(f"talk {size}", contender))]
        if points:
            lines.append(Line(contender.name, points))
    return lines


def write(figures: Figures) -> None:
    """Write RESULTS.md and its plot."""
    plot = draw(
        "Cost of a chunk by length of its stream", "chunks in the stream", "µs for a chunk", chunk_costs(figures)
    )
    (HERE / "chunk-cost.svg").write_text(plot)
    goals, *others = tables(figures)
    lines = [
        "# Results",
        "",
        "Written by `make bench`; [README.md](README.md) says how each figure is taken. " + conditions(figures),
        "",
        *goals.written(),
        "![Cost of a chunk by length of its stream](chunk-cost.svg)",
        "",
        *(line for table in others for line in table.written()),
    ]
    notes = HERE / "NOTES.md"
    if notes.exists():
        lines += [notes.read_text().rstrip()]
    (HERE / "RESULTS.md").write_text("\n".join(lines).rstrip() + "\n")
    print(f"\nwrote {(HERE / 'RESULTS.md').relative_to(HERE.parent)} and chunk-cost.svg")
