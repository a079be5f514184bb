"""The `Idempotency-Key` header: one key and content is one task, for one caller, in every dialect and binding."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Client, Turn
from parley.engine.limits import Limits
from parley.protocol.cards import Binding
from parley.protocol.errors import IdempotencyKeyReusedError, InvalidParamsError
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.stores.sqlite.store import SqliteStore
from parley.wire.idempotency_key import read_idempotency_key, write_idempotency_key
from tests.server.serving import SPOKEN, running, send

pytestmark = pytest.mark.anyio

HEADERS = {"a2a-version": "1.0"}


class Counter:
    """An agent that counts its runs."""

    def __init__(self, **options: Any) -> None:
        self.runs = 0
        self.agent = Agent("Counter", **options)
        self.agent.on_message(self.handle)

    async def handle(self, turn: Turn) -> str:
        self.runs += 1
        return f"run {self.runs}"


@asynccontextmanager
async def served(app: App) -> AsyncGenerator[str]:
    """The app over HTTP and gRPC; the URL is the agent's."""
    async with running(app) as http:
        url = str(http.base_url)
        server = GrpcServer(app, http_url=url)
        await server.start("127.0.0.1", 0)
        try:
            yield url
        finally:
            await server.stop()


@pytest.mark.parametrize(("version", "binding"), SPOKEN)
async def test_one_key_and_content_is_one_task_in_every_dialect_and_binding(version: Version, binding: Binding) -> None:
    counter = Counter()
    task = "named-by-the-caller" if version is Version.V0_1 else None  # in 0.1 it belongs to the content
    async with served(App(counter.agent)) as url, Client(url, versions=[version], bindings=[binding]) as client:
        first = await client.send("go", idempotency_key="k", task=task)
        again = await client.send("go", idempotency_key="k", task=task)
        streamed = [update async for update in client.stream("go", idempotency_key="k", task=task)]
        with pytest.raises(InvalidParamsError, match="other content"):
            await client.send("stop", idempotency_key="k", task=task)
        with pytest.raises(InvalidParamsError, match="other content"):
            [update async for update in client.stream("stop", idempotency_key="k", task=task)]

    assert first.task is not None
    assert (again.task, again.text, counter.runs) == (first.task, "run 1", 1)
    assert streamed[-1].task is not None
    assert streamed[-1].task.id == first.task.id


async def test_sends_with_other_keys_are_other_tasks_and_a_send_without_one_goes_by_its_message_id() -> None:
    counter = Counter()
    async with served(App(counter.agent)) as url, Client(url) as client:
        for key in ("a", "b", None):
            await client.send("go", idempotency_key=key)
        await client.send("go", message_id="m", idempotency_key="c")
        await client.send("go", message_id="m")
        await client.send("go", message_id="m")
    assert counter.runs == 5


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_the_same_key_at_the_same_moment_is_one_run_and_other_content_is_refused_before_it_is_stored(
    method: str,
) -> None:
    counter = Counter()
    async with running(App(counter.agent)) as http:

        async def post(text: str, number: int) -> str:
            body = send(text, message_id=str(number), method=method)
            return (await http.post("/", json=body, headers={**HEADERS, "idempotency-key": '"k"'})).text

        replies = await asyncio.gather(*[post("go", number) for number in range(5)], post("stop", 9))
    assert counter.runs == 1
    assert ["idempotency_key_reused" in reply for reply in replies] == [False] * 5 + [True]


async def test_rest_refuses_a_key_that_stands_for_other_content_with_422() -> None:
    async with running(App(Counter().agent)) as http:
        for text, status in (("go", 200), ("stop", 422), ("go", 200)):
            body = send(text, message_id=text)["params"]
            reply = await http.post("/message:send", json=body, headers={**HEADERS, "idempotency-key": "k"})
            assert reply.status_code == status


