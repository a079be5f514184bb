"""An author's code that type checkers must accept, with the types that they must see. It is checked and never run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict, assert_never, assert_type

from parley import (
    Agent,
    Authorized,
    Client,
    Content,
    DelegateFailedError,
    DelegateResult,
    File,
    HandlerResult,
    JsonValue,
    ReceivedFile,
    ReceivedMessage,
    StepTimeoutError,
    Turn,
    ask,
)
from parley.client import Reply, Task, TaskState, Update
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Part
from parley.protocol.tasks import Artifact
from parley.server.app import App
from parley.testing.client import AgentClient, running
from parley.testing.fake_model import FakeModel

agent = Agent("Typed", description="Is typed.")


@dataclass
class Order:
    id: str
    total: float


class Row(TypedDict):
    name: str


async def fetch(order_id: str, *, retries: int = 0) -> Order:
    return Order(order_id, 1.0)


def look_up(count: int) -> list[Row]:
    return [{"name": "a"}] * count


def fetch_awaitably(order_id: str) -> Awaitable[Order]:
    return fetch(order_id)


class Service:
    def __call__(self, name: str) -> bytes:
        return name.encode()

    async def method(self) -> int | None:
        return None


# --- handlers of all four kinds keep their signatures -----------------------------------------------------------------


@agent.on_message
async def returns(turn: Turn) -> str:
    return turn.text


@agent.skill
async def yields(turn: Turn) -> AsyncIterator[str | Order]:
    yield "a"
    yield Order("1", 2.0)


@agent.skill(tags=["plain"], examples=["go"])
def plain(turn: Turn) -> tuple[str, dict[str, int], File]:
    return "a", {"b": 1}, File(b"c", "c.txt")


@agent.skill(id="plain-stream", scopes=["read"], public=False)
def plain_stream(turn: Turn) -> Iterator[Row]:
    yield {"name": turn.wait(turn.ask("Who?")).text}


@agent.skill
def generates(turn: Turn) -> Generator[list[int], None, None]:
    yield [1]


@agent.skill
async def answers(message: ReceivedMessage) -> Message | Artifact | Path | None:
    return None


def words(prompt: str) -> Iterator[str]:
    yield prompt


@agent.skill
async def streams(turn: Turn) -> AsyncIterator[HandlerResult]:
    yield turn.stream("answer", FakeModel(["a"]).stream, turn.text)
    await turn.artifact("copy.txt").write("Copy: ", turn.stream("copy", words, turn.text))
    async for piece in turn.stream("again", words, turn.text).resume_with(words):
        assert_type(piece, str)
        yield piece


@agent.skill
def returns_a_stream(turn: Turn) -> HandlerResult:
    return turn.stream("answer", words, turn.text)


@agent.skill
async def delegates(turn: Turn) -> AsyncIterator[HandlerResult]:
    yield turn.delegate("https://weather.example", turn.text)
    result = await turn.delegate("flights", "Rome", {"seats": 2}, name="flight", into="ticket")
    assert_type(result, DelegateResult)
    both = await asyncio.gather(turn.delegate("a", "Rome"), turn.delegate("b", "Rome"))
    assert_type(both, tuple[DelegateResult, DelegateResult])
    try:
        yield (await turn.delegate("c")).text
    except DelegateFailedError as error:
        yield str(error)


@agent.skill
async def draws(turn: Turn) -> "Drawing":
    return Drawing()


class Drawing:
    def _repr_png_(self) -> bytes:
        return b""


async def calls_handlers(turn: Turn) -> None:
    assert_type(await returns(turn=turn), str)
    assert_type(plain(turn=turn), tuple[str, dict[str, int], File])
    async for piece in yields(turn=turn):
        assert_type(piece, str | Order)


# --- what comes in ----------------------------------------------------------------------------------------------------


def reads(turn: Turn) -> None:
    assert_type(turn.text, str)
    assert_type(turn.data, JsonValue)
    assert_type(turn.parts, tuple[Part, ...])
    assert_type(turn.files, tuple[ReceivedFile, ...])
    assert_type(turn.metadata, JsonObject)
    assert_type(turn.history, tuple[Message, ...])
    assert_type(turn.message, Message)
    assert_type(turn.task_id, str)
    assert_type(turn.idempotency_key, str)
    assert_type(turn.cancelled, bool)
    assert_type(turn.accepts("image/png"), bool)
    assert_type(turn.caller.name, str)
    assert_type(turn.caller.claims, JsonObject)
    assert_type(turn.context.id, str)


# --- what a handler does ----------------------------------------------------------------------------------------------


def describe(rows: list[Row]) -> Content:
    return rows


async def speaks(turn: Turn) -> None:
    await turn.status(describe([]))
    await turn.status("Working…", {"done": 1}, metadata={"percent": 50})
    report = turn.artifact("report.md", description="All of it")
    await report.write("text", [1, 2], File(Path("a.pdf")), Order("1", 2.0), last=True)
    assert_type(await turn.ask("Which?"), ReceivedMessage)
    assert_type(await turn.ask("Which?", form=Order), Order)
    assert_type(await turn.ask("Which?", form={"type": "object"}), JsonObject)
    assert_type(await turn.require_auth("Sign in."), Authorized)
    assert_type(await turn.context.get("visits", 0), JsonValue)
    await turn.context.set("visits", 1)
    assert_type(await turn.context.tasks(), tuple[Task, ...])


async def waits_and_draws(turn: Turn) -> None:
    await turn.sleep("3 days")
    await turn.sleep(turn.now() + timedelta(hours=1), name="hour")
    assert_type(turn.now(), datetime)
    assert_type(turn.random(), float)
    assert_type(turn.uuid(), str)


async def refuses(turn: Turn, order: Order | None) -> Order:
    if order is None:
        await turn.reject("There is no such order.")
    return order  # not None: nothing after `reject` runs


async def gives_up(turn: Turn) -> int:
    if turn.text:
        await turn.fail("The vault is empty.")
    if turn.data is None:
        await turn.reply("There is nothing to pay.")
    await turn.complete("Done.", {"paid": 5})


async def takes_steps(turn: Turn) -> None:
    service = Service()
    assert_type(await turn.step("async", fetch, "7", retries=2), Order)
    assert_type(await turn.step("plain", look_up, 3), list[Row])
    assert_type(await turn.step("awaitable", fetch_awaitably, "7"), Order)
    assert_type(await turn.step("callable", service, "a"), bytes)
    assert_type(await turn.step("method", service.method), int | None)
    assert_type(await turn.step("partial", partial(look_up, 3)), list[Row])
    assert_type(await turn.step("lambda", lambda: "a"), str)
    assert_type(await turn.step("class", Order, "1", 2.0), Order)
    assert_type(await turn.step("builtin", str.upper, "a"), str)


async def tries_again(turn: Turn) -> None:
    patient = turn.retrying(
        attempts=5, backoff="1s", timeout=timedelta(seconds=30), deadline=60, on=(OSError, KeyError)
    )
    try:
        assert_type(await patient.step("async", fetch, "7", retries=2), Order)
        assert_type(await turn.retrying(on=ConnectionError).step("plain", look_up, 3), list[Row])
    except StepTimeoutError as error:
        print(error)
    assert_type(turn.key_for("charge"), str)


def waits(turn: Turn) -> None:
    assert_type(turn.wait(turn.step("plain", look_up, 3)), list[Row])
    assert_type(turn.wait(turn.ask("Which?")), ReceivedMessage)


# --- callers ----------------------------------------------------------------------------------------------------------


async def calls(url: str) -> None:
    assert_type(await ask(url, "100 USD in EUR", credentials="secret", app=App(agent)), str)
    async with Client(url, bindings=["JSONRPC"], credentials={"basic": ("ada", "secret")}) as client:
        reply = await client.send("go", {"a": [1]}, File(b"x", "x.bin"), skill="plain")
        assert_type(reply, Reply)
        assert_type(reply.task, Task | None)
        assert_type(reply.data, JsonValue)
        assert_type(reply.state, TaskState)
        assert_type(await reply.answer("EUR"), Reply)
        async for update in client.stream("go"):
            assert_type(update, Update)
        async for task in client.list(state=TaskState.COMPLETED):
            assert_type(task, Task)


async def tests_it() -> None:
    async with running(agent) as client:
        assert_type(client, AgentClient)
        task = await client.send("go", metadata={"skillId": "plain"})
        assert_type(task, Task)
        assert_type(client.text(task), str)
        answer = await client.exchange("go")
        match answer:
            case Task() | Message():
                pass
            case _:
                assert_never(answer)
        async for event in client.stream("go"):
            print(event)
        await client.as_caller(name="bob", scopes=frozenset({"read"})).cancel(task)


app = App(agent, retention=timedelta(days=30))
