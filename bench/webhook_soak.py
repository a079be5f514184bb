"""Deliveries under strain: what they take, whether streams and other owners notice, and what the memory comes to.

`python bench/webhook_soak.py [--tasks 1000] [--configs 3] [--events 5] [--failing-seconds 60] [--folder FOLDER]`: in
one run, on one served app,

1. a quiet owner's webhooks are called alone, and a stream is read alone (the baseline);
2. other owners have webhooks that take 30 seconds, never answer, answer 500 for a minute, redirect, and answer with a
   gigabyte, and get more of the last two kinds all the time; the same is measured beside them;
3. ten owners have the tasks, each with several webhooks at a receiver that refuses a third of the calls, while the bad
   webhooks go on;
4. the webhooks that answered 500 for a minute have everything by then, or get it.

The receivers and the reader of the streams are other processes, so that the memory and the time are those of the
server. The process fails if anything was not delivered or out of order, if a redirect was followed, or if the quiet
owner, the stream or the memory suffered. `make soak-short` runs a short form of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple
from urllib.request import urlopen

from parley import Agent, Turn
from parley.client.client import Client
from parley.engine.webhooks.configs import Webhooks
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.protocol.events import ArtifactUpdate, TaskCreated
from parley.protocol.messages import TextPart
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.run import Bound, Serving, run, serve
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.interface import NewTask, Owner, Store, TaskKey, Write
from parley.stores.sqlite.store import SqliteStore

BAD = ("slow", "silent", "failing", "redirect", "gigabyte")
BAD_WEBHOOKS = 40
"""Of each kind. An owner has those of one kind, so that those that hang take no calls from the other kinds."""
BAD_EVENTS = 5
FED_SECONDS = 0.25
"""Between two more webhooks that redirect and answer with a gigabyte: those before have their events in a moment."""

QUIET_TASKS = 100
QUIET_EVENTS = 5
QUIET_TURNS, QUIET_SECONDS = 3, 2.0
"""So many turns at least, and further ones for so long. The best one counts: other programs of the machine, and its
disk, disturb some of them."""
STREAM_CHUNKS = 150
STREAM_PAUSE = 0.01
"""Seconds between two chunks, as models pause. So the gaps show what else the server does, and not its top speed."""
TOGETHER = 0.001
"""Seconds. Chunks that arrive closer to each other were held up together, so they count as one."""
STREAM_TURNS = 3

MOST_SLOWED = 3.0
"""The quiet owner's time beside the bad webhooks, in times of the time alone, for deliveries and for writes."""
SLOW_TURN = 0.5
"""Seconds of a turn below which it is never too slow: alone it takes some 70 milliseconds, and its writes 20, of which
another program of the machine makes three times as much in a moment."""
MOST_STREAM_SLOWED = 1.5
"""The median gap of a stream beside them, in times of that alone."""
MOST_STREAM_STALLED = 5.0
"""The same for the 99th percentile, if it is above `NOTICED` at all."""
NOTICED = 0.05
"""Seconds that a reader of a stream hardly notices. Two busy cores make gaps of twenty milliseconds without help."""
MOST_GROWN = 64
"""Megabytes."""
MOST_WAITING = 60
"""Seconds without any progress, after which what was not delivered is taken for lost."""
LIMITS = DeliveryLimits(longest_pause=1.0)
"""A short pause: of 15,000 events some are refused eight times in a row, which would take minutes of pauses."""

# --- the receivers ----------------------------------------------------------------------------------------------------


