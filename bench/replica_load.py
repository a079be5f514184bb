"""The load generator for what happens between replicas; like `load.py`, a process that does one piece of work.

    python bench/replica_load.py latency --port 8081 8082 --rate 1000 --seconds 5
    python bench/replica_load.py dispatch --port 8081 8082 --runs 4 --times 200
    python bench/replica_load.py takeover --port 8081 8082
    python bench/replica_load.py outage --port 8081

The first port is that of the replica where messages are sent, the second that of the other. `takeover` and `outage`
print `{"ready": …}` when their cause may be brought about: the first replica killed, PostgreSQL restarted. Times are
those of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic, monotonic_ns

from load import (
    Requests,
    WrongReply,
    begin_task,
    body_1_0,
    quantiles,
    run_work,
    say,
    subscribe_body,
    unchunked,
    work_parsers,
)

PAUSE = 0.02
"""Seconds between two words of a task that is taken over, and between two sends during an outage."""
WORDS_BEFORE = 3
"""Words that are read before a replica is killed. The next one says them again first, so they are few."""
WORDS_AFTER = 20
OUTAGE_SECONDS = 60.0
"""Sends must succeed again within this time."""
SENDS_AFTER = 50
"""Sends in a row that must succeed after an outage."""


# --- requests ---------------------------------------------------------------------------------------------------------


async def words_of(port: int, task_id: str) -> AsyncGenerator[tuple[int, str]]:
    """The words of a task as they arrive at a replica, each with the nanosecond, until the task ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(Requests(subscribe_body(task_id), accept="text/event-stream").next())
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise WrongReply(head.decode(errors="replace"))
        async for line in lines_of(reader):
            now = monotonic_ns()
            if not line.startswith(b"data:"):
                continue
            event = json.loads(line[5:])
            for artifact in artifacts_of(event):
                for word in "".join(part["text"] for part in artifact["parts"]).split():
                    yield now, word
            if b"TASK_STATE_COMPLETED" in line:
                return
        raise WrongReply("the stream ended before its task")
    finally:
        writer.close()


async def lines_of(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """The lines of a chunked body."""
    rest = b""
    while size := int(await reader.readline(), 16):
        *lines, rest = (rest + await reader.readexactly(size)).split(b"\n")
        await reader.readexactly(2)
        for line in lines:
            yield line


def artifacts_of(event: dict) -> list[dict]:
    """The artifacts in an event: those of a task, or the piece of one."""
    match event.get("result"):
        case {"task": task}:
            return task.get("artifacts", [])
        case {"artifactUpdate": update}:
            return [update["artifact"]]
        case {"statusUpdate": _}:
            return []
        case _:
            raise WrongReply(str(event))


async def send(port: int, text: str) -> bytes:
    """The body of the reply to a message, over a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(Requests(body_1_0("SendMessage", text)).next())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length:" not in head:
            return unchunked(await reader.readuntil(b"0\r\n\r\n"))
        return await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
    finally:
        writer.close()


def text_of(reply: bytes) -> str:
    """What the artifact of a completed task says."""
    try:
        (artifact,) = json.loads(reply)["result"]["task"]["artifacts"]
    except (KeyError, ValueError) as error:
        raise WrongReply(reply[:2000].decode(errors="replace")) from error
    return "".join(part["text"] for part in artifact["parts"])


# --- what is measured -------------------------------------------------------------------------------------------------


async def latency(options: argparse.Namespace) -> dict:
    """From the moment in which the agent says a chunk at one replica until a subscriber at the other has it."""
    here, there = options.port
    total = int(options.rate * options.seconds)
    task_id = await begin_task(here, f"tick {options.rate} {options.seconds}")
    waits = [(now - int(word)) / 1e6 async for now, word in words_of(there, task_id)]
    if len(waits) != total:
        raise WrongReply(f"{len(waits)} chunks instead of {total}")
    counted = waits[total // 10 :]  # the first ones were there before the subscriber
    return {**quantiles(counted), "most": max(counted), "chunks": len(counted)}


async def dispatch(options: argparse.Namespace) -> dict:
    """From a message that is sent to a replica without room until its run begins at another one."""
    here, _ = options.port
    held = [await begin_task(here, "hold 600") for _ in range(options.runs)]
    waits, replies, elsewhere = [], [], 0
    for _ in range(options.times):
        begun = monotonic_ns()
        pid, started = text_of(await send(here, "where")).split()
        replies.append((monotonic_ns() - begun) / 1e6)
        waits.append((int(started) - begun) / 1e6)
        elsewhere += int(pid) != options.pid
    return {**quantiles(waits), "most": max(waits), "elsewhere": elsewhere / options.times, "held": len(held)}


async def takeover(options: argparse.Namespace) -> dict:
    """When the words of a task arrive whose replica is killed after the first ones, read at the other replica."""
    here, there = options.port
    total = WORDS_BEFORE + WORDS_AFTER
    task_id = await begin_task(here, f"count {total} {PAUSE}")
    times, words = [], []
    async with aclosing(words_of(there, task_id)) as arriving:
        async for now, word in arriving:
            times.append(now / 1e9)
            words.append(word)
            if len(words) == WORDS_BEFORE:
                say({"ready": task_id})
    if words != [str(number) for number in range(total)]:
        raise WrongReply(f"the words {words}")
    gaps = [(later - earlier, later) for earlier, later in itertools.pairwise(times)]
    longest, end = max(gaps)
    return {"gap": longest, "next": end}


async def outage(options: argparse.Namespace) -> dict:
    """When sends fail and succeed, one after the other, while the store goes and comes back.

    A line of standard input says when it was back; enough later sends end the work.
    """
    (port,) = options.port
    came_back = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    refused, after, slowest = 0, [], 0.0
    deadline = monotonic() + OUTAGE_SECONDS
    for number in range(sys.maxsize):
        begun = monotonic()
        try:
            is_done = b"TASK_STATE_COMPLETED" in await asyncio.wait_for(send(port, "echo hello"), OUTAGE_SECONDS)
        except (OSError, asyncio.IncompleteReadError):
            is_done = False
        refused += not is_done
        slowest = max(slowest, monotonic() - begun)
        if number == SENDS_AFTER:
            say({"ready": number})
        if came_back.done() and is_done:
            after.append(monotonic())
            if len(after) == SENDS_AFTER:
                break
        elif came_back.done():
            after.clear()
        if monotonic() > deadline:
            raise WrongReply("sends do not succeed again")
        await asyncio.sleep(PAUSE)
    return {"seconds": max(0.0, after[0] - float(came_back.result())), "refused": refused, "slowest": slowest}


# --- the command ------------------------------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser, kind = work_parsers(__doc__)
    for_latency = kind(latency)
    for_latency.add_argument("--rate", type=float, default=1_000)
    for_latency.add_argument("--seconds", type=float, default=5)
    for_dispatch = kind(dispatch)
    for_dispatch.add_argument("--runs", type=int, required=True, help="so many fill the first replica")
    for_dispatch.add_argument("--pid", type=int, required=True, help="the process of the first replica")
    for_dispatch.add_argument("--times", type=int, default=100)
    kind(takeover)
    kind(outage)
    return parser.parse_args()


if __name__ == "__main__":
    run_work(parse())
