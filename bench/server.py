"""What a served agent costs, ours and the peers' in one go: sends, streams, stalled readers, parked and idle tasks.

Every server is uvicorn with uvloop and httptools, one process, without access log, in the environment of its library.
The load comes from one other process (load.py). Rounds go from server to server and begin again, so that the machine's
mood meets all of them; a rate is the best round, because other work only ever makes things slower. `--quick` takes
about a minute and is noisier. README.md beside this file says what each line means; a full run writes RESULTS.md and
its plot.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter

from contenders import BARE, CONTENDERS, FASTA2A, OURS, SDK, SDK_DURABLE, Contender, Load, Server, load
from results import Figures, show, write

SLOW = (SDK, SDK_DURABLE)
"""Those whose long streams take so long that one round must do."""
LONGEST = {SDK_DURABLE: 4_000}
"""The longest stream that ends within some minutes; beyond it a chunk costs more and more."""
SEND_BUFFER = 65_536
"""What the system holds back for a stalled reader, so that it stalls after hundreds of chunks and not thousands."""
WAITING = 30.0
"""Seconds after which an agent with a stalled follower counts as stalled itself."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done."""

    rounds: int = 5
    stream_rounds: int = 3
    seconds: float = 2.0
    warmup: float = 1.0
    sizes: tuple[int, ...] = (1_000, 4_000, 16_000)
    followed_chunks: int = 1_000
    parked: int = 10_000
    idle: int = 1_000
    longest_for_slow: int = 16_000


QUICK = Effort(
    rounds=1,
    stream_rounds=1,
    seconds=0.7,
    warmup=0.3,
    sizes=(1_000, 4_000),
    followed_chunks=300,
    parked=1_000,
    idle=200,
    longest_for_slow=1_000,
)


