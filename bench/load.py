"""The load generator: a client of raw HTTP/1.1 that costs a small part of what the servers cost.

Requests are bytes made beforehand in which only the ids change; a reply is looked at for its status and for the state
of its task, and one of every few is read as JSON, so that an error is never counted as speed. It runs in a process of
its own, does one piece of work, and prints what it saw as JSON:

    python bench/load.py sends --port 8080 --seconds 5
    python bench/load.py stream --port 8080 --chunks 4000
    python bench/load.py follow --port 8080 --readers 99 --stalled 1 --chunks 1000

`follow` and `hold` print `{"ready": …}` when everybody is connected; `hold` then keeps its streams until standard input
ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import count, cycle
from time import perf_counter, time_ns

import uvloop

TEXT = "echo hello"
CHUNK_MARK = b'rtifactUpdate"'
SAMPLE = 64
"""One reply of so many is read as JSON."""


class WrongReply(Exception):
    """A server said something else than it should have."""


# --- what is sent -----------------------------------------------------------------------------------------------------


def _new(prefix: str) -> str:
    return f"{prefix}-@@@@@@@@@@@@"


def body_1_0(method: str, text: str, *, is_waiting: bool = True) -> dict:
    message = {"messageId": _new("message"), "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message}
    if not is_waiting:
        params["configuration"] = {"acceptedOutputModes": ["text/plain"], "returnImmediately": True}
    return {"jsonrpc": "2.0", "id": _new("r"), "method": method, "params": params}


def body_0_3(text: str) -> dict:
    parts = [{"kind": "text", "text": text}]
    message = {"kind": "message", "messageId": _new("message"), "role": "user", "parts": parts}
    return {"jsonrpc": "2.0", "id": _new("r"), "method": "message/send", "params": {"message": message}}


def body_0_1(text: str) -> dict:
    message = {"role": "user", "parts": [{"type": "text", "text": text}]}
    params = {"id": _new("task"), "sessionId": _new("session"), "message": message}
    return {"jsonrpc": "2.0", "id": _new("r"), "method": "tasks/send", "params": params}


def subscribe_body(task_id: str) -> dict:
    return {"jsonrpc": "2.0", "id": _new("r"), "method": "SubscribeToTask", "params": {"id": task_id}}


BODIES: dict[str, Callable[[str], dict]] = {
    "1.0": lambda text: body_1_0("SendMessage", text),
    "0.3": body_0_3,
    "0.1": body_0_1,
}
HEADERS = {"1.0": b"a2a-version: 1.0\r\n", "0.3": b"", "0.1": b""}


def quantiles(values: Iterable[float]) -> dict[str, float]:
    """Half of the values and 99 % of them are at most these, in their own unit."""
    ordered = sorted(values)
    return {f"p{part}": ordered[min(len(ordered) * part // 100, len(ordered) - 1)] for part in (50, 99)}


class Requests:
    """Requests that differ in their ids only: every call gives the next one."""

    _numbers = count(time_ns() // 1000 % 16**12)

    def __init__(self, body: dict, version: str = "1.0", *, accept: str = "application/json") -> None:
        raw = json.dumps(body, separators=(",", ":")).encode()
        head = (
            b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: %s\r\n"
            b"%scontent-length: %d\r\n\r\n"
        ) % (accept.encode(), HEADERS[version], len(raw))
        self._pieces = (head + raw).split(b"@" * 12)

    def next(self) -> bytes:
        return (b"%012x" % next(self._numbers)).join(self._pieces)


# --- sends ------------------------------------------------------------------------------------------------------------


class Sends:
    """Messages sent over several connections, each of which waits for its answer before the next."""

    def __init__(self, requests: Requests, states: tuple[bytes, ...], *, total: int = 0, until: float = 0) -> None:
        self.requests = requests
        self.states = states
        self.left = total
        self.until = until
        self.is_timed = not total
        self.replies = 0
        self.begun = self.ended = perf_counter()
        self.waits: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self._busy = 0

    def next(self) -> bytes | None:
        """The next request, or None when there has been enough."""
        if self.is_timed:
            return self.requests.next() if perf_counter() < self.until else None
        self.left -= 1
        return self.requests.next() if self.left >= 0 else None

    def begin(self) -> None:
        self._busy += 1

    def end(self) -> None:
        self._busy -= 1
        if not self._busy and not self.done.done():
            self.done.set_result(None)

    def fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(WrongReply(reason))

    def reply(self, head: bytes, body: bytes, wait: float) -> None:
        if not head.startswith(b"HTTP/1.1 200") or not any(state in body for state in self.states):
            self.fail((head + b"\n\n" + body[:2000]).decode(errors="replace"))
        if self.replies % SAMPLE == 0 and "result" not in json.loads(body):
            self.fail(body[:2000].decode(errors="replace"))
        self.replies += 1
        self.waits.append(wait)
        self.ended = perf_counter()

    def figures(self) -> dict:
        seconds, waits = self.ended - self.begun, quantiles(wait * 1e3 for wait in self.waits)
        return {"replies": self.replies, "seconds": seconds, "rate": self.replies / seconds, **waits}


class Sender(asyncio.Protocol):
    """One connection that sends."""

    def __init__(self, load: Sends) -> None:
        self._load = load
        self._buffer = b""

    def connection_made(self, transport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._load.fail(f"connection lost: {error}")

    def work(self, load: Sends) -> None:
        self._load = load
        load.begin()
        self._send()

    def _send(self) -> None:
        request = self._load.next()
        if request is None:
            self._load.end()
            return
        self._sent = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        self._buffer = data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = data[:end].lower().replace(b"http/1.1", b"HTTP/1.1")
        at = head.find(b"content-length:")
        if at >= 0:
            line = head.find(b"\r\n", at)
            if len(data) < end + 4 + int(head[at + 15 : line if line > 0 else None]):
                return
            body = data[end + 4 :]
        elif data.endswith(b"0\r\n\r\n"):
            body = unchunked(data[end + 4 :])
        else:
            return
        self._buffer = b""
        self._load.reply(head, body, perf_counter() - self._sent)
        self._send()


async def connect(ports: Sequence[int], load: Sends, connections: int) -> list[Sender]:
    """Connections that are spread evenly over the ports."""
    loop, turns = asyncio.get_running_loop(), cycle(ports)
    made = [await loop.create_connection(lambda: Sender(load), "127.0.0.1", next(turns)) for _ in range(connections)]
    return [sender for _, sender in made]


async def send_for(senders: list[Sender], load: Sends) -> dict:
    for sender in senders:
        sender.work(load)
    await load.done
    return load.figures()


async def sends(options: argparse.Namespace) -> dict:
    """So many sends, or as many as there is time for after a warm-up."""
    requests = Requests(BODIES[options.version](options.text), options.version)
    states = tuple(state.encode() for state in options.states)
    senders = await connect(options.port, Sends(requests, states), options.connections)
    if options.total:
        return await send_for(senders, Sends(requests, states, total=options.total))
    before = await send_for(senders, Sends(requests, states, until=perf_counter() + options.warmup))
    measured = await send_for(senders, Sends(requests, states, until=perf_counter() + options.seconds))
    return {**measured, "with_warmup": before["replies"] + measured["replies"]}


# --- streams ----------------------------------------------------------------------------------------------------------


def unchunked(raw: bytes) -> bytes:
    """What a chunked body holds."""
    pieces, at = [], 0
    while at < len(raw):
        end = raw.index(b"\r\n", at)
        size = int(raw[at:end], 16)
        pieces.append(raw[end + 2 : end + 2 + size])
        at = end + 4 + size
    return b"".join(pieces)


class Reader(asyncio.Protocol):
    """One connection that reads a stream of events: it counts chunks and looks for the end."""

    def __init__(self, *, keeps: bool = False, stalls: bool = False) -> None:
        self.chunks = 0
        self.bytes = 0
        self.kept: list[bytes] | None = [] if keeps else None
        self._stalls = stalls
        self._tail = b""
        self.is_finished = False
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[bytes] = loop.create_future()
        self.ended: asyncio.Future[float] = loop.create_future()

    def connection_made(self, transport) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.begun, self.ended):
            if not future.done():
                future.set_exception(WrongReply(f"the stream broke off after {self.chunks} chunks: {self._tail!r}"))
            future.exception()  # a reader that waits for it sees it; there may be none

    def data_received(self, data: bytes) -> None:
        if not self.bytes and not (data.startswith(b"HTTP/1.1 200") and b"text/event-stream" in data):
            self.begun.set_exception(WrongReply(data.decode(errors="replace")))
            self.transport.abort()
            return
        self.bytes += len(data)
        if self.kept is not None:
            self.kept.append(data)
        # What was cut in two is counted once: the tail counted again is shorter than what is looked for.
        self.chunks += (self._tail[-len(CHUNK_MARK) + 1 :] + data).count(CHUNK_MARK)
        text = self._tail + data
        self._tail = text[-64:]
        if not self.begun.done() and b"data:" in text:
            self.begun.set_result(text)
            if self._stalls:
                self.transport.pause_reading()
        if not self.is_finished and b"TASK_STATE_COMPLETED" in text:
            self.is_finished = True
        if text.endswith(b"0\r\n\r\n") and not self.ended.done():
            self._end()

    def _end(self) -> None:
        if self.is_finished:
            self.ended.set_result(perf_counter())
        else:
            self.ended.set_exception(WrongReply(f"the stream ended unfinished after {self.chunks} chunks"))

    def events(self) -> list[dict]:
        """Everything that came, read with care."""
        _, _, raw = b"".join(self.kept or []).partition(b"\r\n\r\n")
        frames = unchunked(raw).replace(b"\r\n", b"\n").split(b"\n\n")
        lines = (line for frame in frames for line in frame.split(b"\n") if line.startswith(b"data:"))
        return [json.loads(line[5:]) for line in lines]


async def open_stream(port: int, request: bytes, *, keeps: bool = False, stalls: bool = False) -> Reader:
    """A stream that has been asked for."""
    line = socket.socket()
    if stalls:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(line, ("127.0.0.1", port))
    _, reader = await loop.create_connection(lambda: Reader(keeps=keeps, stalls=stalls), sock=line)
    reader.transport.write(request)
    return reader


def stream_requests(text: str) -> Requests:
    return Requests(body_1_0("SendStreamingMessage", text), accept="text/event-stream")


async def stream(options: argparse.Namespace) -> dict:
    """One stream after the other, each from its request to its last event; with several ports, one at each at once."""
    requests = stream_requests(f"{options.manner} {options.chunks}")
    taken = [
        max(await asyncio.gather(*(stream_once(options, port, requests.next()) for port in options.port)))
        for _ in range(options.times)
    ]
    rate = options.chunks * options.times * len(options.port) / sum(taken)
    return {"seconds": sum(taken), "rate": rate, "best": min(taken)}


async def stream_once(options: argparse.Namespace, port: int, request: bytes) -> float:
    begun = perf_counter()
    reader = await open_stream(port, request, keeps=options.checks)
    first = await reader.begun
    seconds = await reader.ended - begun
    reader.transport.close()
    if reader.chunks - options.chunks not in (0, 1):  # an empty one may follow that says that it is the last
        raise WrongReply(f"{reader.chunks} chunks instead of {options.chunks}, after {first[:300]!r}")
    if options.checks:
        check_events(reader.events(), options.chunks)
    await asyncio.sleep(0.1)  # what the server does after a stream must not burden the next one
    return seconds


def check_events(events: list[dict], chunks: int) -> None:
    """That a stream said what it should, word for word."""
    results = [event["result"] for event in events]
    parts = [part for r in results if "artifactUpdate" in r for part in r["artifactUpdate"]["artifact"]["parts"]]
    texts = [part["text"] for part in parts if part["text"]]
    states = [r["statusUpdate"]["status"]["state"] for r in results if "statusUpdate" in r]
    if texts != ["twenty bytes or so, "] * chunks or states[-1] != "TASK_STATE_COMPLETED":
        raise WrongReply(f"{len(texts)} chunks and the states {states}")


async def begin_task(port: int, text: str) -> str:
    """The id of a task that is at work."""
    request = Requests(body_1_0("SendMessage", text, is_waiting=False)).next()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    reply = json.loads(await reader.readexactly(length))
    writer.close()
    if "result" not in reply:
        raise WrongReply(str(reply))
    return reply["result"]["task"]["id"]


def say(value: dict) -> None:
    print(json.dumps(value), flush=True)


async def follow(options: argparse.Namespace) -> dict:
    """Many followers of one task, some of whom stop reading once they are there."""
    (port,) = options.port
    task_id = await begin_task(port, f"gated {options.chunks}")
    requests = Requests(subscribe_body(task_id), accept="text/event-stream")
    readers = [await open_stream(port, requests.next()) for _ in range(options.readers)]
    sleepers = [await open_stream(port, requests.next(), stalls=True) for _ in range(options.stalled)]
    for reader in readers + sleepers:
        await reader.begun
    say({"ready": len(readers) + len(sleepers)})
    begun = perf_counter()
    await asyncio.gather(*(reader.ended for reader in readers))
    return {"seconds": perf_counter() - begun, "chunks": sum(reader.chunks for reader in readers)}


async def hold(options: argparse.Namespace) -> dict:
    """Streams on which nothing happens, until standard input ends."""
    (port,) = options.port
    if options.apart:
        requests = stream_requests("gated 1")
    else:
        task_id = await begin_task(port, "gated 1")
        requests = Requests(subscribe_body(task_id), accept="text/event-stream")
    readers = [await open_stream(port, requests.next()) for _ in range(options.readers)]
    for reader in readers:
        await reader.begun
    say({"ready": len(readers)})
    await asyncio.to_thread(sys.stdin.read)
    return {"readers": len(readers), "alive": sum(not reader.ended.done() for reader in readers)}


# --- the command ------------------------------------------------------------------------------------------------------


def work_parsers(about: str) -> tuple[argparse.ArgumentParser, Callable[..., argparse.ArgumentParser]]:
    """A parser, and a function that adds the parser of a kind of work to it."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    kinds = parser.add_subparsers(required=True)

    def kind(work: Callable[..., object]) -> argparse.ArgumentParser:
        added = kinds.add_parser(work.__name__, help=work.__doc__)
        added.set_defaults(work=work)
        added.add_argument("--port", type=int, nargs="+", required=True)
        return added

    return parser, kind


