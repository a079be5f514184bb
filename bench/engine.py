"""What the engine costs, without HTTP: sends, long streams, replay, stalled readers, parked and sleeping tasks.

A rate is the best of several rounds, because the machine's other work only ever makes things slower. A ratio is of two
figures taken one after the other, and the median of all rounds. `--quick` takes a fraction of the time and is noisier.
README.md beside this file says what each line means. Like the server, it runs on uvloop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import uvloop

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.engine.operations import AgentOperations
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import GetTaskRequest, SendConfiguration, SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Store
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened

STORES = ("memory", "sqlite")
SENDERS = 16
CHUNK = "twenty bytes or so, "

_numbers = count()


def agent_of(handler: Callable[..., Any]) -> Agent:
    agent = Agent("Bench")
    agent.on_message(handler)
    return agent


@asynccontextmanager
async def agent_on(kind: str, handler: Callable[..., Any]) -> AsyncIterator[AgentOperations]:
    """An agent with an engine and a store of its own, which are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        store: Store = SqliteStore(Path(folder, "tasks.db")) if kind == "sqlite" else MemoryStore()
        async with opened(store), Engine(store, agent_of(handler)) as engine:
            yield engine.agent("bench")


def request(text: str = "go", *, is_waiting: bool = True) -> SendMessageRequest:
    message = Message(f"message-{next(_numbers)}", Role.USER, (TextPart(text),))
    return SendMessageRequest(message, SendConfiguration(return_immediately=not is_waiting))


async def send_many(agent: AgentOperations, total: int, *, is_waiting: bool = True) -> None:
    """So many messages, from sixteen senders of whom each waits for its answer, or for the task to be stored."""
    left = iter(range(total))

    async def sender() -> None:
        for _ in left:
            await agent.send_message(request(is_waiting=is_waiting))

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


def typical(times: list[float], others: list[float]) -> float:
    """How much longer the one takes than the other: of all rounds, the one in the middle."""
    return median(time / other for time, other in zip(times, others, strict=True))


async def best(rounds: int, measure: Callable[[], Awaitable[float]]) -> float:
    return min([await measure() for _ in range(rounds)])


# --- what is measured -------------------------------------------------------------------------------------------------


