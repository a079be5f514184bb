"""Deliveries under strain: what they take, whether other owners notice, and what the memory comes to.

`python bench/webhook_soak.py [--tasks 1000] [--configs 3] [--events 5]`: in one run,

1. a quiet owner's webhooks are called alone (the baseline);
2. another owner has webhooks that take 30 seconds, never answer, answer 500 for a minute, redirect, and answer with a
   gigabyte; the quiet owner's webhooks are called again, and the ratio of both times is printed, as for events written;
3. ten owners have the tasks, each with several webhooks at a receiver that refuses a third of the calls, while the
   second owner's go on.

The receivers are another process, so that the memory is that of the deliveries. The process fails if anything was not
delivered, was delivered out of order, or if the quiet owner or the memory suffered.
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
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from urllib.request import urlopen

from parley.engine.webhooks.deliveries import Deliveries
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.protocol.events import ArtifactUpdate, TaskCreated
from parley.protocol.messages import TextPart
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.webhooks.guard import WebhookPolicy
from parley.server.webhooks.sender import WebhookSender
from parley.stores.interface import NewTask, Owner, Store, TaskKey, Write
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened

BAD = ("slow", "silent", "failing", "redirect", "gigabyte")
BAD_WEBHOOKS = 200
QUIET_TASKS = 100
MOST_SLOWED = 2.0
"""The quiet owner's time beside the bad webhooks, in times of the time alone."""
LIMITS = DeliveryLimits(longest_pause=4.0)
"""A short pause: of 15,000 events some are refused eight times in a row, which would take minutes of pauses."""
MOST_GROWN = 64
"""Megabytes."""

# --- the receivers ----------------------------------------------------------------------------------------------------