def progress(text: str) -> None:
    """Say what is being done: in place on a terminal, line by line elsewhere."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
    elif text:
        print(text, flush=True)


# --- what is measured -------------------------------------------------------------------------------------------------


def sends(contenders: Sequence[Contender], effort: Effort, figures: Figures) -> None:
    """SendMessage over 16 connections, each of which waits for its answer: a task made, run, completed and kept."""
    for round_ in range(effort.rounds):
        for contender in contenders:
            progress(f"sends, round {round_ + 1} of {effort.rounds}: {contender.name}")
            with Server(contender) as server:
                before = server.cpu_seconds()
                seen = load("sends", server, seconds=effort.seconds, warmup=effort.warmup, states=contender.sent_states)
                worked = server.cpu_seconds() - before
            figures.add("send cpu", contender.name, worked / seen["with_warmup"] * 1e6)
            figures.add("sends", contender.name, seen["rate"])
            figures.add("p99", contender.name, seen["p99"])


def dialects(contenders: Sequence[Contender], effort: Effort, figures: Figures) -> None:
    """The same in other dialects, in turns."""
    if OURS not in contenders:
        return
    for round_ in range(effort.rounds):
        for version, state in (("1.0", "TASK_STATE_COMPLETED"), ("0.3", "completed"), ("0.1", "completed")):
            progress(f"dialects, round {round_ + 1} of {effort.rounds}: {version}")
            # A new server for each: one that holds many tasks already is slower.
            with Server(OURS) as server:
                seen = load(
                    "sends", server, version=version, seconds=effort.seconds, warmup=effort.warmup, states=state
                )
            figures.add(f"sends in {version}", OURS.name, seen["rate"])


def streams(contenders: Sequence[Contender], effort: Effort, figures: Figures) -> None:
    """One stream after the other, of several lengths: as many short ones as make up a long one."""
    contenders = [c for c in contenders if c is not BARE]
    with ExitStack() as stack:
        servers = {contender: stack.enter_context(Server(contender)) for contender in contenders}
        for server in servers.values():
            load("stream", server, chunks=100, times=3, checks=True)
        for round_ in range(effort.stream_rounds):
            for contender, server in servers.items():
                if round_ and contender in SLOW:
                    continue
                for size in effort.sizes:
                    longest = min(LONGEST.get(contender, size), effort.longest_for_slow)
                    if contender in SLOW and size > longest:
                        continue
                    progress(
                        f"streams, round {round_ + 1} of {effort.stream_rounds}: {contender.name}, {size:,} chunks"
                    )
                    times = 1 if contender in SLOW else effort.sizes[-1] // size
                    for manner in ("talk", "mumble") if contender not in SLOW else ("talk",):
                        seen = load("stream", server, chunks=size, times=times, manner=manner)
                        figures.add(f"{manner} {size}", contender.name, seen["rate"])


def followers(contenders: Sequence[Contender], effort: Effort, figures: Figures) -> None:
    """How long the agent takes to say its chunks with a hundred followers, with and without one that has stalled."""
    for round_ in range(effort.rounds):
        for contender in contenders:
            if contender in (BARE, SDK_DURABLE) or (round_ and contender in (SDK, FASTA2A)):
                continue
            chunks = effort.followed_chunks // (10 if contender is SDK else 1)
            for readers, stalled in ((100, 0), (99, 1), (99, 0)):
                progress(f"followers, round {round_ + 1} of {effort.rounds}: {contender.name}, {readers} + {stalled}")
                with Server(contender, send_buffer=SEND_BUFFER) as server:
                    following = Load("follow", server, readers=readers, stalled=stalled, chunks=chunks)
                    following.next()
                    server.tell("open")
                    seen = following.result(timeout=WAITING)
                    took = server.tell("inspect")["took"] if seen else float("inf")
                figures.add(f"agent {readers}+{stalled}", contender.name, took / chunks)


def parked(contenders: Sequence[Contender], effort: Effort, figures: Figures) -> None:
    """The memory of tasks that wait for an answer, in a fresh process, after a first thousand."""
    for contender in contenders:
        if contender in (BARE, SDK_DURABLE):
            continue
        states = contender.sent_states if contender is FASTA2A else ("TASK_STATE_INPUT_REQUIRED",)
        total = effort.parked // (5 if contender is SDK else 1)
        progress(f"parked tasks: {contender.name}")
        with Server(contender) as server:
            load("sends", server, text="ask", total=1_000, states=states)
            memory, tasks = server.resident_bytes(), server.tell("inspect")["asyncio_tasks"]
            load("sends", server, text="ask", total=total, states=states)
            figures.add("parked bytes", contender.name, (server.resident_bytes() - memory) / total)
            figures.add("parked tasks", contender.name, (server.tell("inspect")["asyncio_tasks"] - tasks) / total)


def idle(contenders: Sequence[Contender], effort: Effort, figures: Figures) -> None:
    """The memory of streams on which nothing happens: all on one task, and each on its own."""
    for contender in contenders:
        for apart in (False, True):
            if contender in (BARE, SDK_DURABLE) or (apart and contender is FASTA2A):
                continue
            progress(f"idle streams: {contender.name}")
            with Server(contender) as server:
                load("sends", server, total=500, states=contender.sent_states)
                memory = server.resident_bytes()
                options = {"apart": True} if apart else {}
                holding = Load("hold", server, readers=effort.idle, **options)
                holding.next()
                each = (server.resident_bytes() - memory) / effort.idle
                seen = holding.result()
                assert seen is not None
                assert seen["alive"] == effort.idle
            figures.add("idle bytes, own task" if apart else "idle bytes", contender.name, each)


def syncs_per_second(total: int = 200) -> float:
    """How often this disk makes something durable: the anchor for everything durable."""
    with tempfile.TemporaryFile(prefix="parley-bench-") as file:
        begun = perf_counter()
        for _ in range(total):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return total / (perf_counter() - begun)


WORK: dict[str, Callable[[Sequence[Contender], Effort, Figures], None]] = {
    "sends": sends,
    "dialects": dialects,
    "streams": streams,
    "followers": followers,
    "parked": parked,
    "idle": idle,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds; RESULTS.md stays as it is")
    parser.add_argument("--only", nargs="+", choices=WORK, default=[], help="only this work; RESULTS.md stays as it is")
    parser.add_argument("--without", nargs="+", default=[], help="leave out servers whose name begins so")
    options = parser.parse_args()
    effort = QUICK if options.quick else Effort()
    contenders = [c for c in CONTENDERS if not c.name.startswith(tuple(options.without) or ("\0",))]
    figures = Figures()
    figures.add("syncs", "disk", syncs_per_second())
    for name in options.only or WORK:
        WORK[name](contenders, effort, figures)
    figures.add("syncs", "disk", syncs_per_second())
    progress("")
    show(figures)
    if not (options.quick or options.only or options.without):
        write(figures)


if __name__ == "__main__":
    main()
