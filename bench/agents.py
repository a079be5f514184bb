"""What many agents cost in one process: starting them, keeping them, and sending to one of them.

Each figure is taken in a fresh process. A send goes through the app, without a socket, and through the engine alone; of
many agents it goes to one after the other. Ratios are of rounds in turns, and the median of all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from statistics import median
from time import perf_counter, process_time

import uvloop

from engine import resident_bytes, typical
from parley import Agent, Turn
from parley.engine.caller import ANONYMOUS_CALLER
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.server.app import App

MANY = 10_000
_numbers = count()

Send = Callable[[str], Awaitable[None]]


def agent_of(number: int) -> Agent:
    agent = Agent("Echo", id=f"agent-{number}", description="Says what it hears.")

    @agent.skill(tags=["echo"])
    async def echo(turn: Turn) -> str:
        return turn.text

    return agent


def body_of(number: int) -> bytes:
    message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}).encode()


def over_http(app: App) -> Send:
    """Sends to an agent of an app, as its server would hand them over."""

    async def send(agent_id: str) -> None:
        body, status, is_read = body_of(next(_numbers)), 0, False

        async def receive() -> dict[str, object]:
            nonlocal is_read
            if is_read:
                await asyncio.Event().wait()  # the caller stays
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def reply(event: dict[str, object]) -> None:
            nonlocal status
            status = event.get("status", status)  # pyright: ignore[reportAssignmentType]

        headers = [(b"host", b"agents.example"), (b"content-type", b"application/json")]
        path = f"/agents/{agent_id}"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "root_path": ""}
        scope |= {"query_string": b"", "headers": headers, "scheme": "http", "client": ("127.0.0.1", 1), "server": None}
        await app(scope, receive, reply)  # pyright: ignore[reportArgumentType]
        assert status == 200, status

    return send


def over_engine(app: App) -> Send:
    """Sends to an agent of an app's engine."""

    async def send(agent_id: str) -> None:
        message = Message(f"m-{next(_numbers)}", Role.USER, (TextPart("hi"),))
        await app.engine.agent(agent_id).send_message(SendMessageRequest(message), ANONYMOUS_CALLER)

    return send


async def time_of(send: Send, agents: int, total: int) -> float:
    """Processor seconds of so many sends from sixteen senders, to one agent after the other."""
    left = iter(range(total))

    async def sender() -> None:
        for number in left:
            await send(f"agent-{number % agents}")

    begun = process_time()
    await asyncio.gather(*(sender() for _ in range(16)))
    return process_time() - begun


async def compare(rounds: int, total: int) -> dict[str, float]:
    """How much longer a send takes with many agents than with one."""
    ratios: dict[str, float] = {}
    one, many = App(agent_of(0), many=True), App(*(agent_of(number) for number in range(MANY)))
    async with one.running(), many.running():
        for name, sending in (("app", over_http), ("engine", over_engine)):
            with_one, with_many = sending(one), sending(many)
            await time_of(with_many, MANY, MANY)  # each agent has had a message
            await time_of(with_one, 1, total)
            times: list[float] = []
            others: list[float] = []
            for _ in range(rounds):
                gc.collect()
                times.append(await time_of(with_many, MANY, total))
                gc.collect()
                others.append(await time_of(with_one, 1, total))
            ratios[name] = typical(times, others)
            ratios[f"{name} microseconds"] = median(times) / total * 1e6
    return ratios


async def grow() -> dict[str, float]:
    """How long many agents take to start, and how many bytes each takes: before and after it is first called."""
    warm = App(agent_of(0), many=True)
    async with warm.running():
        await time_of(over_http(warm), 1, 100)
    gc.collect()
    before = resident_bytes()
    agents = [agent_of(number) for number in range(MANY)]
    gc.collect()
    alone, begun = resident_bytes(), perf_counter()
    app = App(*agents)
    async with app.running():
        started = perf_counter() - begun
        gc.collect()
        idle = resident_bytes()
        for agent in app.agents:
            app.table.site(agent.id)
        gc.collect()
        called = resident_bytes()
    return {
        "seconds": started,
        "the author's agent": (alone - before) / MANY,
        "added": (idle - alone) / MANY,
        "called": (called - idle) / MANY,
    }


def in_fresh_process(part: str, *words: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, *words], stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--part", choices=["compare", "grow"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds, total = (3, 2_000) if options.quick else (7, 10_000)
    if options.part:
        print(json.dumps(uvloop.run(compare(rounds, total) if options.part == "compare" else grow())))
        return
    words = ["--quick"] if options.quick else []
    grown, sent = in_fresh_process("grow"), in_fresh_process("compare", *words)
    each = grown["the author's agent"] + grown["added"] + grown["called"]
    print(f"{f'{MANY:,} agents, seconds until they are served':<60}{grown['seconds']:>10.2f}   2 at most")
    print(f"{'bytes for each, served and called':<60}{each:>10,.0f}   10,240 at most")
    for name in ("the author's agent", "added", "called"):
        print(f"{f'  of these: {name}':<60}{grown[name]:>10,.0f}")
    for name in ("app", "engine"):
        print(f"{f'time of a send through the {name}, against one agent':<60}{sent[name]:>10.2f}   1.10 at most")
        print(f"{'  processor microseconds':<60}{sent[f'{name} microseconds']:>10.0f}")


if __name__ == "__main__":
    main()
