"""Webhooks that the proxy calls: what the agent tells in its dialect reaches each caller in its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest
from msgspec import structs

from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import InternalError, TaskNotFoundError, UnavailableError, UnsupportedOperationError
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.proxy import upstream_webhooks
from parley.proxy.id_mapping import IdMapping
from parley.proxy.trace import Direction, Trace, TraceLine
from parley.proxy.upstream import Upstream
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from tests.conformance.matrix import GRPC, JSONRPC, REST, V0_1, V0_2, V0_3, V1_0
from tests.conformance.peer import Peer
from tests.conformance.serve import conformance_agent
from tests.deadlines import fail_after
from tests.proxy.proxies import Place, caller, card_at, on_ports, relay_of
from tests.proxy.test_authentication import ALICE, BOB, bearer, tokens
from tests.proxy.test_conversations import proxied_script
from tests.proxy.test_old_sdk import old_process
from tests.server.serving import serving

pytestmark = pytest.mark.anyio


class Hook:
    """A caller's webhook: what it was told, in the order in which it was."""

    def __init__(self) -> None:
        self.url = ""
        self._told: asyncio.Queue[tuple[dict[str, str], Any]] = asyncio.Queue()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._told.put_nowait((headers, json.loads(body)))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def until(self, is_last: Callable[[Any], bool]) -> list[tuple[dict[str, str], Any]]:
        """All that it is told up to a certain body."""
        told = [await self._told.get()]
        while not is_last(told[-1][1]):
            told.append(await self._told.get())
        return told


@asynccontextmanager
async def hook() -> AsyncGenerator[Hook]:
    receiver = Hook()
    async with serving(receiver) as http:
        receiver.url = f"{str(http.base_url).rstrip('/')}/hook"
        yield receiver


def open_app() -> App:
    return App(conformance_agent("Open"), webhooks=WebhookPolicy(allow_private=True))


def has_ended(body: Any) -> bool:
    """Whether a body of any dialect says that a task is completed."""
    state = body["statusUpdate"]["status"]["state"] if "statusUpdate" in body else body.get("status", {}).get("state")
    return state in ("completed", "TASK_STATE_COMPLETED")


def said_in(bodies: list[Any]) -> str:
    """The text of the chunks of 1.0, or of the last task of older dialects."""
    chunks = [body["artifactUpdate"]["artifact"] for body in bodies if "artifactUpdate" in body]
    artifacts = chunks or bodies[-1].get("artifacts", [])
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


async def send_with(peer: Peer, config: PushConfig, text: str = "count 3", **fields: Any) -> Any:
    request = peer.request(peer.message(text, **fields))
    configuration = structs.replace(request.configuration, push_config=config)
    return await peer.call(ops.SEND_MESSAGE, structs.replace(request, configuration=configuration))


async def webhooks_of(reader: Peer, task_id: str) -> list[PushConfig]:
    """A task's webhooks, as this reader sees them."""
    page: Any = await reader.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task_id))
    return list(page.configs)


@pytest.mark.parametrize(
    ("version", "binding"), [(V0_1, JSONRPC), (V0_2, JSONRPC), (V0_3, GRPC), (V1_0, REST)], ids=str
)
async def test_a_caller_is_told_in_its_own_dialect(version: Version, binding: Binding) -> None:
    with fail_after(30):
        async with on_ports(open_app()) as place, relay_of(card_at(place, version, binding)) as proxy, hook() as told:
            for spoken, over in ((V1_0, GRPC), (V0_3, REST), (V0_1, JSONRPC)):
                async with caller(proxy, spoken, over) as peer:
                    fields = {"task_id": "mine"} if spoken is V0_1 else {}
                    task = await send_with(peer, PushConfig(told.url, token="token-1"), **fields)
                    entries = await told.until(has_ended)
                    bodies = [body for _, body in entries]
                    assert {headers["x-a2a-notification-token"] for headers, _ in entries} == {"token-1"}
                    assert said_in(bodies) == "0 1 2 "
                    if spoken is V1_0:
                        (name,) = {next(iter(body.values()))["taskId"] for body in bodies}
                    else:
                        (name,) = {body["id"] for body in bodies}
                        assert all(("kind" in body) is (spoken is V0_3) for body in bodies)
                    assert name == task.id


