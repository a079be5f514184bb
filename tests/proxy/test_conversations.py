"""What a proxy does with streams, names, extensions and agents that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from parley.client.errors import DiscoveryError
from parley.client.guard import Guard
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentInterface, Binding
from parley.protocol.errors import (
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    InvalidAgentResponseError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.messages import Message, RawPart, TextPart
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.proxy.ledger import Ledger
from parley.proxy.listing import TaskLister
from parley.proxy.proxied import proxied
from parley.server.app import App
from tests.conformance.matrix import GRPC, JSONRPC, REST, V0_1, V0_2, V0_3, V1_0
from tests.conformance.serve import NUMBER_OF_APPS, REQUIRED, apps, conformance_agent, direct_agent
from tests.conformance.test_streaming import texts
from tests.deadlines import fail_after
from tests.proxy.proxies import Place, caller, card_at, on_ports, proxy_of
from tests.server.serving import serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("behind", [JSONRPC, GRPC], ids=str)
@pytest.mark.parametrize("before", [JSONRPC, GRPC], ids=str)
async def test_the_agents_cursors_are_the_proxys(behind: Binding, before: Binding) -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"], bindings=[behind]) as proxy,
            caller(proxy, V1_0, before, **{"a2a-extensions": "urn:parley:cursor:1"}) as peer,
        ):
            events = await peer.stream_of("count 4")
            numbers = [event.metadata["urn:parley:cursor:1"] for event in events]
            assert numbers == sorted(set(numbers))
            rest = [event async for event in peer.subscribe(events[0].id, after=str(numbers[-3]))]
            assert texts(rest) == "3 "
            assert rest[-1].status.state is TaskState.COMPLETED
            assert [event async for event in peer.subscribe(events[0].id, after=str(numbers[-1]))] == []


async def test_numbers_of_events_stay_out_of_metadata_unless_they_are_asked_for() -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"], bindings=[GRPC]) as proxy,
            caller(proxy, V1_0, GRPC) as peer,
        ):
            assert [event.metadata for event in await peer.stream_of("count 2")] == [{}] * 5


async def test_streams_end_with_an_error_when_the_proxy_is_stopped() -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"), drain_seconds=0.1)) as place,
            proxied(place["url"]) as app,
            on_ports(app) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            request = peer.request(peer.message("hold", context_id=f"context-{uuid4()}"))
            async with aclosing(peer.stream(ops.SEND_STREAMING_MESSAGE, request)) as events:
                task = await anext(events)
                await app.drain()
                with pytest.raises(UnavailableError, match="shutting down"):
                    [event async for event in events]
            with pytest.raises(UnavailableError, match="shutting down"):
                await peer.get(task.id)


@pytest.mark.parametrize("binding", [JSONRPC, REST, GRPC], ids=str)
async def test_a_direct_reply_stays_one(binding: Binding) -> None:
    with fail_after(20):
        async with on_ports(App(direct_agent())) as place, proxy_of(place["url"]) as proxy:
            async with caller(proxy, V1_0, binding) as peer:
                reply = await peer.send("hello")
                assert isinstance(reply, Message)
                assert reply.parts == (TextPart("You said hello"),)
                (event,) = await peer.stream_of("hello")
                assert isinstance(event, Message)
            async with caller(proxy, V0_1, JSONRPC) as old:
                task = await old.send("hello", task_id="mine")
                assert (task.id, task.status.state) == ("mine", TaskState.COMPLETED)


async def test_what_the_agent_cannot_do_the_proxy_does_not_promise() -> None:
    with fail_after(20):
        async with on_ports(apps(["memory:"] * NUMBER_OF_APPS)["strict"]) as place, proxy_of(place["url"]) as proxy:
            async with caller(proxy, V1_0, GRPC) as peer:
                with pytest.raises(ExtensionSupportRequiredError):
                    await peer.send("hello")
            headers = {"a2a-extensions": REQUIRED, "x-a2a-extensions": REQUIRED}
            async with caller(proxy, V0_3, JSONRPC, **headers) as peer:
                assert (await peer.send("hello")).status.state is TaskState.COMPLETED
                with pytest.raises(UnsupportedOperationError):
                    await peer.stream_of("hello")
                with pytest.raises(PushNotificationNotSupportedError):
                    await peer.register("any")
                with pytest.raises(ContentTypeNotSupportedError):
                    await peer.send(RawPart(b"GIF89a", "image/gif"))


async def test_a_name_of_0_1_is_its_callers_own_and_tells_the_dialect() -> None:
    """Raw, because real callers of 0.1 name no version."""
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"]) as proxy,
            caller(proxy, V0_1, JSONRPC) as peer,
        ):
            await peer.send("hello", task_id="mine", context_id="session-1")
            body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "mine"}}
            mine = (await peer.http.post("/", json=body)).json()["result"]
            assert (mine["id"], mine["sessionId"], "kind" in mine) == ("mine", "session-1", False)
            task = await peer.send("ask", task_id="other", history_length=9)
            assert [message.task_id for message in task.history] == ["other"]
            events = [event async for event in peer.stream(ops.SEND_STREAMING_MESSAGE, answering(peer, "other"))]
            assert {event.task_id for event in events} == {"other"}
            again = [event async for event in peer.stream(ops.SEND_STREAMING_MESSAGE, answering(peer, "other"))]
            assert again[-1].status.state is TaskState.COMPLETED


def answering(peer: Any, name: str) -> r.SendMessageRequest:
    return peer.request(peer.message("blue", task_id=name))


async def test_a_task_that_the_agent_has_forgotten_begins_anew_for_0_1() -> None:
    with fail_after(30):
        async with AsyncExitStack() as stack:
            async with on_ports(App(conformance_agent("One"))) as place:
                proxy = await stack.enter_async_context(proxy_of(place["url"], bindings=[JSONRPC]))
                old = await stack.enter_async_context(caller(proxy, V0_1, JSONRPC))
                new = await stack.enter_async_context(caller(proxy, V1_0, JSONRPC))
                await old.send("ask", task_id="mine")
                task = await new.send("ask")
            with pytest.raises(UnavailableError, match="agent behind the proxy"):
                await new.send("hello")
            port = urlsplit(place["url"]).port or 0
            await stack.enter_async_context(on_ports(App(conformance_agent("One")), port=port))
            again = await old.send("hello", task_id="mine")
            assert (again.id, again.artifacts[0].parts) == ("mine", (TextPart("hello"),))
            with pytest.raises(TaskNotFoundError):
                await new.send("yes", task=task)


async def test_an_agent_that_is_not_there_is_told_from_one_that_speaks_nonsense() -> None:
    async def nonsense(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"[]"})

    with fail_after(30):
        async with serving(nonsense) as http:
            url = str(http.base_url)
            card = AgentCard("Odd", "", "1", (AgentInterface(url, JSONRPC, "1.0"),), AgentCapabilities(streaming=True))
            async with proxy_of(card) as proxy, caller(proxy, V1_0, JSONRPC) as peer:
                with pytest.raises(InvalidAgentResponseError):
                    await peer.send("hello")
                with pytest.raises(InvalidAgentResponseError):
                    await peer.stream_of("hello")
            with pytest.raises(DiscoveryError):
                async with proxy_of(url):
                    pass


async def test_an_extended_card_that_is_none_is_the_agents_fault() -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"jsonrpc":"2.0","id":1,"result":null}'})

    with fail_after(20):
        async with serving(nothing) as http:
            faces = (AgentInterface(str(http.base_url), JSONRPC, "1.0"),)
            card = AgentCard("Odd", "", "1", faces, AgentCapabilities(extended_card=True))
            async with proxy_of(card) as proxy, caller(proxy, V1_0, JSONRPC, authorization="Bearer x") as peer:
                with pytest.raises(InvalidAgentResponseError):
                    await peer.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())


async def test_the_webhook_without_an_id_is_found_at_an_agent_that_gives_ids() -> None:
    with fail_after(20):
        async with (
            on_ports(apps(["memory:"] * NUMBER_OF_APPS)["open"]) as place,
            proxy_of(place["url"], versions=[V1_0]) as proxy,
            caller(proxy, V0_3, JSONRPC) as peer,
        ):
            task = await peer.start("wait")
            with pytest.raises(TaskNotFoundError):
                await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id))
            await peer.register(task.id, id="one")
            assert (await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id))).id == "one"
            await peer.register(task.id)
            await peer.register(task.id, id="two")
            assert (await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id))).id == task.id
            await peer.register(task.id, id="default")
            for shown in ("default", task.id):
                found = await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "default"))
                assert found.id == shown
                await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "default"))
            await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "default"))
            page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
            assert [config.id for config in page.configs] == ["one", "two"]
            await peer.cancel(task.id)


async def test_many_callers_at_once_do_not_mix() -> None:
    with fail_after(30):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"]) as proxy,
            caller(proxy, V1_0, JSONRPC) as one,
            caller(proxy, V0_3, GRPC) as two,
        ):
            said = await asyncio.gather(*(peer.stream_of(f"count {n}") for n in range(1, 9) for peer in (one, two)))
            for number, events in enumerate(said):
                assert isinstance(events[0], Task)
                assert texts(events) == "".join(f"{n} " for n in range(number // 2 + 1))


async def test_tasks_that_went_through_are_listed_where_the_agents_dialect_has_no_list() -> None:
    with fail_after(30):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"], versions=[V0_3], bindings=[JSONRPC]) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            context = f"context-{uuid4()}"
            tasks = [await peer.send(text, context_id=context) for text in ("one", "ask", "three")]
            await peer.send("elsewhere")
            page = await peer.list(context_id=context, page_size=2)
            assert [task.id for task in page.tasks] == [tasks[2].id, tasks[1].id]
            assert (page.total_size, page.page_size, page.tasks[0].artifacts) == (3, 2, ())
            page = await peer.list(context_id=context, page_size=2, page_token=page.next_page_token)
            assert ([task.id for task in page.tasks], page.next_page_token) == ([tasks[0].id], "")
            page = await peer.list(state=TaskState.INPUT_REQUIRED, include_artifacts=True)
            assert [task.id for task in page.tasks] == [tasks[1].id]
            since = tasks[2].status.timestamp
            page = await peer.list(context_id=context, status_timestamp_after=since, include_artifacts=True)
            assert page.tasks[0].artifacts == tasks[2].artifacts
            with pytest.raises(InvalidParamsError):
                await peer.list(page_size=1_000)
            with pytest.raises(InvalidParamsError):
                await peer.list(page_token="nonsense")


async def test_a_list_leaves_out_what_the_agent_has_forgotten() -> None:
    async def read(remote_id: str) -> Task:
        raise TaskNotFoundError.for_task(remote_id)

    assert await TaskLister().page(["r-1"], read, r.ListTasksRequest()) == r.TaskPage((), "", 50, 0)


async def test_a_page_size_out_of_range_is_refused() -> None:
    async def read(remote_id: str) -> Task:
        raise AssertionError(remote_id)

    with pytest.raises(InvalidParamsError, match="between 1 and 100"):
        await TaskLister().page([], read, r.ListTasksRequest(page_size=101))


async def test_what_the_agent_refuses_for_another_reason_is_refused_for_that_reason() -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            proxy_of(place["url"]) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            task = await peer.send("ask")
            with pytest.raises(InvalidParamsError):
                await peer.send("yes", task=task, context_id="another")


async def test_an_agent_of_0_1_goes_on_with_a_task_for_newer_callers() -> None:
    """It streams no snapshot, and its sends cannot be cut short: the last one still waits when the proxy ends."""
    with fail_after(20):
        async with on_ports(App(conformance_agent("Open"))) as place:
            async with proxy_of(card_at(place, V0_1, JSONRPC)) as proxy, caller(proxy, V1_0, JSONRPC) as peer:
                task = await peer.send("ask")
                request = peer.request(peer.message("blue", task_id=task.id))
                first, *updates = [event async for event in peer.stream(ops.SEND_STREAMING_MESSAGE, request)]
                assert isinstance(first, Task)
                assert (first.id, first.status.state) == (task.id, TaskState.WORKING)
                assert texts(updates) == "blue"
                waiting = await peer.send("wait", return_immediately=True)
            async with caller(place, V0_1, JSONRPC) as old:
                assert (await old.cancel(waiting.id)).status.state is TaskState.CANCELED


# --- agents that do less than their callers may expect ----------------------------------------------------------------


Answers = Callable[[str, dict[str, Any]], dict[str, Any]]


def scripted(answer: Answers) -> Any:
    """An agent that answers each JSON-RPC method with what a function says: a result, or an error."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body"):
                break
        asked = json.loads(body)
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked["method"], asked["params"])}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": said})

    return app


