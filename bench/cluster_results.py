"""The figures of `cluster.py`, and what is made of them: goals, tables, and the page CLUSTER.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contenders import HERE, ROOT, Contender
from results import Figures, Goal, Table, conditions, faster, number, paired

SIZES = (1_000, 4_000, 16_000)


def _named(name: str) -> Contender:
    return Contender(name, "", "")


POSTGRES = _named("parley, PostgreSQL, 1 replica")
POSTGRES_TWO = _named("parley, PostgreSQL, 2 replicas, NATS")
POSTGRES_NOTIFY = _named("parley, PostgreSQL, 2 replicas, NOTIFY")
SQLITE = _named("parley, SQLite")
SDK_POSTGRES = Contender("a2a-sdk, PostgreSQL", ".peers/a2a-sdk-1.3.0", "with_a2a_sdk.py", is_durable=True)
SERVERS = (POSTGRES, POSTGRES_TWO, POSTGRES_NOTIFY, SQLITE, SDK_POSTGRES)

NATS = _named("NATS")
NOTIFY = _named("PostgreSQL NOTIFY")
NO_HINTS = _named("nothing, replicas look every half second")
CARRIERS = (NATS, NOTIFY, NO_HINTS)

WORKERS = {
    _named("PostgreSQL, 1 process"): (True, 1),
    _named("PostgreSQL, 2 processes"): (True, 2),
    _named("SQLite, 1 process"): (False, 1),
    _named("SQLite, 2 processes"): (False, 2),
}
"""For each: whether it is on PostgreSQL, and `--workers`."""
LEASES = {lease: _named(f"lease of {lease} s") for lease in (10, 2)}
STOPPED, CRASHED = _named("stopped and started"), _named("crashed and recovered")
BEFORE, NOW = _named("before"), _named("now")


# --- the goals --------------------------------------------------------------------------------------------------------


def most(work: str, contender: Contender) -> Callable[[Figures], float | None]:
    """The worst round."""
    return lambda figures: figures.best(work, contender)


def middle(work: str, contender: Contender) -> Callable[[Figures], float | None]:
    return lambda figures: figures.middle(work, contender)


def least_over(work: str) -> Callable[[Figures], float | None]:
    """The least of today's figures over the least of those before: what other work delays is left out."""

    def ratio(figures: Figures) -> float | None:
        now, before = figures.least(work, NOW), figures.least(work, BEFORE)
        return now / before if now is not None and before else None

    return ratio


def _workers(store: str, text: str) -> Callable[[Figures], float | None]:
    one, two = (next(c for c in WORKERS if c.name == f"{store}, {number}") for number in ("1 process", "2 processes"))
    return faster(f"workers {text}", two, one)


GOALS = (
    Goal("SendMessage, 1 replica", "a2a-sdk, PostgreSQL", 20, True, faster("sends", POSTGRES, SDK_POSTGRES)),
    Goal("SendMessage, 2 replicas", "a2a-sdk, PostgreSQL", 20, True, faster("sends", POSTGRES_TWO, SDK_POSTGRES)),
    Goal("stream of 4,000", "a2a-sdk, PostgreSQL", 20, True, faster("talk 4000", POSTGRES, SDK_POSTGRES)),
    Goal("stream of 4,000", "parley, SQLite", 0.5, True, faster("talk 4000", POSTGRES, SQLITE)),
    Goal("cost of a chunk", "16,000 : 1,000", 1.2, False, paired("talk 1000", "talk 16000", POSTGRES)),
    Goal("event at another replica, NATS, p99", "", 20, False, middle("latency p99", NATS), "ms"),
    Goal("event at another replica, NOTIFY, p99", "", 20, False, middle("latency p99", NOTIFY), "ms"),
    *(
        Goal("takeover, slowest", contender.name, lease + 2, False, most("takeover", contender), "s")
        for lease, contender in LEASES.items()
    ),
    Goal("import of parley", "before", 1.05, False, least_over("import parley")),
    Goal("import of `parley serve`", "before", 1.05, False, least_over("import serving")),
    Goal("embedded default, sends", "before", 0.95, True, faster("embedded sends", NOW, BEFORE)),
    Goal("embedded default, chunks", "before", 0.95, True, faster("embedded talk", NOW, BEFORE)),
)


# --- the tables -------------------------------------------------------------------------------------------------------


def _table(title: str, headings: Sequence[str], lines: list[tuple[str, ...]]) -> Table:
    shown = [line for line in lines if any(cell != "–" for cell in line[1:])]
    return Table(title, ("", *headings), shown)


def send_table(figures: Figures) -> Table:
    lines = [
        (
            c.name,
            number(figures.best("sends", c)),
            number(figures.middle("sends", c)),
            number(figures.middle("p99", c), ".1f"),
            number(figures.least("send cpu", c)),
            number(figures.least("database cpu", c)) if c is not SQLITE else "–",
        )
        for c in SERVERS
    ]
    headings = ("best, a second", "median", "99 % within, ms", "processor, µs each", "of PostgreSQL, µs")
    return _table("SendMessage, durable, 16 connections", headings, lines)