async def test_a_webhook_of_a_task_that_is_at_work_is_told_what_comes_then() -> None:
    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(card_at(place, V0_3, JSONRPC)) as proxy,
            hook() as told,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            task = await peer.start("hold", context_id="context-1")
            config = await peer.register(task.id, told.url, id="one")
            assert (config.url, config.id, config.task_id) == (told.url, "one", task.id)
            await peer.send("open", context_id="context-1")
            bodies = [body for _, body in await told.until(has_ended)]
            assert said_in(bodies) in ("after", "before after")


async def test_the_agent_learns_nothing_of_its_callers_webhooks() -> None:
    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"]) as proxy,
            hook() as told,
            caller(proxy, V1_0, JSONRPC) as peer,
            caller(place, V1_0, JSONRPC) as direct,
        ):
            task = await peer.start("wait")
            secret = PushAuthentication(("Bearer",), "secret-1")
            assert await webhooks_of(peer, task.id) == []
            with pytest.raises(TaskNotFoundError):
                await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "one"))
            await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "one"))
            one = await peer.register(task.id, told.url, id="one", token="secret-2", authentication=secret)
            two = await peer.register(task.id, told.url, id="two")
            assert await webhooks_of(peer, task.id) == [one, two]
            assert await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "one")) == one
            (at_the_agent,) = await webhooks_of(direct, task.id)
            assert at_the_agent.url.startswith(f"{proxy['url']}/.parley/notifications/")
            assert "secret" not in repr(at_the_agent)
            await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "one"))
            assert len(await webhooks_of(direct, task.id)) == 1
            await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "two"))
            assert (await webhooks_of(direct, task.id), await webhooks_of(peer, task.id)) == ([], [])
            with pytest.raises(TaskNotFoundError):
                await peer.register("absent", told.url)


async def test_a_webhook_of_an_answer_is_one_more_of_its_task() -> None:
    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"]) as proxy,
            hook() as first,
            hook() as second,
            caller(proxy, V1_0, JSONRPC) as peer,
            caller(place, V1_0, JSONRPC) as direct,
        ):
            task = await send_with(peer, PushConfig(first.url, id="one"), "ask")
            await send_with(peer, PushConfig(second.url, id="two"), "blue", task_id=task.id)
            for told in (first, second):
                bodies = [body for _, body in await told.until(has_ended)]
                assert said_in(bodies) == "blue"
            for reader, count in ((peer, 2), (direct, 1)):
                assert len(await webhooks_of(reader, task.id)) == count
            with pytest.raises(UnsupportedOperationError):
                await send_with(peer, PushConfig(second.url, id="three"), "more", task_id=task.id)
            assert [config.id for config in await webhooks_of(peer, task.id)] == ["one", "two"]