@pytest.mark.parametrize("value", ["", '""', "k" * 257, '"k', "k\x7f", "schlüssel", '"a" "b"'])
async def test_a_key_that_is_too_long_or_odd_is_refused_and_begins_nothing(value: str) -> None:
    counter = Counter()
    async with running(App(counter.agent)) as http:
        headers: Any = [("a2a-version", "1.0"), (b"idempotency-key", value.encode("latin-1"))]
        reply = await http.post("/", json=send("go", message_id="1"), headers=headers)
    if reply.headers["content-type"] == "application/json":  # the listener itself refuses control characters
        assert reply.json()["error"]["code"] == -32602
    assert (reply.is_success, counter.runs) == (value != "k\x7f", 0)


async def test_a_key_of_another_caller_is_another_key() -> None:
    counter = Counter()
    secrets = [StoredSecret(name=name, hash=hash_secret(f"the-token-of-{name}")) for name in ("ada", "eve")]
    app = App(counter.agent, security=Security({"token": BearerTokens(secrets)}))
    tasks = list[str | None]()
    async with running(app) as http:
        for name in ("ada", "eve"):
            async with Client(str(http.base_url), credentials=f"the-token-of-{name}") as client:
                reply = await client.send("go" if name == "ada" else "stop", idempotency_key="k")
                tasks.append(reply.task and reply.task.id)
    assert tasks[0] != tasks[1]
    assert counter.runs == 2


async def test_a_key_in_another_tenant_is_another_key() -> None:
    counter = Counter()
    async with running(App(counter.agent)) as http:
        for tenant, text in (("acme", "go"), ("globex", "stop"), ("acme", "go"), ("globex", "stop")):
            body = send(text, message_id=text)["params"]
            headers = {**HEADERS, "idempotency-key": "k"}
            reply = await http.post(f"/{tenant}/message:send", json=body, headers=headers)
            assert reply.status_code == 200
    assert counter.runs == 2


async def test_a_key_survives_a_restart(tmp_path: Path) -> None:
    counter, ids = Counter(), list[str | None]()
    for _ in range(2):
        app = App(counter.agent, store=SqliteStore(tmp_path / "tasks.db"))
        async with running(app) as http, Client(str(http.base_url)) as client:
            reply = await client.send("go", idempotency_key="k")
            ids.append(reply.task and reply.task.id)
            with pytest.raises(InvalidParamsError, match="other content"):
                await client.send("stop", idempotency_key="k")
    assert (len(set(ids)), counter.runs) == (1, 1)


async def test_a_direct_reply_is_repeated_for_its_key() -> None:
    counter = Counter(replies_directly=True)
    async with running(App(counter.agent)) as http, Client(str(http.base_url)) as client:
        first, again = [(await client.send("go", idempotency_key="k")).text for _ in range(2)]
        with pytest.raises(InvalidParamsError, match="other content"):
            await client.send("stop", idempotency_key="k")
    assert (first, again, counter.runs) == ("run 1", "run 1", 1)


async def test_keys_mean_nothing_where_repeats_are_not_recognized() -> None:
    counter = Counter()
    app = App(counter.agent, engine_limits=Limits(idempotency_seconds=0))
    async with running(app) as http, Client(str(http.base_url)) as client:
        await client.send("go", idempotency_key="k")
        await client.send("stop", idempotency_key="k")
    assert counter.runs == 2


@pytest.mark.parametrize(("value", "key"), [("k", "k"), ('"k"', "k"), (r'"a \"b\" \\"', 'a "b" \\'), ("a, b", "a, b")])
def test_a_key_is_read_bare_or_quoted(value: str, key: str) -> None:
    assert read_idempotency_key(value) == key
    assert read_idempotency_key(write_idempotency_key(key)) == key


def test_a_key_that_no_header_can_carry_is_not_written() -> None:
    for key in ("", "é", "a\nb", "k" * 257):
        with pytest.raises(InvalidParamsError):
            write_idempotency_key(key)


def test_the_error_for_a_reused_key_has_the_status_of_the_draft() -> None:
    assert IdempotencyKeyReusedError().row.http == 422
