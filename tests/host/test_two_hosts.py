"""Two hosts that call each other's agents over A2A: answers, cancellations, traces, failures, and what is not told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from parley import Agent, Turn
from parley.host.data.conversations import CONTEXT_PREFIX
from parley.host.models.model import ModelRequest
from parley.host.origin import ORIGIN
from parley.host.remote.config import RemoteAgentConfig, RemoteAgents
from parley.protocol.extensions import DELEGATION
from parley.server.app import App
from tests.client.test_discovery import Site, document, gone
from tests.host.a2a_calls import documented_message, message, path_of, result, streamed
from tests.host.function_model import FunctionModel
from tests.host.running_host import ReadEvent, RunningHost, read_events, running_host
from tests.server.serving import serving
from tests.server.test_tracing import Spans, context_of, links_of

pytestmark = pytest.mark.anyio

Reply: TypeAlias = Callable[[ModelRequest], AsyncIterator[str]]

PRIVATE = ("127.0.0.1",)
CARD = "/.well-known/agent-card.json"


@asynccontextmanager
async def host_of(
    tenant: str, reply: Reply, remote: dict[str, RemoteAgentConfig], spans: Spans | None = None
) -> AsyncGenerator[RunningHost]:
    """A host with one tenant, whose agents have this model and these remote agents, which may be added later."""
    async with running_host(
        tenants=(tenant,),
        models={"parley/router": FunctionModel(reply)},
        remote_agents=RemoteAgents(remote, allow_private_hosts=PRIVATE),
        options={"telemetry": spans.telemetry} if spans is not None else {},
    ) as running:
        yield running


@asynccontextmanager
async def two_hosts(north: Reply, south: Reply, *spans: Spans) -> AsyncGenerator[tuple[RunningHost, RunningHost]]:
    """Two hosts, each of which knows the other's `index` by the other's name."""
    to_south: dict[str, RemoteAgentConfig] = {}
    to_north: dict[str, RemoteAgentConfig] = {}
    async with (
        host_of("acme", north, to_south, *spans[:1]) as first,
        host_of("globex", south, to_north, *spans[1:]) as second,
    ):
        to_south["south"] = RemoteAgentConfig("south", second.url + path_of("index"), second.globex.token)
        to_north["north"] = RemoteAgentConfig("north", first.url + path_of("index"), first.acme.token)
        yield first, second


async def ask_south(request: ModelRequest) -> AsyncIterator[str]:
    """North: has the south answer, except for one question, which it answers itself."""
    if request.query == "Where are you?":
        for piece in ("In ", "the ", "north."):
            yield piece
    elif not request.results:
        yield "I ask. \n/a2a call south What does the other one say?\n"
    else:
        yield "South: "
        yield request.results[-1].body


async def ask_north(request: ModelRequest) -> AsyncIterator[str]:
    """South: asks the north back."""
    if not request.results:
        yield "/a2a call north Where are you?\n"
    else:
        yield "North: "
        yield request.results[-1].body


async def orchestrate(client: Any, text: str, **options: Any) -> list[ReadEvent]:
    return await read_events(client, "POST", "/v1/orchestrate", json={"message": text}, **options)


def named(events: list[ReadEvent], name: str) -> list[dict[str, Any]]:
    return [event.payload for event in events if event.name == name]


async def tasks_of(client: Any) -> list[dict[str, Any]]:
    """All tasks of a tenant's `index`, newest first."""
    return (await result(client, "ListTasks", {"includeArtifacts": True}))["tasks"]


def states(tasks: list[dict[str, Any]]) -> list[str]:
    return [task["status"]["state"].removeprefix("TASK_STATE_").lower() for task in tasks]


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_hosts_delegate_to_each_other_and_the_answers_come_back() -> None:
    async with two_hosts(ask_south, ask_north) as (north, south):
        events = await orchestrate(north.acme.client, "Say it.")
        (done,) = named(events, "done")
        assert done["ok"]
        assert done["content"] == "I ask. \n\nSouth: North: In the north."
        assert [text["delta"] for text in named(events, "text")] == ["I ask. \n", "\nSouth: ", "North: In the north."]
        (answer,) = named(events, "sub_agent_response")
        assert (answer["agent"], answer["depth"], answer["content"]) == ("south", 1, "North: In the north.")
        assert states(await tasks_of(north.acme.client)) == ["completed", "completed"]
        assert states(await tasks_of(south.globex.client)) == ["completed"]


async def test_a_remote_answer_streams_while_its_model_still_speaks() -> None:
    is_halfway, may_go_on = asyncio.Event(), asyncio.Event()

    async def halting(request: ModelRequest) -> AsyncIterator[str]:
        yield "First half, "
        is_halfway.set()
        await may_go_on.wait()
        yield "second half."

    spans = Spans(), Spans()
    async with two_hosts(ask_south, halting, *spans) as (north, south):
        asking = asyncio.create_task(streamed(north.acme.client, "SendStreamingMessage", message("Say it.")))
        await is_halfway.wait()
        assert states(await tasks_of(south.globex.client)) == ["working"]
        may_go_on.set()
        frames = await asking
        assert frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(spans[1].named("SendStreamingMessage")) == 1
    assert spans[1].named("SendMessage") == []


