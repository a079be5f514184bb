"""The client's words, against our own server on every binding and dialect."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc.jwk import ECKey
from opentelemetry.sdk.trace import TracerProvider

import parley
from parley import Agent, File
from parley.client.client import Client, ask
from parley.client.credentials.credentials import Credentials
from parley.client.discovery.signatures import SignaturePolicy
from parley.client.errors import TaskFailedError
from parley.client.guard import Guard
from parley.client.options import Retries
from parley.client.reply import Reply, Update
from parley.client.streams.streamed_task import StreamedTask
from parley.protocol.cards import Binding
from parley.protocol.errors import LocalProtocolError, TaskNotFoundError, UnsupportedOperationError
from parley.protocol.masking import MASK
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CreatePushConfigRequest,
    DeletePushConfigRequest,
    GetPushConfigRequest,
    ListPushConfigsRequest,
)
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.listener import Listener
from parley.server.pages.signer import Signer
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.webhooks.guard import WebhookPolicy
from tests.client.scripted_agent import status
from tests.deadlines import fail_after
from tests.server.serving import serving
from tests.services.postgres import free_port

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
TOKEN = "a-token-of-enough-length"
CARD_OF = {Version.V0_1: "0.1", Version.V0_2: "0.2"}


def talker(**options: Any) -> Agent:
    agent = Agent("Talker", description="Talks", **options)

    @agent.on_message
    async def talk(turn: Any) -> Any:
        match turn.text.split():
            case ["ask"]:
                yield f"You said {(await turn.ask('What?')).text}"
            case ["draft"]:
                yield Artifact("poem", (TextPart("rose"),))
                yield Artifact("poem", (TextPart("violet"),))
            case ["count", number]:
                for chunk in range(int(number)):
                    yield f"{chunk} "
            case ["wait"]:
                await turn.status("waiting")
                await asyncio.Event().wait()
            case ["reject"]:
                await turn.reject("Not today.")
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
        assert artifact.parts == (TextPart("0 1 2 3 4 "),)
        task = updates[-1].seen.task()
        assert (task.status.state, task.artifacts) == (TaskState.COMPLETED, (artifact,))
        assert "".join(update.text for update in updates) == "0 1 2 3 4 "
        assert "".join([update.text async for update in client.subscribe(task)]) == "0 1 2 3 4 "


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_an_update_says_that_it_replaces_what_came_before(version: Version, binding: Binding) -> None:
    async with reached(version, binding) as client:
        chunks = [update async for update in client.stream("draft") if update.artifact]
        assert [(update.text, update.replaces) for update in chunks] == [("rose", False), ("violet", True)]
        assert chunks[-1].artifact is not None
        assert chunks[-1].artifact.parts == (TextPart("violet"),)


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


async def test_a_webhook_in_0_1_has_no_name_and_is_there_for_good() -> None:
    async with reached(Version.V0_1, Binding.JSONRPC) as client:
        task = (await client.send("ask")).task
        assert task is not None
        config = PushConfig("http://127.0.0.1:9/", token="t")
        made = await client.create_push_config(CreatePushConfigRequest(task.id, config))
        assert await client.get_push_config(GetPushConfigRequest(task.id)) == made
        assert (made.url, made.token, made.task_id) == ("http://127.0.0.1:9/", MASK, task.id)
        with pytest.raises(UnsupportedOperationError, match=r"0\.1 has no List"):
            await client.list_push_configs(ListPushConfigsRequest(task.id))
        with pytest.raises(UnsupportedOperationError, match=r"0\.1 has no Delete"):
            await client.delete_push_config(DeletePushConfigRequest(task.id, "one"))


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


@pytest.mark.parametrize("are_signatures_required", [False, True])
async def test_the_extended_card_replaces_the_public_one_also_where_cards_must_be_signed(
    are_signatures_required: bool,
) -> None:
    key = ECKey.generate_key("P-256")
    policy = SignaturePolicy("required", keys={"k": key.as_dict(private=False)}) if are_signatures_required else None
    agent = talker()

    @agent.skill(public=False, tags=["x"])
    async def vault(turn: Any) -> str:
        """Opens the vault."""
        return "gold"

    security = Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret(TOKEN))])})

    async def prove(attempt: Any) -> Any:
        headers = {**attempt.options.headers, "authorization": f"Bearer {TOKEN}"}
        return dataclasses.replace(attempt, options=dataclasses.replace(attempt.options, headers=headers))

    async with (
        App(agent, security=security, signer=Signer(key, "k")).running() as app,
        serving(app) as http,
        Client(str(http.base_url), interceptors=[prove], signatures=policy) as client,
    ):
        assert [skill.id for skill in client.card.skills] == ["talker"]
        extended = await client.get_extended_card()
        assert [skill.id for skill in extended.skills] == ["vault"]
        assert [skill.id for skill in client.card.skills] == ["vault"]


async def test_the_trace_that_a_caller_is_in_goes_along() -> None:
    seen: list[str] = []

    async def look(attempt: Any) -> Any:
        seen.append(attempt.options.headers.get("traceparent", ""))
        return attempt

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
        assert parley.Client is Client
        assert await parley.ask(str(http.base_url), "hello") == "hello"
        assert await ask(str(http.base_url), "ask") == "What?"


async def test_what_an_agent_did_not_do_is_no_answer() -> None:
    agent = Agent("Failing", description="Fails")

    @agent.on_message
    async def refuse(turn: Any) -> None:
        await turn.reject("Not today.")

    async with App(agent, drain_seconds=0).running() as app, serving(app) as http:
        with pytest.raises(TaskFailedError, match="rejected: Not today") as caught:
            await parley.ask(str(http.base_url), "hello")
    reply = caught.value.reply
    assert (reply.has_failed, reply.reason, reply.text, reply.parts) == (True, "Not today.", "", ())


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (TaskState.COMPLETED, "words"),
        *((state, "") for state in TaskState if state is not TaskState.COMPLETED),
    ],
)
async def test_what_is_said_with_a_state_is_an_answer_only_if_the_task_is_done(state: TaskState, text: str) -> None:
    said = TaskStatus(state, Message("m", Role.AGENT, (TextPart("words"),)))
    reply = Reply(Client("http://127.0.0.1:1"), Task("t", "c", said))
    assert reply.text == text
    assert (reply.has_failed, reply.needs_input) == (bool(reply.reason), bool(reply.question))
    made = (Artifact("a", (TextPart("half"),)),)
    assert Reply(reply.client, Task("t", "c", said, made)).text == "half"


@pytest.mark.parametrize(
    ("said", "state", "text"),
    [
        ("hello", TaskState.COMPLETED, ("", "")),
        ("ask", TaskState.INPUT_REQUIRED, ("What?", "")),
        ("reject", TaskState.REJECTED, ("", "Not today.")),
    ],
)
async def test_the_last_update_of_a_stream_says_how_it_ended(
    said: str, state: TaskState, text: tuple[str, str]
) -> None:
    async with reached(Version.V1_0, Binding.JSONRPC) as client:
        last = [update async for update in client.stream(said)][-1]
        assert last.task is not None
        assert (last.state, last.task.status.state, (last.question, last.reason)) == (state, state, text)
        reply = await client.get(last.task)
        assert (last.task, last.needs_input, last.has_failed) == (reply.task, reply.needs_input, reply.has_failed)


async def test_an_update_that_is_a_message_alone_is_complete() -> None:
    seen = StreamedTask()
    assert Update(status(TaskState.WORKING), seen).state is TaskState.SUBMITTED
    message = Message("m", Role.AGENT, (TextPart("hi"),))
    seen.add(message)
    update = Update(message, seen, added_text="hi")
    assert (update.text, update.task, update.state) == ("hi", None, TaskState.COMPLETED)
    assert (update.needs_input, update.has_failed, update.question, update.reason) == (False, False, "", "")


@pytest.mark.parametrize("credentials", [TOKEN, {"bearer": TOKEN}, Credentials({"bearer": TOKEN})])
async def test_a_token_or_secrets_by_kind_are_credentials(credentials: Any) -> None:
    security = Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret(TOKEN))])})
    async with (
        App(talker(), security=security, drain_seconds=0).running() as app,
        serving(app) as http,
        Client(str(http.base_url), credentials=credentials) as client,
    ):
        assert (await client.send("hello")).text == "hello"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"target": None}, "takes str or AgentCard, not NoneType"),
        ({"credentials": 5}, "credentials=…. takes Credentials, a bearer token, or secrets by their kind .* not int"),
        ({"timeouts": 5}, "timeouts=…. takes Timeouts, not int"),
        ({"retries": 5}, "takes Retries"),
        ({"bounds": 5}, "takes Bounds"),
        ({"guard": True}, "takes Guard"),
        ({"signatures": "required"}, "takes SignaturePolicy"),
        ({"cards": {}}, "takes CardCache"),
        ({"tls": "cert.pem"}, "takes Tls"),
    ],
)
async def test_an_argument_of_the_wrong_kind_is_refused_where_it_is_given(
    arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint):
        Client(**{"target": "http://127.0.0.1:1", **arguments})  # pyright: ignore


async def test_bindings_and_versions_may_be_written_as_text() -> None:
    anywhere = Guard(allow_private=True)
    async with (
        reached(Version.V1_0, Binding.GRPC) as known,
        Client(known.card, bindings=["grpc"], versions=["1.0"], guard=anywhere) as client,
    ):
        assert (client.interface.binding, client.interface.version) == (Binding.GRPC, "1.0")
    with pytest.raises(LocalProtocolError, match="Unknown binding 'soap'; known are JSONRPC, "):
        Client("http://127.0.0.1:1", bindings=["soap"])
    with pytest.raises(LocalProtocolError, match=r"Unknown version '7\.0'; known are 1\.0, "):
        Client("http://127.0.0.1:1", versions="7.0")


async def test_a_client_is_used_within_its_block() -> None:
    with pytest.raises(LocalProtocolError, match="async with"):
        await Client("http://127.0.0.1:1").send("hello")


async def test_a_client_that_is_closed_calls_nobody_and_is_not_opened_again() -> None:
    async with App(talker(), drain_seconds=0).running() as app, serving(app) as http:
        async with Client(str(http.base_url)) as client:
            stream = client.stream("wait")
            await anext(stream)
        with pytest.raises(LocalProtocolError, match="async with"):
            await client.send("hello")
        with fail_after(5), pytest.raises(LocalProtocolError, match="closed"):
            async for _ in stream:
                pass
        with pytest.raises(LocalProtocolError, match="once"):
            async with client:
                pass


@pytest.mark.parametrize("binding", list(Binding))
async def test_a_stream_goes_on_after_a_cursor_that_was_kept(binding: Binding) -> None:
    """Also in another process: nothing else must be remembered."""
    async with reached(Version.V1_0, binding) as client:
        updates = [update async for update in client.stream("count 5")]
        middle = updates[3]
        task_id = middle.seen.task_id or ""
        rest = [update.event async for update in client.subscribe(task_id, after=middle.cursor)]
        assert rest == [update.event for update in updates[4:]]
        whole = [update async for update in client.subscribe(task_id)]
        assert whole[-1].seen.task() == (await client.get(task_id)).task


async def test_a_stream_outlives_a_restart_that_takes_longer_than_any_call() -> None:
    """The task goes on meanwhile, and is told to the end over a new connection to the same port."""
    agent, may_go_on = Agent("Patient", description="Waits"), asyncio.Event()

    @agent.on_message
    async def talk(turn: Any) -> Any:
        yield "one "
        await may_go_on.wait()
        yield "two"

    pauses = 0

    async def sleep(_: float) -> None:
        nonlocal pauses, listener
        pauses += 1
        if pauses == 40:  # three times as many as a call would make, and the stream with it
            listener = Listener(app)
            await listener.start([socket.create_server(("127.0.0.1", port))])
            may_go_on.set()

    app = App(agent, drain_seconds=0)
    with fail_after(20):
        async with app.running():
            port = free_port()
            door = socket.create_server(("127.0.0.1", port))
            listener = Listener(app)
            await listener.start([door])
            texts: list[str] = []
            async with Client(f"http://127.0.0.1:{port}") as client:
                client.calls.sleep = sleep
                async for update in client.stream("hello"):
                    texts.append(update.text)
                    if update.text == "one ":
                        await listener.close(grace=0)
            await listener.close(grace=0)
    assert ("".join(texts), pauses) == ("one two", 40)


async def test_many_calls_share_a_client() -> None:
    async with reached(Version.V1_0, Binding.JSONRPC) as client:

        async def converse(number: int) -> str:
            asked = await client.send("ask")
            updates = [update async for update in client.stream(f"it is {number}", task=asked.task)]
            return Reply(client, updates[-1].seen.task()).text

        assert await asyncio.gather(*map(converse, range(20))) == [f"You said it is {number}" for number in range(20)]


@pytest.mark.parametrize(("version", "binding"), [WAYS[0], *WAYS[5:]])
async def test_a_caller_that_gives_up_leaves_nothing_behind(version: Version, binding: Binding) -> None:
    async with reached(version, binding) as client:
        before = asyncio.all_tasks()

        async def follow() -> None:
            async for _ in client.stream("wait"):
                pass

        for ticks in (0, 1, 2, 5, 10, 30, 100):  # at every await that there is
            for call in (client.send("wait"), follow()):
                calling = asyncio.create_task(call)
                for _ in range(ticks):
                    await asyncio.sleep(0)
                calling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await calling
        assert (await client.send("hello")).text == "hello"
        assert {task for task in asyncio.all_tasks() - before if "parley/client" in str(task)} == set()