class Receivers:
    """Webhooks of all kinds, by the first part of their path."""

    def __init__(self) -> None:
        self._begun = perf_counter()
        self._dice = random.Random(7)
        self._last: dict[str, int] = {}
        """The last event that each webhook accepted, by its path and task."""
        self.counts = dict.fromkeys(("calls", "refused", "accepted", "repeated", "out_of_order"), 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while (head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")) != [""]:
                path = head[0].split(" ")[1]
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._answer(path, headers, writer):
                    break
        writer.close()

    async def _answer(self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        kind = path.split("/")[1]
        match kind:
            case "stats":
                await _reply(writer, "200 OK", json.dumps(self.counts).encode())
            case "slow":
                await asyncio.sleep(30)
                await _reply(writer, "204 No Content")
            case "silent":
                await asyncio.sleep(3_600)
            case "redirect":
                await _reply(writer, "302 Found", b"", "Location: /quiet/elsewhere")
            case "failing" if perf_counter() - self._begun < 60:
                await _reply(writer, "500 Internal Server Error")
            case "gigabyte":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
                for _ in range(16_384):
                    writer.write(bytes(65_536))
                    await writer.drain()
            case _:
                await self._take(kind, path, headers["parley-event-id"], writer)
        return True

    async def _take(self, kind: str, path: str, event_id: str, writer: asyncio.StreamWriter) -> None:
        if kind == "flaky":
            self.counts["calls"] += 1
            if self._dice.random() < 1 / 3:
                self.counts["refused"] += 1
                await _reply(writer, "503 Service Unavailable")
                return
            seq, last = int(event_id.rpartition(":")[2]), self._last.get(path, 1)
            self.counts["accepted"] += seq > last
            self.counts["repeated"] += seq <= last
            self.counts["out_of_order"] += seq > last + 1
            self._last[path] = max(seq, last)
        await _reply(writer, "204 No Content")


async def _reply(writer: asyncio.StreamWriter, status: str, body: bytes = b"", header: str = "") -> None:
    length = "" if status.startswith("204") else f"Content-Length: {len(body)}\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{length}{header and header + chr(13) + chr(10)}\r\n".encode() + body)
    await writer.drain()


def run_receivers(ports: Connection) -> None:
    async def run() -> None:
        # Bad webhooks are on another port, and so at another host, as the deliveries see it.
        receivers = Receivers()
        servers = [await asyncio.start_server(receivers.serve, "0.0.0.0", 0, backlog=1_000) for _ in range(2)]
        ports.send([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.gather(*(server.serve_forever() for server in servers))

    asyncio.run(run())


# --- the deliveries ---------------------------------------------------------------------------------------------------


async def put_tasks(store: Store, owner: str, name: str, urls: Sequence[Sequence[str]], events: int) -> list[TaskKey]:
    """Tasks with some events each, and webhooks at these URLs that were told nothing."""
    keys: list[TaskKey] = []
    for number, of_task in enumerate(urls):
        key, now = TaskKey(Owner("", owner), f"{name}-{number}"), datetime.now(UTC)
        status, new = TaskStatus(TaskState.INPUT_REQUIRED, None, now), NewTask("soak", "c-1", Version.V1_0, now)
        made = TaskCreated(key.task_id, "c-1", status)
        chunks = [
            ArtifactUpdate(key.task_id, "c-1", Artifact("a-1", (TextPart(f"chunk {n} " * 10),)), append=n > 0)
            for n in range(events)
        ]
        await store.tasks.write(Write(key, 0, (made, *chunks), status.state, now, new))
        for index, url in enumerate(of_task):
            await store.outbox.put(key, PushConfig(url, key.task_id, f"hook-{index}"), after=1)
        keys.append(key)
    return keys


async def delivered(store: Store, keys: Sequence[TaskKey]) -> int:
    """How many webhooks of these tasks are behind."""
    found = [await store.outbox.webhooks(key) for key in keys]
    return sum(webhook.delivered_seq < webhook.last_seq for webhooks in found for webhook in webhooks)


async def quiet_seconds(store: Store, deliveries: Deliveries, url: str, name: str) -> tuple[float, float]:
    """The time until the quiet owner's webhooks have all events, and until as many events are written."""
    begun = perf_counter()
    urls = [[f"{url}/quiet/{number}"] for number in range(QUIET_TASKS)]
    keys = await put_tasks(store, "quiet", name, urls, 5)
    written = perf_counter() - begun
    for key in keys:
        deliveries.notify(key)
    while await delivered(store, keys):
        await asyncio.sleep(0.005)
    return perf_counter() - begun - written, written


def megabytes() -> float:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def stats(port: int) -> dict[str, int]:
    with urlopen(f"http://127.0.0.1:{port}/stats", timeout=60) as reply:
        return json.load(reply)


async def soak(options: argparse.Namespace, port: int, bad_port: int, folder: str) -> bool:
    good, bad = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{bad_port}"
    async with (
        opened(SqliteStore(Path(folder) / "soak.db")) as store,
        WebhookSender(WebhookPolicy(allow_private=True)) as sender,
        Deliveries(store, sender, limits=LIMITS) as deliveries,
    ):
        await quiet_seconds(store, deliveries, good, "warm")
        alone = [await quiet_seconds(store, deliveries, good, f"alone-{turn}") for turn in range(3)]
        urls = [[f"http://127.0.{n % 200 + 1}.1:{bad_port}/{BAD[n % len(BAD)]}/{n}"] for n in range(BAD_WEBHOOKS)]
        for key in await put_tasks(store, "bad", "bad", urls, 5):
            deliveries.notify(key)
        await asyncio.sleep(2)
        calls = deliveries.under_way
        beside = [await quiet_seconds(store, deliveries, good, f"beside-{turn}") for turn in range(3)]
        slowed = [min(turn[i] for turn in beside) / min(turn[i] for turn in alone) for i in (0, 1)]
        print(f"bad webhooks           {BAD_WEBHOOKS}, of which {calls} calls were under way ({bad})")
        print(f"quiet owner alone      {QUIET_TASKS * 5 / min(a for a, _ in alone):,.0f} events a second")
        print(f"quiet owner beside     {QUIET_TASKS * 5 / min(a for a, _ in beside):,.0f} events a second")
        print(f"slowed by              {slowed[0]:.2f} (deliveries), {slowed[1]:.2f} (events written)")
        per_owner = options.tasks // 10
        keys: list[TaskKey] = []
        for owner in range(10):
            flaky = [[f"{good}/flaky/{owner}-{t}-{c}" for c in range(options.configs)] for t in range(per_owner)]
            keys += await put_tasks(store, f"owner-{owner}", f"o{owner}", flaky, options.events)
        before, most, begun = megabytes(), 0.0, perf_counter()
        for key in keys:
            deliveries.notify(key)
        while left := await delivered(store, keys):
            most = max(most, megabytes())
            print(f"  {perf_counter() - begun:5.0f} s  {left:,} webhooks behind, {megabytes():.0f} MB", file=sys.stderr)
            await asyncio.sleep(2)
        seconds, counts = perf_counter() - begun, await asyncio.to_thread(stats, port)
        expected = len(keys) * options.configs * options.events
        print(f"tasks, webhooks, events {len(keys):,}, {len(keys) * options.configs:,}, {expected:,} to deliver")
        print(f"delivered              {counts['accepted']:,} in {seconds:.0f} s, {expected / seconds:,.0f} a second")
        print(f"calls                  {counts['calls']:,}, of which {counts['refused']:,} were refused")
        print(f"repeated, out of order {counts['repeated']:,}, {counts['out_of_order']:,}")
        print(f"memory                 {before:.0f} MB before, {most:.0f} MB at most, {megabytes():.0f} MB after")
        is_whole = counts["accepted"] == expected and not counts["out_of_order"]
        return is_whole and slowed[0] <= MOST_SLOWED and most - before <= MOST_GROWN


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--configs", type=int, default=3)
    parser.add_argument("--events", type=int, default=5)
    options = parser.parse_args()
    logging.disable()  # every redirect is an error in the log
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    receivers = multiprocessing.get_context("spawn").Process(target=run_receivers, args=(theirs,), daemon=True)
    receivers.start()
    port, bad_port = ours.recv()
    try:
        with tempfile.TemporaryDirectory() as folder:
            is_good = asyncio.run(soak(options, port, bad_port, folder))
    finally:
        receivers.kill()
    print("Passed." if is_good else "FAILED.")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