async def sends(store: str, *, rounds: int, total: int) -> float:
    """Sends per second: a task made, run, completed and kept for each."""

    async def echo(turn: Turn) -> str:
        return turn.text

    async with agent_on(store, echo) as agent:
        await send_many(agent, total // 10)

        async def once() -> float:
            begun = perf_counter()
            await send_many(agent, total)
            return perf_counter() - begun

        return total / await best(rounds, once)


async def talk(turn: Turn) -> AsyncIterator[str]:
    for _ in range(int(turn.text)):
        yield CHUNK


async def talk_with_pauses(turn: Turn) -> AsyncIterator[str]:
    for _ in range(int(turn.text)):
        yield CHUNK
        await asyncio.sleep(0)  # as a model would, it lets others run between two tokens


async def stream(agent: AgentOperations, chunks: int) -> tuple[float, list[float], str]:
    """How long one stream takes to its last event, when each quarter of it was over, and its task."""
    begun, times, task_id = perf_counter(), list[float](), ""
    events = 0
    async for batch in agent.send_streaming_message(request(str(chunks))):
        for _, event in batch:
            if isinstance(event, Task):
                task_id = event.id
            events += 1
            if events % (chunks // 4) == 0:
                times.append(perf_counter() - begun)
    assert events >= chunks
    return perf_counter() - begun, times, task_id


async def quiet() -> None:
    """Let the engine finish what it does after a stream, so that the next one does not bear it."""
    gc.collect()
    await asyncio.sleep(0.1)


async def longest_hold_up(store: str, *, rounds: int, chunks: int) -> float:
    """For how many milliseconds no other coroutine runs right after a long stream has ended."""

    async def once() -> float:
        await quiet()
        await stream(agent, chunks)
        longest, before = 0.0, perf_counter()
        end = before + 0.3
        while before < end:
            await asyncio.sleep(0)
            now = perf_counter()
            longest, before = max(longest, now - before), now
        return longest * 1e3

    async with agent_on(store, talk) as agent:
        return await best(rounds, once)


async def streams(store: str, *, handler: Callable[..., Any], rounds: int, sizes: tuple[int, ...]) -> dict[str, float]:
    """Chunks per second for each size, and how the cost of a chunk grows."""
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    quarters: list[float] = []
    async with agent_on(store, handler) as agent:
        await stream(agent, sizes[0])
        for _ in range(rounds):
            for size in sizes:
                # As many short streams as make up a long one: a shorter time would meet a good moment more often.
                took = 0.0
                for _ in range(sizes[-1] // size):
                    await quiet()
                    seconds_of_one, times, _ = await stream(agent, size)
                    took += seconds_of_one
                seconds[size].append(took)
            quarters.append((times[3] - times[2]) / times[0])
    rates = {f"{size:,} chunks": sizes[-1] / min(seconds[size]) for size in sizes}
    return {**rates, "growth": typical(seconds[sizes[-1]], seconds[sizes[0]]), "last quarter": median(quarters)}


async def tokens(chunks: int) -> AsyncIterator[str]:
    """A model: it lets others run between two tokens."""
    for _ in range(chunks):
        yield CHUNK
        await asyncio.sleep(0)


async def say_tokens(turn: Turn) -> AsyncIterator[str]:
    async for piece in tokens(int(turn.text)):
        yield piece


async def pass_tokens_on(turn: Turn) -> AsyncIterator[Any]:
    yield turn.stream("answer", tokens, int(turn.text))


async def take_tokens(turn: Turn) -> AsyncIterator[str]:
    async for piece in turn.stream("answer", tokens, int(turn.text)):
        yield piece


async def streamed_steps(store: str, *, rounds: int, chunks: int) -> dict[str, float]:
    """What a chunk of a stream that is a step costs, against one of a plain stream, in both uses."""
    handlers = {"plain": say_tokens, "passes through": pass_tokens_on, "is iterated over": take_tokens}
    seconds: dict[str, list[float]] = {name: [] for name in handlers}
    async with AsyncExitStack() as stack:
        agents = {name: await stack.enter_async_context(agent_on(store, handlers[name])) for name in handlers}
        for agent in agents.values():
            await stream(agent, chunks)
        for _ in range(rounds):
            for name, agent in agents.items():
                await quiet()
                seconds[name].append((await stream(agent, chunks))[0])
    return {name: typical(seconds[name], seconds["plain"]) for name in handlers if name != "plain"}


async def replay(store: str, *, rounds: int, chunks: int) -> float:
    """Events per second of a finished task, read again from its beginning."""
    async with agent_on(store, talk) as agent:
        _, _, task_id = await stream(agent, chunks)

        async def once() -> float:
            begun, events = perf_counter(), 0
            async for batch in agent.subscribe_to_task(SubscribeToTaskRequest(task_id), after=0):
                events += len(batch)
            assert events > chunks
            return (perf_counter() - begun) / events

        return 1 / await best(rounds, once)


async def talking_time(store: str, chunks: int, *, reading: int, stalled: int) -> float:
    """How long an agent takes to say its chunks, while some read along and some never read."""
    may_talk, took = asyncio.Event(), 0.0

    async def handler(turn: Turn) -> AsyncIterator[str]:
        nonlocal took
        await may_talk.wait()
        begun = perf_counter()
        async for chunk in talk_with_pauses(turn):
            yield chunk
        took = perf_counter() - begun

    async with agent_on(store, handler) as agent:
        task = await agent.send_message(request(str(chunks), is_waiting=False))
        assert isinstance(task, Task)
        joined = asyncio.Semaphore(0)

        async def read() -> None:
            async for _ in agent.subscribe_to_task(SubscribeToTaskRequest(task.id)):
                joined.release()

        readers = [asyncio.create_task(read()) for _ in range(reading)]
        sleepers = [agent.subscribe_to_task(SubscribeToTaskRequest(task.id)) for _ in range(stalled)]
        for sleeper in sleepers:
            await anext(sleeper)
        for _ in readers:
            await joined.acquire()
        may_talk.set()
        await asyncio.gather(*readers)
        for sleeper in sleepers:
            await sleeper.aclose()
    return took


async def stalled_reader(store: str, *, rounds: int, chunks: int) -> dict[str, float]:
    """How much an agent slows down when one of a hundred subscribers does not read."""
    times: dict[tuple[int, int], list[float]] = {(100, 0): [], (99, 1): [], (99, 0): []}
    for _ in range(rounds):
        for (reading, stalled), taken in times.items():
            taken.append(await talking_time(store, chunks, reading=reading, stalled=stalled))
    return {
        "chunks": chunks / min(times[99, 1]),
        "against 100": typical(times[99, 1], times[100, 0]),
        "against 99": typical(times[99, 1], times[99, 0]),
    }


async def ask(turn: Turn) -> None:
    await turn.ask("Which?")


async def sleep(turn: Turn) -> None:
    await turn.sleep("3 days")


IDLE: dict[str, tuple[Callable[..., Any], TaskState]] = {
    "parked": (ask, TaskState.INPUT_REQUIRED),
    "sleeping": (sleep, TaskState.WORKING),
}
"""Handlers after which a task waits without a run, and the state of the task then."""


async def park(store: str, manner: str, *, total: int) -> dict[str, float]:
    """Memory of parked or sleeping tasks in bytes each, and asyncio tasks: before, and with all of them."""
    handler, state = IDLE[manner]
    async with agent_on(store, handler) as agent:

        async def send(number: int, most_tasks: int | None = None) -> None:
            await send_many(agent, number, is_waiting=state is not TaskState.WORKING)
            for _ in range(500):  # until the last of them have fallen asleep
                if most_tasks is not None and len(asyncio.all_tasks()) <= most_tasks:
                    break
                await asyncio.sleep(0.01)

        # Caches, pools and the allocator take what they take whatever comes.
        await send(1_000, len(asyncio.all_tasks()) + 2)  # the timers of runs and of sleeps
        parked = await agent.send_message(request(is_waiting=False))
        assert isinstance(parked, Task)
        gc.collect()
        memory, tasks = resident_bytes(), len(asyncio.all_tasks())
        await send(total, tasks)
        parked = await agent.get_task(GetTaskRequest(parked.id))
        assert parked.status.state is state
        gc.collect()
        return {
            "bytes": (resident_bytes() - memory) / total,
            "asyncio tasks before": tasks,
            "asyncio tasks": len(asyncio.all_tasks()),
        }


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    shown = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True, text=True)
    return int(shown.stdout) * 1024


def park_in_fresh_process(store: str, manner: str, *, total: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--park", store, manner, str(total)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def syncs_per_second(total: int = 200) -> float:
    """How often this disk makes something durable: the anchor for everything durable."""
    with tempfile.TemporaryFile(prefix="parley-bench-") as file:
        begun = perf_counter()
        for _ in range(total):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return total / (perf_counter() - begun)


# --- the table --------------------------------------------------------------------------------------------------------


def show(work: str, figures: dict[str, float], form: str, goal: str = "") -> None:
    columns = "".join(f"{format(figures[store], form):>14}" for store in STORES)
    print(f"{work:<58}{columns}   {goal}".rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--park", nargs=3, metavar=("STORE", "MANNER", "TASKS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.park:
        store, manner, total = options.park
        print(json.dumps(uvloop.run(park(store, manner, total=int(total)))))
        return
    rounds = 3 if options.quick else 7
    scale = 10 if options.quick else 1

    def on_both(measure: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
        return {store: uvloop.run(measure(store, **arguments)) for store in STORES}

    print(f"{'This disk syncs':<58}{'':>14}{syncs_per_second():>14,.0f}   a second")
    print(f"{'':<58}{'memory':>14}{'sqlite':>14}   goal")
    sent = on_both(sends, rounds=rounds, total=8_000 // scale)
    show(f"sends a second, {SENDERS} senders", sent, ",.0f")
    for handler, manner in ((talk, "at once"), (talk_with_pauses, "one by one")):
        streamed = on_both(streams, handler=handler, rounds=rounds, sizes=(1_000, 4_000, 16_000))
        for figure in ("1,000 chunks", "4,000 chunks", "16,000 chunks"):
            show(f"chunks a second, {figure} {manner}", {s: streamed[s][figure] for s in STORES}, ",.0f")
        growth, within = ({s: streamed[s][name] for s in STORES} for name in ("growth", "last quarter"))
        show("  cost of a chunk, 16,000 against 1,000", growth, ".2f", "1.20 at most")
        show("  cost of a chunk, last quarter of 16,000 against first", within, ".2f")
    held = on_both(longest_hold_up, rounds=rounds, chunks=16_000)
    show("milliseconds that others wait after a stream of 16,000", held, ",.1f")
    stepped = on_both(streamed_steps, rounds=rounds, chunks=16_000)
    for use in ("passes through", "is iterated over"):
        figures = {store: stepped[store][use] for store in STORES}
        show(f"cost of a chunk of a step that {use}, against plain", figures, ".2f", "1.20 at most")
    replayed = on_both(replay, rounds=rounds, chunks=16_000)
    show("events a second, replay of a finished task of 16,000", replayed, ",.0f")
    slowed = on_both(stalled_reader, rounds=rounds, chunks=2_000 // (4 if options.quick else 1))
    show("chunks a second, 100 subscribers, one stalled", {s: slowed[s]["chunks"] for s in STORES}, ",.0f")
    show("  agent's time, against 100 that read", {s: slowed[s]["against 100"] for s in STORES}, ".2f", "1.10 at most")
    show("  agent's time, against 99 that read", {s: slowed[s]["against 99"] for s in STORES}, ".2f", "1.10 at most")
    tasks = 10_000 // scale
    for manner in IDLE:
        idle = {store: park_in_fresh_process(store, manner, total=tasks) for store in STORES}
        used = {s: idle[s]["bytes"] for s in STORES}
        show(f"bytes for each of {tasks:,} {manner} tasks", used, ",.0f", "2,048 (durable)")
        more = {s: idle[s]["asyncio tasks"] - idle[s]["asyncio tasks before"] for s in STORES}
        show("  asyncio tasks more than without them", more, ".0f", "0")


if __name__ == "__main__":
    main()