def stream_table(figures: Figures) -> Table:
    lines = [(c.name, *(number(figures.best(f"talk {size}", c)) for size in SIZES)) for c in SERVERS]
    title = "Chunks a second, by length of the stream; with two replicas, a stream at each"
    return _table(title, [f"{size:,}" for size in SIZES], lines)


def worker_table(figures: Figures) -> Table:
    lines = [(c.name, *(number(figures.best(f"workers {text}", c)) for text in ("echo", "work"))) for c in WORKERS]
    for store in ("PostgreSQL", "SQLite"):
        ratios = [_workers(store, text)(figures) for text in ("echo", "work")]
        lines.append((f"{store}, 2 : 1", *(number(ratio, ".2f") for ratio in ratios)))
    return _table("Sends a second with `--workers`", ("agent that echoes", "agent that computes for 2 ms"), lines)


def latency_table(figures: Figures) -> Table:
    lines = [(c.name, *(number(figures.middle(f"latency {q}", c), ".1f") for q in QUANTILES)) for c in CARRIERS]
    title = "Milliseconds from an event at one replica to a subscriber at another, 1,000 events a second"
    return _table(title, ("half within", "99 % within", "longest"), lines)


def dispatch_table(figures: Figures) -> Table:
    lines = [
        (
            c.name,
            *(number(figures.middle(f"dispatch {q}", c), ".1f") for q in QUANTILES),
            number(figures.middle("dispatch elsewhere", c), ".0%"),
        )
        for c in CARRIERS
    ]
    title = "Milliseconds from a send to a full replica until its run begins at another one"
    return _table(title, ("half within", "99 % within", "longest", "at another one"), lines)


QUANTILES = ("p50", "p99", "most")


def takeover_table(figures: Figures) -> Table:
    takings = (figures.least, figures.middle, figures.best)
    lines = [(c.name, *(number(take("takeover", c), ".1f") for take in takings)) for c in LEASES.values()]
    title = "Seconds from SIGKILL of a replica until the next event of its task, at another one"
    return _table(title, ("fastest", "median", "slowest"), lines)


def restart_table(figures: Figures) -> Table:
    lines = [
        (
            c.name,
            number(figures.middle("restart seconds", c), ".2f"),
            number(figures.best("restart seconds", c), ".2f"),
            number(figures.middle("restart slowest", c), ".2f"),
            number(figures.middle("restart refused", c)),
        )
        for c in (STOPPED, CRASHED)
    ]
    headings = ("sends succeed after, s", "slowest round, s", "longest send, s", "refused sends")
    return _table("After a restart of PostgreSQL, with one sender", headings, lines)


def embedded_table(figures: Figures) -> Table:
    lines = [
        (
            c.name,
            *(_milliseconds(figures.least(work, c)) for work in ("import parley", "import serving", "start")),
            number(figures.best("wheel", c)),
            number(figures.best("embedded sends", c)),
            number(figures.best("embedded talk", c)),
        )
        for c in (BEFORE, NOW)
    ]
    headings = ("import parley, ms", "import of `serve`, ms", "ready, ms", "wheel, bytes", "sends/s", "chunks/s")
    return _table("The embedded default: one process, SQLite", headings, lines)


def _milliseconds(seconds: float | None) -> str:
    return number(None if seconds is None else seconds * 1e3)


def tables(figures: Figures) -> list[Table]:
    goals = Table(
        "Goals", ("work", "against", "goal", "measured", ""), [line for goal in GOALS if (line := goal.line(figures))]
    )
    made = [
        goals,
        send_table(figures),
        stream_table(figures),
        worker_table(figures),
        latency_table(figures),
        dispatch_table(figures),
        takeover_table(figures),
        restart_table(figures),
        embedded_table(figures),
    ]
    return [table for table in made if table.lines]


# --- where they go ----------------------------------------------------------------------------------------------------


def show(figures: Figures) -> None:
    """Print everything."""
    print(conditions(figures))
    for table in tables(figures):
        print()
        print(*table.shown(), sep="\n")


def write(figures: Figures) -> None:
    """Write CLUSTER.md."""
    page = HERE / "CLUSTER.md"
    lines = [
        "# The cluster",
        "",
        "Written by `make bench`; [README.md](README.md) says how each figure is taken. " + conditions(figures),
        "Replicas, PostgreSQL, NATS and the load share these cores.",
        "",
        *(line for table in tables(figures) for line in table.written()),
    ]
    page.write_text("\n".join(lines).rstrip() + "\n")
    print(f"\nwrote {page.relative_to(ROOT)}")
