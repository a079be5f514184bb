"""What observers of conversations, such as the console's wire, are shown of answers to `turn.require_auth`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Client, Turn
from parley.engine.operations import AgentOperations
from parley.engine.reading.views import Views
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, UnavailableError
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.masking import MASK
from parley.protocol.requests import Request, Result, SendMessageRequest
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.limits import ServerLimits
from parley.server.security.throttle import RateLimits
from parley.server.telemetry.call import Call
from parley.stores.interface import TaskKey
from parley.stores.sqlite.store import SqliteStore
from tests.server.serving import send
from tests.server.test_in_task_authorization import SECRET, served

pytestmark = pytest.mark.anyio


class Observer:
    """Notes what it is shown of messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.failures: list[str] = []

    def requested(self, call: Call, request: Request) -> None:
        if isinstance(request, SendMessageRequest):
            self.messages.append(str(request.message))

    def answered(self, call: Call, result: Result) -> None: ...

    def streamed(self, call: Call, event: StreamEvent) -> None: ...

    def failed(self, call: Call, error: BaseException) -> None:
        self.failures.append(type(error).__name__)

    def refused(self, binding: Binding, error: A2AError) -> None: ...


def bank(**wanted: Any) -> Agent:
    """An agent that asks for a key in words, and then for an amount."""
    agent = Agent("Bank")

    @agent.on_message
    async def handle(turn: Turn) -> str:
        await turn.require_auth("What is the key?", **wanted)
        return (await turn.ask("How much?")).text

    return agent


@asynccontextmanager
async def bound(app: App) -> AsyncGenerator[tuple[str, Any]]:
    """The app over HTTP and gRPC."""
    async with served(app) as (url, http):
        grpc = GrpcServer(app, http_url=url)
        await grpc.start("127.0.0.1", 0)
        try:
            yield url, http
        finally:
            await grpc.stop()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("version", "binding"),
    [
        (Version.V0_1, Binding.JSONRPC),
        (Version.V0_3, Binding.JSONRPC),
        (Version.V1_0, Binding.JSONRPC),
        (Version.V1_0, Binding.HTTP_JSON),
        (Version.V0_3, Binding.GRPC),
        (Version.V1_0, Binding.GRPC),
    ],
)
async def test_the_answer_to_a_demand_is_masked_and_other_answers_are_not(
    version: Version, binding: Binding, streams: bool
) -> None:
    app, observer = App(bank()), Observer()
    async with bound(app) as (url, _), Client(url, versions=[version], bindings=[binding]) as client:
        with app.observing(observer):
            asked = await client.send("go")
            metadata: JsonObject = {"code": SECRET}
            if streams:
                updates = [one async for one in client.stream(SECRET, task=asked.task, metadata=metadata)]
                assert updates[-1].question == "How much?"
            else:
                assert (await client.send(SECRET, task=asked.task, metadata=metadata)).question == "How much?"
            done = await client.send("ten euros", task=asked.task)
    assert done.text == "ten euros"
    first, answer, amount = observer.messages
    assert ("go" in first, MASK in answer, "ten euros" in amount) == (True, True, True)
    assert SECRET not in answer


@pytest.mark.parametrize("wanted", [{}, {"scheme": "ApiKey"}], ids=str)
async def test_a_repeat_of_the_answer_is_masked_too(wanted: dict[str, Any], tmp_path: Any) -> None:
    """A client that got no reply sends it again when the task has gone on."""
    app, observer = App(bank(**wanted), store=SqliteStore(tmp_path / "tasks.db")), Observer()
    async with served(app) as (url, http), Client(url) as client:
        asked = await client.send("go")
        assert asked.task is not None
        body = send(SECRET, message_id="m-1", message={"taskId": asked.task.id})
        with app.observing(observer):
            for _ in range(2):
                reply = await http.post("/", json=body, headers={"A2A-Version": "1.0"})
                assert reply.json()["result"]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert [(MASK in shown, SECRET in shown) for shown in observer.messages] == [(True, False)] * 2


async def test_a_repeat_is_known_by_its_idempotency_key(tmp_path: Path) -> None:
    """A client may make a new message of it, with an id of its own."""
    app, observer = App(bank(), store=SqliteStore(tmp_path / "tasks.db")), Observer()
    async with served(app) as (url, http), Client(url) as client:
        asked = await client.send("go")
        assert asked.task is not None
        with app.observing(observer):
            for message_id in ("m-1", "m-2"):
                body = send(SECRET, message_id=message_id, message={"taskId": asked.task.id})
                reply = await http.post("/", json=body, headers={"A2A-Version": "1.0", "Idempotency-Key": "k-1"})
                assert reply.json()["result"]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert [(MASK in shown, SECRET in shown) for shown in observer.messages] == [(True, False)] * 2


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_nothing_is_looked_up_for_a_call_that_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message for a task is masked then, whatever it answers."""

    async def fail(*_: Any) -> bool:
        raise AssertionError("It was looked up")

    monkeypatch.setattr(AgentOperations, "answers_demand", fail)
    limits = ServerLimits(rates=RateLimits(requests_per_second=0.001, request_burst=1))
    app, observer = App(bank(), limits=limits), Observer()
    async with served(app) as (_, http):
        with app.observing(observer):
            for text, message in (("the first", {}), ("the second", {}), (SECRET, {"taskId": "t-1"})):
                body = send(text, message_id="m-1", method=method, message=message)
                await http.post("/", json=body, headers={"A2A-Version": "1.0"})
    first, second, third = observer.messages
    assert ("the first" in first, "the second" in second, MASK in third, SECRET in third) == (True, True, True, False)
    assert observer.failures == ["RateLimitedError"] * 2


async def test_no_log_is_read_to_find_out_what_a_message_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    app, reads = App(bank()), list[TaskKey]()
    read = Views.events

    async def noted(self: Views, key: TaskKey) -> Any:
        reads.append(key)
        return await read(self, key)

    monkeypatch.setattr(Views, "events", noted)
    async with served(app) as (url, _), Client(url) as client:
        for observing in (nullcontext(), app.observing(Observer())):
            sure = await (await client.send("go")).answer(SECRET)
            reads.clear()
            with observing:
                await sure.answer("ten euros")
            assert len(reads) == 1, "the run reads it once"


async def test_it_is_masked_where_the_store_does_not_say_what_the_task_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, observer = App(bank()), Observer()
    async with served(app) as (url, _), Client(url) as client:
        asked = await client.send("go")

        async def fail(*_: Any) -> bool:
            raise UnavailableError

        monkeypatch.setattr(AgentOperations, "answers_demand", fail)
        with app.observing(observer):
            await client.send(SECRET, task=asked.task)
    assert SECRET not in observer.messages[0]


async def test_nothing_is_looked_up_while_nothing_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    app, looked = App(bank()), list[object]()
    look = AgentOperations.answers_demand

    async def noted(self: AgentOperations, request: Any, caller: Any) -> bool:
        looked.append(request)
        return await look(self, request, caller)

    monkeypatch.setattr(AgentOperations, "answers_demand", noted)
    async with served(app) as (url, _), Client(url) as client:
        sure = await (await client.send("go")).answer(SECRET)
        assert looked == []
        with app.observing(Observer()):
            await sure.answer("ten euros")
    assert len(looked) == 1
