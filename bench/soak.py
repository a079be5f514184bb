"""Attacks a served agent's memory and fairness for some minutes, and prints what that does to it and to others.

Everything stays on this machine: a server in a process of its own, on a SQLite file of its own, and readers, listers,
senders and receivers of webhooks that behave badly. Each attack is repeated on a fresh server for as long as there is
time; the worst round counts. `--seconds` is how long all of it takes, about; `--only` names one attack. Memory beyond
`BOUNDS` ends it with exit code 1; speed is only printed, because it depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from servers.soaked import TOKENS

MEGABYTE = 1_000_000
BIG = "ask 10 1000000"
"""A task of 10 MB that waits for an answer, so that it can be followed."""
HANGUPS = 200
IDLE = 200
SLOW = 40
LISTERS = 10
LISTED = 50
SENDERS = 8
HANGING = 320
_numbers = count()

LEFT_BEHIND = f"MB that {HANGUPS} readers leave behind when they hang up"
EACH_IDLE = "KB for each idle reader"
HELD_BY_SLOW = f"MB that {SLOW} slow readers of a {{}} hold"

BOUNDS = {LEFT_BEHIND: 60, EACH_IDLE: 100, HELD_BY_SLOW.format("stream"): 150, HELD_BY_SLOW.format("snapshot"): 400}
"""What would be ten times as much, or more, if readers kept what they need not."""


@dataclass
class Soaked:
    """A server under attack."""

    process: subprocess.Popen[str]
    port: int

    def tell(self) -> dict[str, Any]:
        """Have the server collect its garbage."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def megabytes(self) -> float:
        """The memory that the server has in use, whatever its collector would find."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


@asynccontextmanager
async def soaked() -> AsyncGenerator[Soaked]:
    """A fresh server on a fresh store."""
    with tempfile.TemporaryDirectory(prefix="parley-soak-") as folder:
        script = Path(__file__).parent / "servers" / "soaked.py"
        command = [sys.executable, str(script), "--store", f"sqlite:///{folder}/tasks.db"]
        null = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=null, text=True)
        assert process.stdout
        try:
            yield Soaked(process, json.loads(process.stdout.readline())["port"])
        finally:
            process.kill()
            process.communicate()


# --- talking to it ----------------------------------------------------------------------------------------------------


def request(method: str, params: dict[str, Any], *, who: str = "alice", headers: str = "") -> bytes:
    """The bytes of a JSON-RPC request of 1.0."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    head = (
        f"POST / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKENS[who]}\r\na2a-version: 1.0\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    )
    return head.encode() + body


def message(text: str, *, webhook: str | None = None, waits: bool = True) -> dict[str, Any]:
    """The parameters of a send."""
    said = {"messageId": f"m-{os.getpid()}-{next(_numbers)}", "role": "ROLE_USER", "parts": [{"text": text}]}
    configuration: dict[str, Any] = {"returnImmediately": not waits, "historyLength": 0}
    if webhook is not None:
        configuration["taskPushNotificationConfig"] = {"url": webhook}
    return {"message": said, "configuration": configuration}