class Receivers:
    """Webhooks of all kinds, by the first part of their path."""

    def __init__(self) -> None:
        self._is_failing = True
        self._dice = random.Random(7)
        self._last: dict[str, int] = {}
        """The last event that each webhook accepted, by its path."""
        whats = ("calls", "refused", "accepted", "repeated", "out_of_order")
        self.counts = {kind: dict.fromkeys(whats, 0) for kind in (*BAD, "quiet", "flaky", "followed")}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while (head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")) != [""]:
                path = head[0].split(" ")[1]
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(path, headers, writer)
        writer.close()

    async def _answer(self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        kind = path.split("/")[1]
        if kind in ("recover", "stats"):
            self._is_failing = self._is_failing and kind == "stats"
            await _reply(writer, "200 OK", json.dumps(self.counts).encode())
            return
        self.counts[kind]["calls"] += 1
        match kind:
            case "slow":
                await asyncio.sleep(30)
                await _reply(writer, "204 No Content")
            case "silent":
                await asyncio.sleep(3_600)
            case "redirect":
                await _reply(writer, "302 Found", b"", "Location: /followed/elsewhere")
            case "gigabyte":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
                for _ in range(16_384):
                    writer.write(bytes(65_536))
                    await writer.drain()
            case "failing" if self._is_failing:
                self.counts[kind]["refused"] += 1
                await _reply(writer, "500 Internal Server Error")
            case "flaky" if self._dice.random() < 1 / 3:
                self.counts[kind]["refused"] += 1
                await _reply(writer, "503 Service Unavailable")
            case _:
                self._take(kind, path, headers["parley-event-id"])
                await _reply(writer, "204 No Content")

    def _take(self, kind: str, path: str, event_id: str) -> None:
        seq, last, counts = int(event_id.rpartition(":")[2]), self._last.get(path, 1), self.counts[kind]
        counts["accepted"] += seq > last
        counts["repeated"] += seq <= last
        counts["out_of_order"] += seq > last + 1
        self._last[path] = max(seq, last)


async def _reply(writer: asyncio.StreamWriter, status: str, body: bytes = b"", header: str = "") -> None:
    length = "" if status.startswith("204") else f"Content-Length: {len(body)}\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{length}{header and header + chr(13) + chr(10)}\r\n".encode() + body)
    await writer.drain()


def run_receivers(ports: Connection) -> None:
    async def receive() -> None:
        # Bad webhooks are on another port, and so at another host, as the deliveries see it.
        receivers = Receivers()
        servers = [await asyncio.start_server(receivers.serve, "0.0.0.0", 0, backlog=1_000) for _ in range(2)]
        ports.send([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.gather(*(server.serve_forever() for server in servers))

    asyncio.run(receive())


# --- the stream -------------------------------------------------------------------------------------------------------

agent = Agent("Soak", description="Says something every few milliseconds.")


@agent.on_message
async def talk(turn: Turn) -> AsyncIterator[str]:
    for _ in range(int(turn.text)):
        yield "twenty bytes or so, "
        await asyncio.sleep(STREAM_PAUSE)


class Gaps(NamedTuple):
    """The seconds between the chunks of a stream."""

    median: float
    p99: float


def read_stream(url: str) -> Gaps:
    """Have the agent talk, and follow it. It runs in a process of its own."""

    async def read() -> list[float]:
        async with Client(url) as client:
            updates = client.stream(str(STREAM_CHUNKS))
            return [perf_counter() async for update in updates if isinstance(update.event, ArtifactUpdate)]

    times = asyncio.run(read())
    if len(times) < STREAM_CHUNKS:
        raise RuntimeError(f"The stream ended after {len(times)} of {STREAM_CHUNKS} chunks")
    gaps = sorted(gap for earlier, later in pairwise(times) if (gap := later - earlier) > TOGETHER)
    return Gaps(median(gaps), gaps[len(gaps) * 99 // 100])


# --- the deliveries ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Soaked:
    """A served app, and the receivers that its webhooks are at."""

    url: str
    store: Store
    webhooks: Webhooks
    good: str
    bad_port: int

    async def put_tasks(self, owner: str, name: str, urls: Sequence[Sequence[str]], events: int) -> list[TaskKey]:
        """Tasks with some events each, and webhooks at these URLs that were not called yet."""
        keys: list[TaskKey] = []
        for number, of_task in enumerate(urls):
            key, now = TaskKey(Owner("", owner), f"{name}-{number}"), datetime.now(UTC)
            status, new = TaskStatus(TaskState.INPUT_REQUIRED, None, now), NewTask("soak", "c-1", Version.V1_0, now)
            made = TaskCreated(key.task_id, "c-1", status)
            chunks = [
                ArtifactUpdate(key.task_id, "c-1", Artifact("a-1", (TextPart(f"chunk {n} " * 10),)), append=n > 0)
                for n in range(events)
            ]
            await self.store.tasks.write(Write(key, 0, (made, *chunks), status.state, now, new))
            for index, url in enumerate(of_task):
                await self.store.outbox.put(key, PushConfig(url, key.task_id, f"hook-{index}"), after=1)
            keys.append(key)
        return keys

    def notify(self, keys: Sequence[TaskKey]) -> None:
        """Have the webhooks of these tasks called."""
        for key in keys:
            self.webhooks.notify(key)

    async def behind(self, keys: Sequence[TaskKey]) -> int:
        """How many webhooks of these tasks are behind."""
        found = [await self.store.outbox.webhooks(key) for key in keys]
        return sum(webhook.delivered_seq < webhook.last_seq for webhooks in found for webhook in webhooks)

    async def put_bad(self, kind: str, first: int, number: int) -> list[TaskKey]:
        """Tasks of the owner of one kind of bad webhooks, with one each, and begin to call them."""
        host = f"127.0.{BAD.index(kind) + 1}"
        urls = [[f"http://{host}.{n % 250 + 1}:{self.bad_port}/{kind}/{n}"] for n in range(first, first + number)]
        keys = await self.put_tasks(f"bad-{kind}", f"{kind}-{first}", urls, BAD_EVENTS)
        self.notify(keys)
        return keys

    async def keep_feeding(self) -> None:
        """Put more of the bad webhooks that take their events at once, until this is cancelled."""
        for number in count(BAD_WEBHOOKS):
            for kind in ("redirect", "gigabyte"):
                await self.put_bad(kind, number, 1)
            await asyncio.sleep(FED_SECONDS)

    async def stats(self, path: str = "stats") -> dict[str, dict[str, int]]:
        """What the receivers have counted, by the kind of webhook."""

        def read() -> dict[str, dict[str, int]]:
            with urlopen(f"{self.good}/{path}", timeout=60) as reply:
                return json.load(reply)

        return await asyncio.to_thread(read)

    async def recover(self, seconds: float) -> None:
        """Wait so long; then the webhooks that answer 500 accept everything."""
        await asyncio.sleep(seconds)
        await self.stats("recover")


@asynccontextmanager
async def soaked(port: int, bad_port: int, folder: str) -> AsyncGenerator[Soaked]:
    """The app, served on a store of its own."""
    store = SqliteStore(Path(folder) / "soak.db")
    app = App(
        agent,
        store=store,
        webhooks=WebhookPolicy(allow_private=True),
        delivery_limits=LIMITS,
        drain_seconds=0,
    )
    ready, stop = asyncio.get_running_loop().create_future(), asyncio.Event()

    def tell(bound: Bound) -> None:
        ready.set_result(bound.url)

    async with asyncio.TaskGroup() as group:
        group.create_task(serve(app, Serving(port=0), on_ready=tell, stop=stop))
        try:
            yield Soaked(await ready, store, app.local_engine.webhooks, f"http://127.0.0.1:{port}", bad_port)
        finally:
            stop.set()


class Measured(NamedTuple):
    """What others than the owners of bad webhooks see: the best of all turns, in seconds."""

    delivered: float
    """Until the quiet owner's webhooks have all events."""
    written: float
    """Until as many events are written."""
    stream: Gaps


async def measure(server: Soaked, readers: Executor, name: str) -> Measured:
    """Measure the quiet owner's webhooks, and then a stream."""
    quiet: list[tuple[float, float]] = []
    begun = perf_counter()
    while len(quiet) < QUIET_TURNS or perf_counter() - begun < QUIET_SECONDS:
        quiet.append(await quiet_seconds(server, f"{name}-{len(quiet)}"))
    loop = asyncio.get_running_loop()
    streams = [await loop.run_in_executor(readers, read_stream, server.url) for _ in range(STREAM_TURNS)]
    delivered, written = (min(turn[i] for turn in quiet) for i in (0, 1))
    medians, p99s = zip(*streams, strict=True)
    return Measured(delivered, written, Gaps(min(medians), min(p99s)))


async def quiet_seconds(server: Soaked, name: str) -> tuple[float, float]:
    """The time until the quiet owner's webhooks have all events, and until as many events are written."""
    begun = perf_counter()
    urls = [[f"{server.good}/quiet/{name}-{number}"] for number in range(QUIET_TASKS)]
    keys = await server.put_tasks("quiet", name, urls, QUIET_EVENTS)
    written = perf_counter() - begun
    server.notify(keys)
    async with asyncio.timeout(MOST_WAITING):
        while await server.behind(keys):
            await asyncio.sleep(0.005)
    return perf_counter() - begun - written, written


def megabytes() -> float:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Memory:
    """The memory of this process over time, in megabytes."""

    before: float
    most: float = 0.0

    async def watch(self) -> None:
        """Look at it often, until this is cancelled."""
        while True:
            self.most = max(self.most, megabytes())
            await asyncio.sleep(0.05)


async def until_delivered(server: Soaked, keys: Sequence[TaskKey], what: str) -> bool:
    """Wait until the webhooks of these tasks have everything; whether they have. Ends when nothing happens any more."""
    begun = changed = perf_counter()
    before, said = -1, 0.0
    while left := await server.behind(keys):
        now = perf_counter()
        if left != before:
            before, changed = left, now
        elif now - changed > MOST_WAITING:
            return False
        if now - said >= 2:
            said = now
            print(f"  {now - begun:5.0f} s  {left:,} {what} behind, {megabytes():.0f} MB", file=sys.stderr)
        await asyncio.sleep(0.25)
    return True


# --- the run ----------------------------------------------------------------------------------------------------------


async def soak(options: argparse.Namespace, server: Soaked, readers: Executor) -> list[str]:
    """Print the figures, and return what is wrong with them."""
    await quiet_seconds(server, "warm")
    await asyncio.get_running_loop().run_in_executor(readers, read_stream, server.url)
    alone = await measure(server, readers, "alone")
    memory = Memory(before=megabytes())
    watching = asyncio.create_task(memory.watch())
    begun = perf_counter()
    bad = {kind: await server.put_bad(kind, 0, BAD_WEBHOOKS) for kind in BAD}
    feeding = asyncio.create_task(server.keep_feeding())
    await asyncio.sleep(1)
    beside, counts = await measure(server, readers, "beside"), await server.stats()
    wrong = compared(alone, beside)
    calls = ", ".join(f"{kind} {counts[kind]['calls']:,}" for kind in BAD)
    print(f"calls of bad webhooks  {calls}; {BAD_WEBHOOKS} of each at first")
    print(f"memory                 {memory.before:.0f} MB before, {memory.most:.0f} MB at most beside them")

    failing_seconds = max(options.failing_seconds, perf_counter() - begun)
    recovering = asyncio.create_task(server.recover(begun + failing_seconds - perf_counter()))
    wrong += await deliver_to_flaky(options, server)
    feeding.cancel()
    await recovering
    recovered = await until_delivered(server, bad["failing"], "webhooks that answered 500")
    counts, expected = await server.stats(), BAD_WEBHOOKS * BAD_EVENTS
    failing = counts["failing"]
    print(f"500 for {failing_seconds:.0f} seconds     {failing['refused']:,} calls were refused,", end=" ")
    print(f"{failing['accepted']:,} of {expected:,} events delivered, {failing['out_of_order']:,} out of order")
    if not recovered or failing["accepted"] != expected or failing["out_of_order"]:
        wrong.append("webhooks that answered 500 for a while did not get everything in order")
    if counts["followed"]["calls"]:
        wrong.append("redirects were followed")
    watching.cancel()
    before, most, after = memory.before, memory.most, megabytes()
    print(f"memory                 {before:.0f} MB before, {most:.0f} MB at most, {after:.0f} MB after")
    if most - before > MOST_GROWN:
        wrong.append(f"the memory grew by more than {MOST_GROWN} MB")
    return wrong


def compared(alone: Measured, beside: Measured) -> list[str]:
    """Print both, and return what is too much."""
    delivered, written = beside.delivered / alone.delivered, beside.written / alone.written
    stream = [with_bad / without for with_bad, without in zip(beside.stream, alone.stream, strict=True)]
    events = QUIET_TASKS * QUIET_EVENTS
    for name, of in (("alone", alone), ("beside", beside)):
        print(f"quiet owner {name:11}{events / of.delivered:,.0f} events a second, {events / of.written:,.0f} written")
    print(f"slowed by              {delivered:.2f} × (deliveries), {written:.2f} × (events written)")
    for name, gaps in (("alone", alone.stream), ("beside", beside.stream)):
        print(f"stream {name:16}{gaps.median * 1e3:.1f} ms between chunks (median), {gaps.p99 * 1e3:.1f} ms (p99)")
    print(f"slowed by              {stream[0]:.2f} × (median), {stream[1]:.2f} × (p99)")
    wrong: list[str] = []
    if delivered > MOST_SLOWED and beside.delivered > SLOW_TURN:
        wrong.append("bad webhooks slow the deliveries to those of others")
    if written > MOST_SLOWED and beside.written > SLOW_TURN:
        wrong.append("bad webhooks slow the writing of events")
    if stream[0] > MOST_STREAM_SLOWED:
        wrong.append("bad webhooks slow a stream")
    if stream[1] > MOST_STREAM_STALLED and beside.stream.p99 > NOTICED:
        wrong.append("bad webhooks make a stream stall")
    return wrong


async def deliver_to_flaky(options: argparse.Namespace, server: Soaked) -> list[str]:
    """Deliver the tasks of ten owners to webhooks that refuse a third of the calls; print it, and what is wrong."""
    per_owner = options.tasks // 10
    keys: list[TaskKey] = []
    for owner in range(10):
        flaky = [[f"{server.good}/flaky/{owner}-{t}-{c}" for c in range(options.configs)] for t in range(per_owner)]
        keys += await server.put_tasks(f"owner-{owner}", f"o{owner}", flaky, options.events)
    begun = perf_counter()
    server.notify(keys)
    is_delivered = await until_delivered(server, keys, "webhooks")
    seconds, counts = perf_counter() - begun, (await server.stats())["flaky"]
    expected = len(keys) * options.configs * options.events
    print(f"tasks, webhooks, events {len(keys):,}, {len(keys) * options.configs:,}, {expected:,} to deliver")
    print(f"delivered              {counts['accepted']:,} in {seconds:.0f} s, {expected / seconds:,.0f} a second")
    print(f"calls                  {counts['calls']:,}, of which {counts['refused']:,} were refused")
    print(f"repeated, out of order {counts['repeated']:,}, {counts['out_of_order']:,}")
    is_whole = is_delivered and counts["accepted"] == expected and not counts["out_of_order"]
    return [] if is_whole else ["events were not delivered, or out of order"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--configs", type=int, default=3)
    parser.add_argument("--events", type=int, default=5)
    parser.add_argument("--failing-seconds", type=float, default=60)
    parser.add_argument("--folder", help="for the store; one in memory keeps the disk out of the figures")
    options = parser.parse_args()
    logging.disable()  # every redirect is an error in the log
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    receivers = spawn.Process(target=run_receivers, args=(theirs,), daemon=True)
    receivers.start()
    wrong: list[str] = []

    async def measured() -> None:
        port, bad_port = ours.recv()
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as folder,
            ProcessPoolExecutor(1, mp_context=spawn) as readers,
        ):
            async with soaked(port, bad_port, folder) as server:
                wrong.extend(await soak(options, server, readers))

    try:
        run(measured())
    finally:
        receivers.kill()
    print(f"FAILED: {'; '.join(wrong)}." if wrong else "Passed.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
