"""The client's words, against our own server on every binding and dialect."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio import fail_after
from opentelemetry.sdk.trace import TracerProvider

import parley
from parley import Agent, File
from parley.client.client import Client, ask
from parley.client.options import Retries
from parley.protocol.cards import Binding
from parley.protocol.errors import LocalProtocolError, TaskNotFoundError
from parley.protocol.messages import TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CreatePushConfigRequest,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    ListPushConfigsRequest,
)
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.grpc_server import GrpcServer
from parley.server.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.schemes.tokens import BearerTokens
from parley.server.security import Security
from parley.server.webhook_guard import WebhookPolicy
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

WAYS = [
    (Version.V0_1, Binding.JSONRPC),
    (Version.V0_2, Binding.JSONRPC),
    (Version.V0_3, Binding.JSONRPC),
    (Version.V0_3, Binding.HTTP_JSON),
    (Version.V0_3, Binding.GRPC),
    (Version.V1_0, Binding.JSONRPC),
    (Version.V1_0, Binding.HTTP_JSON),
    (Version.V1_0, Binding.GRPC),
]
CARD_OF = {Version.V0_1: "0.1", Version.V0_2: "0.2"}


def talker(**options: Any) -> Agent:
    agent = Agent("Talker", description="Talks", **options)

    @agent.on_message
    async def talk(turn: Any) -> Any:
        match turn.text.split():
            case ["ask"]:
                yield f"You said {(await turn.ask('What?')).text}"
            case ["count", number]:
                for chunk in range(int(number)):
                    yield f"{chunk} "
            case ["wait"]:
                await turn.status("waiting")
                await asyncio.Event().wait()
            case ["everything"]:
                yield "text"
                yield {"data": 1}
                yield File(b"bytes", "file.bin")
            case _:
                yield turn.text

    return agent


@asynccontextmanager
async def reached(version: Version, binding: Binding, app: App | None = None) -> AsyncGenerator[Client]:
    """A client of a talker, over one way."""
    app = app or App(talker(), webhooks=WebhookPolicy(allow_private=True), drain_seconds=0)
    with fail_after(20):
        async with app.running(), serving(app) as http:
            server = GrpcServer(app, http_url=str(http.base_url))
            await server.start("127.0.0.1", 0)
            url = f"http://{http.base_url.netloc.decode()}/.well-known/agent-card.json"
            if version in CARD_OF:  # no card of today lists what only older ones speak
                url = f"{url}?A2A-Version={CARD_OF[version]}"
            try:
                async with Client(url, bindings=[binding], versions=[version], retries=Retries(attempts=1)) as client:
                    assert (client.interface.binding, client.calls.transport.version) == (binding, version)
                    yield client
            finally:
                await server.stop()


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_a_conversation(version: Version, binding: Binding) -> None:
    async with reached(version, binding) as client:
        reply = await client.send("hello")
        assert (reply.text, reply.state, reply.is_finished) == ("hello", TaskState.COMPLETED, True)
        asked = await client.send("ask")
        assert (asked.needs_input, asked.question) == (True, "What?")
        answered = await asked.answer("blue")
        assert (answered.text, answered.task and answered.task.id) == ("You said blue", asked.task and asked.task.id)
        whole = await client.send("everything")
        assert (whole.text, whole.data, [file.filename for file in whole.files]) == ("text", {"data": 1}, ["file.bin"])
        assert (await client.get(whole.task or "")).text == "text"


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_a_stream(version: Version, binding: Binding) -> None:
    async with reached(version, binding) as client:
        updates = [update async for update in client.stream("count 5")]
        artifact = [update.artifact for update in updates if update.artifact][-1]
        assert artifact is not None
        assert artifact.parts == tuple(TextPart(f"{number} ") for number in range(5))
        task = updates[-1].seen.task()
        assert (task.status.state, task.artifacts) == (TaskState.COMPLETED, (artifact,))


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_following_and_cancelling(version: Version, binding: Binding) -> None:
    async with reached(version, binding) as client:
        stream = client.stream("wait")
        first = await anext(stream)
        task_id = first.seen.task_id or ""
        await stream.aclose()
        follower = client.subscribe(task_id)
        await anext(follower)
        canceled = await client.cancel(task_id)
        assert canceled.state is TaskState.CANCELED
        rest = [update async for update in follower]
        assert rest[-1].seen.status is not None
        assert rest[-1].seen.status.state is TaskState.CANCELED
        with pytest.raises(TaskNotFoundError):
            await client.get("absent")


@pytest.mark.parametrize(("version", "binding"), WAYS[1:])
async def test_webhooks(version: Version, binding: Binding) -> None:
    async with reached(version, binding) as client:
        task = (await client.send("ask")).task
        assert task is not None
        made = await client.create_push_config(
            CreatePushConfigRequest(task.id, PushConfig("http://127.0.0.1:9/", id="one"))
        )
        assert made.id == "one"
        assert (await client.get_push_config(GetPushConfigRequest(task.id, "one"))).url == "http://127.0.0.1:9/"
        page = await client.list_push_configs(ListPushConfigsRequest(task.id))
        assert [config.id for config in page.configs] == ["one"]
        await client.delete_push_config(DeletePushConfigRequest(task.id, "one"))
        assert (await client.list_push_configs(ListPushConfigsRequest(task.id))).configs == ()


@pytest.mark.parametrize("binding", list(Binding))
async def test_lists_come_a_page_at_a_time(binding: Binding) -> None:
    async with reached(Version.V1_0, binding) as client:
        ids = [(await client.send("hello", context="c")).task for _ in range(5)]
        await client.send("hello")
        found = [task.id async for task in client.list(context="c", page_size=2)]
        assert sorted(found) == sorted(task.id for task in ids if task)


async def test_an_agent_that_does_not_stream_is_polled() -> None:
    app = App(talker(streaming=False), drain_seconds=0)
    async with reached(Version.V1_0, Binding.JSONRPC, app) as client:
        client.calls.sleep = lambda _: asyncio.sleep(0)
        updates = [update async for update in client.stream("count 3")]
        assert updates[-1].seen.task().status.state is TaskState.COMPLETED
        text = "".join(part.text for part in updates[-1].seen.task().artifacts[0].parts if isinstance(part, TextPart))
        assert text == "0 1 2 "


async def test_the_extended_card_replaces_the_public_one() -> None:
    agent = talker()

    @agent.skill(public=False, tags=["x"])
    async def vault(turn: Any) -> str:
        """Opens the vault."""
        return "gold"

    token = "a-token-of-enough-length"
    security = Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret(token))])})

    async def prove(step: Any) -> Any:
        headers = {**step.sent.headers, "authorization": f"Bearer {token}"}
        return dataclasses.replace(step, sent=dataclasses.replace(step.sent, headers=headers))

    async with (
        App(agent, security=security).running() as app,
        serving(app) as http,
        Client(str(http.base_url), interceptors=[prove]) as client,
    ):
        assert [skill.id for skill in client.card.skills] == ["talker"]
        await client.get_extended_card()
        assert [skill.id for skill in client.card.skills] == ["vault"]


async def test_the_trace_that_a_caller_is_in_goes_along() -> None:
    seen: list[str] = []

    async def look(step: Any) -> Any:
        seen.append(step.sent.headers.get("traceparent", ""))
        return step

    async with (
        App(talker(), drain_seconds=0).running() as app,
        serving(app) as http,
        Client(str(http.base_url), interceptors=[look]) as client,
    ):
        await client.send("hello")
        with TracerProvider().get_tracer("test").start_as_current_span("outer") as span:
            await client.send("hello")
    assert seen[0] == ""
    assert seen[1].split("-")[1] == f"{span.get_span_context().trace_id:032x}"


async def test_one_line_is_enough() -> None:
    async with App(talker(), drain_seconds=0).running() as app, serving(app) as http:
        assert await parley.ask(str(http.base_url), "hello") == "hello"
        assert await ask(str(http.base_url), "ask") == "What?"


async def test_a_client_is_used_within_its_block() -> None:
    with pytest.raises(LocalProtocolError, match="async with"):
        await Client("http://127.0.0.1:1").send("hello")