async def call(server: Soaked, method: str, params: dict[str, Any], *, who: str = "alice") -> Any:
    """Make one call on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        return await ask(reader, writer, request(method, params, who=who))
    finally:
        writer.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> Any:
    """Make one call and read its answer."""
    writer.write(data)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length"))
    answer = json.loads(await reader.readexactly(length))
    if "error" in answer:
        raise RuntimeError(f"The server refused: {answer['error']}")
    return answer["result"]


async def make_task(server: Soaked, text: str) -> str:
    """Have a task made, and give its id."""
    found = await call(server, "SendMessage", message(text, waits=False))
    task_id: str = found["task"]["id"]
    while found.get("task", found)["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
        await asyncio.sleep(0.05)
        found = (await call(server, "ListTasks", {"pageSize": 1}))["tasks"][0]
    return task_id


@asynccontextmanager
async def following(
    server: Soaked, task_id: str, *, after: int | None = None, window: int = 0
) -> AsyncGenerator[asyncio.StreamReader]:
    """A stream of a task of which nothing is read yet. With a `window` the system holds back no more than that."""
    connection = socket.socket()
    if window:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", server.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=window or 1 << 16)
    headers = "" if after is None else f"last-event-id: {after}\r\n"
    writer.write(request("SubscribeToTask", {"id": task_id}, headers=headers))
    try:
        yield reader
    finally:
        writer.transport.abort()


async def read(reader: asyncio.StreamReader, size: int) -> None:
    """Read so many bytes, a little at a time, and drop them."""
    while size > 0 and (data := await reader.read(min(size, 1 << 16))):
        size -= len(data)


# --- the attacks ------------------------------------------------------------------------------------------------------

Figures = dict[str, float]
"""What one round of an attack has shown, by what it is."""


async def hang_up() -> Figures:
    """Readers that subscribe to a 10 MB task, read a little or all of it, and hang up, one at a time."""
    async with soaked() as server:
        task_id = await make_task(server, BIG)
        for _ in range(3):
            async with following(server, task_id) as reader:
                await read(reader, 10 * MEGABYTE)
        before = server.megabytes()
        for number in range(HANGUPS):
            async with following(server, task_id) as reader:
                await read(reader, 10 * MEGABYTE if number % 2 else 1)
        await asyncio.sleep(1)
        return {"MB before": before, LEFT_BEHIND: server.megabytes() - before}


async def idle() -> Figures:
    """Readers that have read a 10 MB task and wait for what comes next.

    A reader that keeps something does so in every group. What one group adds alone is a passing copy, which the process
    has not given back to the system yet: two of 10 MB look like 100 KB for each of 200 readers.
    """
    async with soaked() as server, AsyncExitStack() as stack:
        task_id = await make_task(server, BIG)
        held: list[float] = []
        for readers in (IDLE // 4, IDLE, IDLE):  # after the first ones the memory for passing copies is there
            for _ in range(readers):
                reader = await stack.enter_async_context(following(server, task_id))
                await read(reader, 10 * MEGABYTE)
            await asyncio.sleep(1)
            server.tell()
            held.append(server.megabytes())
        return {EACH_IDLE: min(later - earlier for earlier, later in pairwise(held)) * 1000 / IDLE}


async def crawl() -> Figures:
    """Readers that take one byte a second of a stream of 25 MB, and of a snapshot of 10 MB."""
    shown: Figures = {}
    for name, text, after in (("stream", "ask 400 64000", 0), ("snapshot", BIG, None)):
        async with soaked() as server, AsyncExitStack() as stack:
            task_id = await make_task(server, text)
            await asyncio.sleep(2)  # its snapshot is written
            before = server.megabytes()
            readers = [
                await stack.enter_async_context(following(server, task_id, after=after, window=4096))
                for _ in range(SLOW)
            ]
            most = 0.0
            for _ in range(8):
                for reader in readers:
                    await asyncio.wait({asyncio.ensure_future(reader.read(1))}, timeout=0.01)
                await asyncio.sleep(1)
                most = max(most, server.megabytes())
            shown |= {f"MB before slow readers of a {name}": before, HELD_BY_SLOW.format(name): most - before}
    return shown


async def list_tasks() -> Figures:
    """Ten callers that list fifty tasks of 1 MB (2,000 chunks) each over and over, beside eight that send."""
    async with soaked() as server:
        for _ in range(LISTED):
            await call(server, "SendMessage", message("say 2000 500"), who="mallory")
        alone = await sends_a_second(server, 3)
        shown: Figures = {"sends a second alone": alone}
        for name, extra in (("without artifacts", {}), ("with artifacts", {"includeArtifacts": True})):
            listers = [asyncio.create_task(keep_listing(server, extra)) for _ in range(LISTERS)]
            beside = await sends_a_second(server, 4)
            for lister in listers:
                lister.cancel()
            await asyncio.gather(*listers, return_exceptions=True)
            shown |= {f"sends a second beside lists {name}": beside, f"slower beside lists {name} (×)": alone / beside}
        return shown


async def sends_a_second(server: Soaked, seconds: float) -> float:
    """How many messages Alice gets through, from a process of her own."""
    command = [sys.executable, __file__, "--send-to", str(server.port), "--seconds", str(seconds)]
    sender = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    said, _ = await sender.communicate()
    return float(said)


async def keep_sending(port: int, seconds: float) -> None:
    """Send as Alice over several connections, and print how many messages a second got through."""
    begun, sent = perf_counter(), 0

    async def send() -> None:
        nonlocal sent
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while perf_counter() < begun + seconds:
            await ask(reader, writer, request("SendMessage", message("say 1 10")))
            sent += 1
        writer.close()

    await asyncio.gather(*[send() for _ in range(SENDERS)])
    print(sent / (perf_counter() - begun))


async def keep_listing(server: Soaked, extra: dict[str, Any]) -> None:
    """List Mallory's tasks until this is cancelled, and throw the answers away."""
    asked = request("ListTasks", {"pageSize": LISTED, **extra}, who="mallory")
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(asked)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await read(reader, int(head.partition("content-length: ")[2].partition("\r\n")[0]))
        finally:
            writer.close()