async def test_webhooks_that_are_registered_at_once_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the agent is told of one, however many come before it has answered."""
    names = [f"hook-{number}" for number in range(5)]
    here, all_here = [0], asyncio.Event()
    find, read = IdMapping.for_task, Upstream.read

    def counted(self: IdMapping, request: Any, *others: Any) -> Any:
        here[0] += isinstance(request, r.CreatePushConfigRequest)
        if here[0] == len(names):
            all_here.set()
        return find(self, request, *others)

    async def read_when_all_are_here(self: Upstream, *values: Any) -> Any:
        await all_here.wait()
        return await read(self, *values)

    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"]) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
            caller(place, V1_0, JSONRPC) as direct,
        ):
            task = await peer.send("hello")
            monkeypatch.setattr(IdMapping, "for_task", counted)
            monkeypatch.setattr(Upstream, "read", read_when_all_are_here)
            await asyncio.gather(*(peer.register(task.id, "http://127.0.0.1:9/hook", id=name) for name in names))
            assert [config.id for config in await webhooks_of(peer, task.id)] == names
            assert len(await webhooks_of(direct, task.id)) == 1


async def test_webhooks_are_their_callers_own() -> None:
    with fail_after(30):
        door = tokens(alice=ALICE, bob=BOB)
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"], security=door) as proxy,
            hook() as told,
            caller(proxy, V0_1, JSONRPC, **bearer(ALICE)) as alice,
            caller(proxy, V0_1, JSONRPC, **bearer(BOB)) as bob,
        ):
            for peer, text in ((alice, "count 1"), (bob, "count 2")):
                await send_with(peer, PushConfig(told.url), text, task_id="mine", context_id="session-1")
                bodies = [body for _, body in await told.until(has_ended)]
                assert (bodies[-1]["id"], bodies[-1]["sessionId"]) == ("mine", "session-1")
                assert said_in(bodies) == "0 1 "[: 2 if peer is alice else 4]


async def test_a_task_of_0_1_that_begins_again_is_told_of_anew() -> None:
    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(card_at(place, V0_3, JSONRPC)) as proxy,
            hook() as told,
            caller(proxy, V0_1, JSONRPC) as peer,
        ):
            for text, said in (("count 1", "0 "), ("count 2", "0 1 ")):
                await send_with(peer, PushConfig(told.url), text, task_id="mine")
                bodies = [body for _, body in await told.until(has_ended)]
                assert ({body["id"] for body in bodies}, said_in(bodies)) == ({"mine"}, said)


async def test_artifacts_that_were_taken_back_are_told_as_they_are_now() -> None:
    """Raw, because no agent of the tests takes anything back."""

    def artifacts(*names: str) -> list[Any]:
        return [{"artifactId": name, "parts": [{"kind": "text", "text": name}]} for name in names]

    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(card_at(place, V0_3, JSONRPC)) as proxy,
            hook() as told,
            caller(proxy, V1_0, JSONRPC) as peer,
            httpx2.AsyncClient() as http,
        ):
            task = await peer.start("wait")
            await peer.register(task.id, told.url)
            inbox = await inbox_of(place, task.id)
            about = {"kind": "task", "id": task.id, "contextId": task.context_id}
            for state, names in (("working", ("a", "b")), ("completed", ("b", "c"))):
                body = {**about, "status": {"state": state}, "artifacts": artifacts(*names)}
                assert (await http.post(inbox, json=body)).status_code == 200
            bodies = [body for _, body in await told.until(has_ended)]
            assert said_in(bodies) == "abbc"
            await peer.cancel(task.id)


async def inbox_of(place: Place, task_id: str) -> str:
    """What the agent was told to call."""
    async with caller(place, V1_0, JSONRPC) as direct:
        (config,) = await webhooks_of(direct, task_id)
        return config.url


async def test_an_inbox_takes_nothing_but_what_the_agent_tells_of_its_task() -> None:
    """Raw, because the agent of the test tells nothing wrong."""
    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"]) as proxy,
            hook() as told,
            caller(proxy, V1_0, JSONRPC) as peer,
            httpx2.AsyncClient() as http,
        ):
            task = await peer.start("wait")
            await peer.register(task.id, told.url)
            inbox = await inbox_of(place, task.id)

            async def status(url: str, body: Any) -> int:
                return (await http.post(url, json=body)).status_code

            def of(task_id: str, state: str = "COMPLETED") -> Any:
                status = {"state": f"TASK_STATE_{state}"}
                return {"statusUpdate": {"taskId": task_id, "contextId": task.context_id, "status": status}}

            assert await status(f"{proxy['url']}/.parley/notifications/guess", of(task.id)) == 404
            assert await status(inbox, of("another")) == 400
            assert await status(inbox, {"nonsense": True}) == 400
            assert await status(inbox, of(task.id, "SUBMITTED")) == 400  # it is at work already
            assert (await http.post(inbox, content=b"{", headers={"content-type": "text/plain"})).status_code == 415
            proof = await http.get(inbox, params={"validationToken": "proof-1"})
            assert (proof.status_code, proof.text) == (200, "proof-1")
            assert (await peer.get(task.id)).status.state is TaskState.WORKING
            assert await status(inbox, of(task.id)) == 200
            ((_, body),) = await told.until(has_ended)
            assert body["statusUpdate"]["taskId"] == task.id
            assert await status(inbox, of(task.id)) == 200  # nothing follows an end
            await peer.cancel(task.id)


async def test_a_direct_reply_or_a_failed_send_leaves_no_inbox() -> None:
    told: list[str] = []
    part = {"kind": "text", "text": "hi"}
    reply = {"result": {"kind": "message", "messageId": "m-1", "role": "agent", "parts": [part]}}
    answers = iter([reply, {"error": {"code": -32603, "message": "No."}}])

    def answer(_: str, params: Any) -> Any:
        told.append(params["configuration"]["pushNotificationConfig"]["url"])
        return next(answers)

    config, url = PushConfig("http://127.0.0.1:9/hook"), "http://127.0.0.1:9"
    with fail_after(20):
        async with (
            proxied_script(answer, V0_3, push=True, webhook_url=url) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
            httpx2.AsyncClient() as http,
        ):
            await send_with(peer, config)
            with pytest.raises(InternalError):
                await send_with(peer, config)
            assert len(told) == 2
            for inbox in told:
                assert (await http.post(inbox.replace(url, proxy["url"]), json={})).status_code == 404


async def test_notifications_are_in_the_trace_on_both_sides() -> None:
    lines: list[TraceLine] = []
    with fail_after(20):
        async with (
            on_ports(open_app()) as place,
            relay_of(card_at(place, V0_3, JSONRPC), trace=Trace(lines.append)) as proxy,
            hook() as told,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            await send_with(peer, PushConfig(f"{told.url}?key=secret-1", token="secret-2"), "hello")
            await told.until(has_ended)
    pushed = [line for line in lines if line.kind == "push"]
    assert {(line.direction, line.version) for line in pushed} == {
        (Direction.AGENT_TO_PROXY, "0.3"),
        (Direction.PROXY_TO_CALLER, "1.0"),
    }
    assert "secret" not in msgspec.json.encode(lines).decode()


async def test_an_agent_that_does_not_take_the_proxys_webhook_is_said_to_be_the_reason() -> None:
    """The agent calls public webhooks only, and the proxy of the test is at home."""
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            relay_of(place["url"]) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            task = await peer.send("hello")
            with pytest.raises(UnavailableError, match="proxy's own webhook"):
                await peer.register(task.id, "http://127.0.0.1:9/hook")
            assert await webhooks_of(peer, task.id) == []


@pytest.mark.parametrize("limit", ["MAX_WEBHOOKS", "MAX_BYTES"])
async def test_who_has_too_many_tasks_with_webhooks_loses_the_oldest(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(upstream_webhooks, limit, 2 if limit == "MAX_WEBHOOKS" else 3_000)
    with fail_after(20):
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"]) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            tasks = [await peer.send("hello") for _ in range(3)]  # each of them four events of some 500 bytes
            for task in tasks:
                await peer.register(task.id, "http://127.0.0.1:9/hook")
            known = [len(await webhooks_of(peer, task.id)) for task in tasks]
            assert known == ([0, 1, 1] if limit == "MAX_WEBHOOKS" else [0, 0, 1])


async def test_all_webhooks_together_keep_a_bounded_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeats without news, under new ids, are not in the log. Raw, because the agent of the test sends none."""
    monkeypatch.setattr(upstream_webhooks, "MAX_IDS", 4)
    with fail_after(30):
        async with (
            on_ports(open_app()) as place,
            relay_of(place["url"]) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
            httpx2.AsyncClient() as http,
        ):
            one, other = await peer.start("wait"), await peer.start("wait")
            for task in (one, other):
                await peer.register(task.id, "http://127.0.0.1:9/hook")
            inboxes = {task.id: await inbox_of(place, task.id) for task in (one, other)}

            async def status(task: Any, event_id: str, space: str = "") -> int:
                update = {"taskId": task.id, "contextId": task.context_id, "status": {"state": "TASK_STATE_WORKING"}}
                body, headers = json.dumps({"statusUpdate": update}) + space, {"content-type": "application/json"}
                headers["parley-event-id"] = event_id
                return (await http.post(inboxes[task.id], content=body, headers=headers)).status_code

            async def is_kept(task: Any, event_id: str) -> bool:
                """Another body under the same id is refused."""
                return await status(task, event_id, " ") == 400

            assert await status(one, "0") == 200
            assert [await status(other, f"{number}") for number in range(6)] == [200] * 6
            assert await is_kept(one, "0")
            assert [await is_kept(other, f"{number}") for number in (5, 4, 3)] == [True] * 3
            assert not await is_kept(other, "2")
            (config,) = await webhooks_of(peer, one.id)
            await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(one.id, config.id or ""))
            assert [await status(other, name) for name in "abcd"] == [200] * 4
            assert [await is_kept(other, name) for name in "abcd"] == [True] * 4
            await peer.cancel(one.id)
            await peer.cancel(other.id)


@pytest.mark.parametrize("sdk", ["a2a-sdk-0.2.16", "a2a-sdk-0.3.26"])
async def test_an_agent_of_an_old_sdk_notifies_callers_of_1_0(sdk: str) -> None:
    with fail_after(30), old_process("server_sdk_pydantic.py", "push", sdk=sdk) as url:
        async with relay_of(url) as proxy, hook() as told, caller(proxy, V1_0, GRPC) as peer:
            task = await send_with(peer, PushConfig(told.url, token="token-1"), "echo hello")
            entries = await told.until(has_ended)
            assert said_in([body for _, body in entries]) == "hello"
            assert {next(iter(body.values()))["taskId"] for _, body in entries} == {task.id}
            assert entries[0][0]["content-type"] == "application/a2a+json"