async def test_hosts_whose_agents_always_delegate_end_with_an_error_at_depth_two() -> None:
    def endless(other: str) -> Reply:
        async def reply(request: ModelRequest) -> AsyncIterator[str]:
            if any(not result.ok for result in request.results):
                yield f"I give up: {request.results[-1].body}"
            elif request.results:
                yield f"They say: {request.results[-1].body}"
            else:
                yield f"/a2a call {other} Do it.\n"

        return reply

    async with two_hosts(endless("south"), endless("north")) as (north, south):
        (done,) = named(await orchestrate(north.acme.client, "Do it."), "done")
        assert done["content"] == (
            "They say: They say: I give up: Agents at depth 2 of 2 cannot delegate; do it yourself."
        )
        assert states(await tasks_of(north.acme.client)) == ["completed", "completed"]
        assert states(await tasks_of(south.globex.client)) == ["completed"]
        assert north.host.engine.runs.all == south.host.engine.runs.all == ()


# --- cancellation and traces ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["A2A", "the native API"])
async def test_canceling_a_request_cancels_what_it_began_on_both_hosts(over: str) -> None:
    is_at_work, was_canceled = asyncio.Event(), asyncio.Event()

    async def waiting(request: ModelRequest) -> AsyncIterator[str]:
        if request.query != "Where are you?":
            async for piece in ask_south(request):
                yield piece
            return
        yield "I am "
        is_at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_canceled.set()

    async with two_hosts(waiting, ask_north) as (north, south):
        client = north.acme.client
        sent = await result(client, "SendMessage", {**message("Say it."), "configuration": {"returnImmediately": True}})
        task_id = sent["task"]["id"]
        following = asyncio.create_task(streamed(client, "SubscribeToTask", {"id": task_id}))
        await is_at_work.wait()
        if over == "A2A":
            assert (await result(client, "tasks/cancel", {"id": task_id}))["status"]["state"] == "canceled"
        else:
            reply = await client.post(f"/v1/requests/{task_id}/cancel")
            assert (reply.status_code, reply.json()) == (200, {"request_id": task_id, "cancelled": True})
        assert (await following)[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        await was_canceled.wait()
        for host in (north, south):
            for run in host.host.engine.runs.all:
                await run.wait_for_end()
        assert states(await tasks_of(client)) == ["canceled", "canceled"]
        assert states(await tasks_of(south.globex.client)) == ["canceled"]


async def test_the_spans_of_both_hosts_belong_to_one_trace() -> None:
    spans = north_spans, south_spans = Spans(), Spans()
    async with two_hosts(ask_south, ask_north, *spans) as (north, _):
        await result(north.acme.client, "SendMessage", message("Say it."))
    asked_by_caller = north_spans.only("SendMessage")
    (first_run,) = [run for run in north_spans.named("run") if links_of(run) == [context_of(asked_by_caller)]]
    asked_by_north = south_spans.only("SendStreamingMessage")
    assert parent_of(asked_by_north) == ids_of(context_of(first_run))
    south_run = south_spans.only("run")
    assert links_of(south_run) == [context_of(asked_by_north)]
    assert parent_of(north_spans.only("SendStreamingMessage")) == ids_of(context_of(south_run))


def parent_of(span: ReadableSpan) -> tuple[int, int]:
    """The trace of a span, and its parent in that trace."""
    assert span.parent is not None
    return context_of(span).trace_id, span.parent.span_id


def ids_of(context: SpanContext) -> tuple[int, int]:
    return context.trace_id, context.span_id


# --- what the other host is told --------------------------------------------------------------------------------------


class Recorder:
    """An app behind a recorder of all that is sent to it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.headers: list[dict[str, str]] = []
        self.bodies: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def recorded() -> Any:
            event = await receive()
            if event.get("body"):
                self.bodies.append(event["body"].decode())
            return event

        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self._app(scope, recorded, send)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(body)["params"]["message"] for body in self.bodies]


async def keeps_secrets(request: ModelRequest) -> AsyncIterator[str]:
    """Uses memory, files and an agent of the tenant, and then a remote agent."""
    if request.agent_id == "vault-keeper":
        yield "The vault holds seven bars."
    elif not request.results:
        yield "/mem write The combination is xyzzy.\n"
        yield "/write --persist ledger.csv\ngold;7\n/endwrite\n"
        yield "/agent vault-keeper Count the bars.\n"
    elif request.last_results == 3:
        yield "/a2a call far Translate: good morning\n"
    else:
        yield "Done."


async def test_a_remote_agent_is_told_the_message_and_nothing_of_the_tenant() -> None:
    remote = Agent("Remote")

    @remote.on_message
    async def translate(turn: Turn) -> str:
        return "buongiorno"

    app, listed = App(remote), dict[str, RemoteAgentConfig]()
    recorder = Recorder(app)
    async with app.running(), serving(recorder) as far, host_of("acme", keeps_secrets, listed) as running:
        listed["far"] = RemoteAgentConfig("far", str(far.base_url), "operators-token")
        client = running.acme.client
        keeper = {"id": "vault-keeper", "name": "Vault keeper", "role": "guard", "goal": "Counts the gold."}
        reply = await client.post("/v1/agents", json=keeper)
        assert reply.status_code == 201, reply.text
        first, second = [(await client.post("/v1/conversations", json={})).json()["id"] for _ in range(2)]
        for conversation in (first, first, second):
            path = f"/v1/conversations/{conversation}/messages"
            (done,) = named(await read_events(client, "POST", path, json={"message": "Open the vault."}), "done")
            assert done["content"] == "Done."
        # 1 and 2 continue one conversation there, which 3 does not learn of.
        contexts = [message.get("contextId") for message in recorder.messages]
        assert contexts[0] is contexts[2] is None
        assert contexts[1] is not None
        private = [head.key.task_id for head in await running.host.store.tasks.newest(running.acme.id, limit=100)]
        assert len(private) == 6
    for sent in recorder.messages:
        assert sent.keys() <= {"messageId", "role", "parts", "metadata", "contextId"}
        assert sent["parts"] == [{"text": "Translate: good morning"}]
        assert sent["metadata"] == {DELEGATION: {"depth": 1}}
    private += [running.acme.token, "acme", "vault", "xyzzy", "ledger", "gold", "bars", "index", ORIGIN, CONTEXT_PREFIX]
    everything = f"{recorder.headers} {recorder.bodies}".lower()
    assert [secret for secret in private if secret.lower() in everything] == []
    expected = {"host", "accept", "accept-encoding", "user-agent", "a2a-version", "content-type", "content-length"}
    assert {name for headers in recorder.headers for name in headers} <= {*expected, "authorization"}
    assert {headers.get("authorization") for headers in recorder.headers} == {None, "Bearer operators-token"}


# --- failures of the other host ---------------------------------------------------------------------------------------


printer = Agent("Printer")


@printer.on_message
async def print_it(turn: Turn) -> None:
    """Fails, or asks first."""
    if turn.text == "Print it on paper.":
        await turn.ask("Which paper?")
    await turn.fail("Out of paper.")


def broken(status: int, content_type: str, body: str) -> Any:
    """A site with a card that answers every message with the same reply."""

    async def site(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            host = dict(scope["headers"])[b"host"].decode()
            await Site({CARD: document(url=f"http://{host}/")})(scope, receive, send)
            return
        fields = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body.encode()})

    return site


async def silent(scope: Any, receive: Any, send: Any) -> None:
    """A site with a card that never answers a message."""
    if scope["method"] == "GET":
        await broken(200, "", "")(scope, receive, send)
    else:
        await gone(receive)


WRONG_RESULT = '{"jsonrpc": "2.0", "id": 1, "result": 5}'

FAILURES: dict[str, tuple[Any, str, str]] = {
    "a task that failed": (App(printer), "Print it.", "ERR: Out of paper."),
    "a question": (App(printer), "Print it on paper.", "ERR: The agent asks: Which paper?"),
    "an error of HTTP": (broken(500, "text/html", "<html>"), "Print it.", "500"),
    "a reply that is not JSON": (broken(200, "application/json", "{]"), "Print it.", "ERR: "),
    "a reply of another shape": (broken(200, "application/json", WRONG_RESULT), "Print it.", "ERR: "),
    "a stream of nonsense": (broken(200, "text/event-stream", "data: {]\n\n"), "Print it.", "ERR: "),
    "silence": (silent, "Print it.", "ERR: "),
    "a closed port": (None, "Print it.", "ERR: "),
}


@pytest.mark.parametrize("remote", FAILURES)
async def test_a_remote_failure_is_an_error_for_the_agent_that_called(remote: str) -> None:
    prompts: list[str] = []
    site, text, expected = FAILURES[remote]

    async def calls(request: ModelRequest) -> AsyncIterator[str]:
        prompts.append(request.messages[-1].text)
        yield "I go on alone." if request.results else f"/a2a call far {text}\n"

    async with AsyncExitStack() as stack:
        url = "http://127.0.0.1:1"
        if isinstance(site, App):
            await stack.enter_async_context(site.running())
        if site is not None:
            url = str((await stack.enter_async_context(serving(site))).base_url)
        far = RemoteAgentConfig("far", url, timeout_seconds=0.5 if site is silent else None)
        running = await stack.enter_async_context(host_of("acme", calls, {"far": far}))
        task = await result(running.acme.client, "message/send", documented_message("Print it."))
        assert task["status"]["state"] == "completed"
        assert task["status"]["message"]["parts"][0]["text"] == "I go on alone."
        assert running.host.engine.runs.all == ()
    assert prompts[1].startswith("[TOOL RESULTS]\n[/a2a call far ")
    assert expected in prompts[1]
    assert "UPSTREAM FAILED" in prompts[1]
    calls_made = [artifact["parts"][0]["data"] for artifact in task["artifacts"] if artifact["name"] == "tool_call"]
    assert calls_made == [{"tool": "a2a:call", "ok": False}]