async def hang_webhooks() -> Figures:
    """Mallory's 320 webhooks that never answer, beside one of Alice's that does."""
    told = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await reader.read()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        told.set()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with soaked() as server, AsyncExitStack() as stack:
        bad = await stack.enter_async_context(await asyncio.start_server(hang, "127.0.0.1", 0, backlog=1024))
        good = await stack.enter_async_context(await asyncio.start_server(take, "127.0.0.1", 0))
        bad_url, good_url = (f"http://127.0.0.1:{each.sockets[0].getsockname()[1]}/" for each in (bad, good))
        for _ in range(HANGING):
            await call(server, "SendMessage", message("say 1 10", webhook=bad_url), who="mallory")
        begun = perf_counter()
        await call(server, "SendMessage", message("say 1 10", webhook=good_url))
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), 120)
        return {f"seconds that Alice's webhook waits beside {HANGING} of Mallory's": perf_counter() - begun}


ATTACKS: dict[str, Callable[[], Awaitable[Figures]]] = {
    "hang-up": hang_up,
    "idle": idle,
    "crawl": crawl,
    "list": list_tasks,
    "webhooks": hang_webhooks,
}


async def main(seconds: float, only: str | None) -> None:
    """Repeat the attacks until the time is up, and print the worst of each figure. Exits with 1 if one is too bad."""
    worst: dict[str, Figures] = {}
    end = perf_counter() + seconds
    rounds = 0
    while not rounds or perf_counter() < end:
        rounds += 1
        for name, attack in ATTACKS.items():
            if only in (None, name):
                for what, value in (await attack()).items():
                    seen = worst.setdefault(name, {})
                    better = min if "sends a second" in what else max
                    seen[what] = better(seen.get(what, value), value)
                print(f"round {rounds}, {name}: done", flush=True)
    print(f"\nThe worst of {rounds} rounds:")
    for name, figures in worst.items():
        for what, value in figures.items():
            print(f"{name:10} {what:65} {value:10,.2f}")
    beyond = [what for figures in worst.values() for what, value in figures.items() if value > BOUNDS.get(what, value)]
    if beyond:
        sys.exit(f"Too much: {', '.join(beyond)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", choices=ATTACKS)
    parser.add_argument("--send-to", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    asyncio.run(keep_sending(chosen.send_to, chosen.seconds) if chosen.send_to else main(chosen.seconds, chosen.only))