@asynccontextmanager
async def proxied_script(
    answer: Answers, version: Version, *, push: bool = False, streaming: bool = True, **options: Any
) -> AsyncGenerator[Place]:
    async with serving(scripted(answer)) as http:
        faces = (AgentInterface(str(http.base_url), JSONRPC, version),)
        abilities = AgentCapabilities(streaming=streaming, push_notifications=push)
        card = AgentCard("Scripted", "", "1", faces, abilities)
        async with proxy_of(card, **options) as proxy:
            yield proxy


def old_task(state: str, task_id: str = "t-1") -> dict[str, Any]:
    return {"result": {"kind": "task", "id": task_id, "contextId": "c-1", "status": {"state": state}}}


async def test_a_caller_waits_for_an_agent_that_does_not_wait() -> None:
    states = iter(["submitted", "working", "completed"])
    with fail_after(20):
        async with (
            proxied_script(lambda *_: old_task(next(states)), V0_2) as proxy,
            caller(proxy, V1_0, GRPC) as peer,
        ):
            assert (await peer.send("hello")).status.state is TaskState.COMPLETED


async def test_who_does_not_want_to_wait_does_not() -> None:
    with fail_after(20):
        async with (
            proxied_script(lambda *_: old_task("submitted"), V0_2) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            assert (await peer.send("hello", return_immediately=True)).status.state is TaskState.SUBMITTED


@pytest.mark.parametrize("code", [-32600, -32602, -32004])
async def test_a_finished_task_is_told_from_a_bad_message_whatever_the_agent_calls_it(code: int) -> None:
    def answer(method: str, _: Any) -> dict[str, Any]:
        refusal = {"error": {"code": code, "message": "No."}}
        return refusal if method == "message/send" else old_task("completed")

    with fail_after(20):
        async with proxied_script(answer, V0_3) as proxy, caller(proxy, V1_0, JSONRPC) as peer:
            with pytest.raises(UnsupportedOperationError, match="has ended"):
                await peer.send("more", task_id="t-1")


@pytest.mark.parametrize("code", [-32004, -32601])
async def test_tasks_are_listed_although_the_agent_does_not_do_so(code: int) -> None:
    """fasta2a of 1.0 has no list."""

    def answer(method: str, _: Any) -> dict[str, Any]:
        task = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
        said = {"SendMessage": {"result": {"task": task}}, "GetTask": {"result": task}}
        return said.get(method, {"error": {"code": code, "message": "No."}})

    with fail_after(20):
        async with proxied_script(answer, V1_0) as proxy, caller(proxy, V1_0, JSONRPC) as peer:
            task = await peer.send("hello")
            assert [known.id for known in (await peer.list()).tasks] == [task.id]


async def test_a_task_that_has_ended_cannot_be_canceled_whatever_the_agent_answers() -> None:
    with fail_after(20):
        async with (
            proxied_script(lambda *_: old_task("completed"), V0_3) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            with pytest.raises(TaskNotCancelableError):
                await peer.cancel("t-1")


@pytest.mark.parametrize("code", [-32001, -32004, -32602])
async def test_a_task_that_ends_while_somebody_subscribes_is_told_to_its_end(code: int) -> None:
    """Between the look at the task and the subscription it has ended, and the agent lets nobody subscribe any more."""
    states = iter(["working", "completed"])

    def answer(method: str, _: Any) -> dict[str, Any]:
        refusal = {"error": {"code": code, "message": "No."}}
        return refusal if method == "tasks/resubscribe" else old_task(next(states))

    with fail_after(20):
        async with proxied_script(answer, V0_2) as proxy, caller(proxy, V1_0, JSONRPC) as peer:
            first, last = [event async for event in peer.subscribe("t-1")]
            assert (first.status.state, last.status.state) == (TaskState.WORKING, TaskState.COMPLETED)


async def test_ids_that_would_fill_the_memory_are_the_agents_fault() -> None:
    with fail_after(20):
        async with (
            proxied_script(lambda *_: old_task("completed", "t" * 2_000), V0_3) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            with pytest.raises(InvalidAgentResponseError, match="1024 characters"):
                await peer.send("hello")


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_caller_of_0_1_stops_by_its_name_what_it_waits_for(streaming: bool) -> None:
    """In 0.1 every send waits for its task to end."""
    with fail_after(20):
        async with on_ports(App(conformance_agent("Open"))) as place:
            card = card_at(place, V1_0, JSONRPC, streaming=streaming)
            async with proxy_of(card) as proxy, caller(proxy, V0_1, JSONRPC) as peer:
                sending = asyncio.create_task(peer.send("wait", task_id="mine"))
                while not await is_known(peer, "mine"):
                    await asyncio.sleep(0.01)
                assert (await peer.cancel("mine")).id == "mine"
                assert ((await sending).id, (await sending).status.state) == ("mine", TaskState.CANCELED)


@pytest.mark.parametrize("behind", [JSONRPC, GRPC], ids=str)
async def test_a_task_goes_on_when_its_caller_leaves_and_nobody_reads_its_stream(behind: Binding) -> None:
    with fail_after(20):
        app = App(conformance_agent("Open"))
        async with (
            on_ports(app) as place,
            proxied(card_at(place, V1_0, behind), guard=Guard(allow_private=True)) as proxy_app,
            on_ports(proxy_app) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            request = peer.request(peer.message("wait"))
            async with aclosing(peer.stream(ops.SEND_STREAMING_MESSAGE, request)) as events:
                task = await anext(events)
                assert proxy_app.engine.runs.working == 1
            while proxy_app.engine.runs.working or len(app.monitor):
                await asyncio.sleep(0.01)
            assert app.engine.runs.working == 1
            assert (await peer.cancel(task.id)).status.state is TaskState.CANCELED


async def is_known(peer: Any, name: str) -> bool:
    try:
        await peer.get(name)
    except TaskNotFoundError:
        return False
    return True


async def test_reading_and_listing_make_nobody_forget_a_name() -> None:
    """Only what is begun here is remembered: what others have begun may be any number."""
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            caller(place, V1_0, JSONRPC) as direct,
            proxy_of(place["url"], ledger=Ledger(size=3)) as proxy,
            caller(proxy, V0_1, JSONRPC) as old,
            caller(proxy, V1_0, JSONRPC) as new,
        ):
            await old.send("hello", task_id="mine")
            others = [await direct.send("hello") for _ in range(4)]
            assert len((await new.list()).tasks) == 5
            for task in others:
                await new.get(task.id)
            assert (await old.get("mine")).id == "mine"