def run_work(options: argparse.Namespace) -> None:
    """Do the work that was chosen, and print its figures."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            say(runner.run(options.work(options)))
        except WrongReply as error:
            sys.exit(f"wrong reply: {error}")


def parse() -> argparse.Namespace:
    parser, kind = work_parsers(__doc__)
    for_sends = kind(sends)
    for_sends.add_argument("--version", choices=BODIES, default="1.0")
    for_sends.add_argument("--text", default=TEXT)
    for_sends.add_argument("--states", nargs="+", default=["TASK_STATE_COMPLETED"], help="any of these must be there")
    for_sends.add_argument("--connections", type=int, default=16)
    for_sends.add_argument("--warmup", type=float, default=1)
    for_sends.add_argument("--seconds", type=float, default=3)
    for_sends.add_argument("--total", type=int, default=0, help="so many, instead of for some time")
    for_stream = kind(stream)
    for_stream.add_argument("--chunks", type=int, required=True)
    for_stream.add_argument("--times", type=int, default=1)
    for_stream.add_argument("--manner", choices=("talk", "mumble"), default="talk")
    for_stream.add_argument("--checks", action="store_true", help="read every event")
    for_follow = kind(follow)
    for_follow.add_argument("--chunks", type=int, required=True)
    for_follow.add_argument("--readers", type=int, required=True)
    for_follow.add_argument("--stalled", type=int, default=0)
    for_hold = kind(hold)
    for_hold.add_argument("--readers", type=int, required=True)
    for_hold.add_argument("--apart", action="store_true", help="a task for each, instead of one that all follow")
    return parser.parse_args()


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run_work(parse())


if __name__ == "__main__":
    main()
