"""Requests to a webhook, over HTTP and from other frameworks: the challenge, hostile bodies, repeats and restarts."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from parley.client.webhooks.held_bodies import TooManyBodiesError, UnverifiedBodies
from parley.client.webhooks.notification import PushNotification
from parley.client.webhooks.receiver import WebhookReceiver
from parley.client.webhooks.seen import Delivery, DeliveryVerdict, SqliteSeen
from parley.client.webhooks.standard_webhooks import new_secret
from parley.dialects.registry import DIALECTS
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from tests.client.scripted_agent import TASK, status
from tests.client.test_webhooks import Inbox, posted
from tests.client.webhook_sender import signed_headers
from tests.deadlines import fail_after
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

HOOK = "https://me.example/hook"
TOKEN = {"X-A2A-Notification-Token": "secret"}
FIRST = {**TOKEN, "Parley-Event-Id": f"{TASK}:1"}
WORKING = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.WORKING))


def receiver(inbox: Inbox, **options: Any) -> WebhookReceiver:
    return WebhookReceiver(PushConfig(HOOK, token="secret"), inbox, **options)


# --- the challenge ----------------------------------------------------------------------------------------------------


async def test_the_challenge_is_answered_as_plain_text() -> None:
    async with serving(receiver(Inbox())) as http:
        answer = await http.get("/hook?a=1&validationToken=aZ09._~-")
    assert (answer.status_code, answer.text) == (200, "aZ09._~-")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "query",
    [
        "validationToken=",
        "validationToken=%3Cscript%3Ealert(1)%3C/script%3E",
        "validationToken=a%0d%0aSet-Cookie:%20x=1",
        "validationToken=a%00b",
        "validationToken=a+b",
        "validationToken=a%22b",
        "validationToken=%C3%A9",
        "validationToken=%EF%BC%A1",
        "validationToken=" + "a" * 257,
        "validationToken=a&validationToken=b",
        "validationToken",
        "validationToken=a%0A",
    ],
    ids=lambda query: query[:50],
)
async def test_a_hostile_challenge_is_not_repeated(query: str) -> None:
    for url in (query, f"?{query}", f"/hook?{query}", f"https://me.example/hook?{query}"):
        answer = await receiver(Inbox()).answer("GET", url, {}, b"")
        assert (answer.status, answer.body, answer.headers) == (400, b"", {})


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "/hook"),
        ("GET", "/hook?ValidationToken=a"),
        ("GET", "/validationToken=a"),
        ("GET", "?" + "a=1&" * 200),
        ("HEAD", "/hook?validationToken=a"),
        ("PUT", "/hook"),
        ("OPTIONS", "/hook?validationToken=a"),
    ],
    ids=lambda word: word[:30],
)
async def test_other_methods_are_refused(method: str, url: str) -> None:
    answer = await receiver(Inbox()).answer(method, url, TOKEN, WORKING)
    assert (answer.status, answer.headers, answer.body) == (405, {"allow": "GET, POST"}, b"")


# --- hostile bodies ---------------------------------------------------------------------------------------------------


async def test_of_a_hundred_megabytes_no_more_than_the_bound_is_kept() -> None:
    inbox = Inbox()
    hook = receiver(inbox, max_bytes=1_000_000)
    chunk, sent = b"x" * 65_536, 0

    async def body() -> Any:
        nonlocal sent
        for _ in range(1_600):
            sent += len(chunk)
            yield {"type": "http.request", "body": chunk, "more_body": True}

    pieces, answers = body(), list[Any]()

    async def keep(message: Any) -> None:
        answers.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in TOKEN.items()]
    tracemalloc.start()
    await hook({"type": "http", "method": "POST", "headers": headers}, pieces.__anext__, keep)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answers[0]["status"] == 413
    assert sent <= 1_000_000 + len(chunk)
    assert peak < 8_000_000
    sent = 0
    announced = [*headers, (b"content-length", b"104857600")]
    await hook({"type": "http", "method": "POST", "headers": announced}, body().__anext__, keep)
    assert (answers[2]["status"], sent) == (413, 0)
    assert (await hook.answer("POST", "/", TOKEN, b"x" * 1_000_001)).status == 413
    assert inbox.got == []


async def test_one_agent_cannot_fill_the_memory_with_many_long_bodies_at_once() -> None:
    """They add up while the first one is handled, also if its card changes; other agents are not concerned."""
    inbox, size = Inbox(), 4_000_000
    inbox.may_go_on.clear()
    hook = WebhookReceiver("https://me.example/hook", inbox, max_bytes=4 * 1024 * 1024)
    one = hook.register("https://one.example", AgentCard("A", "", "1", ()), _no_keys, lambda url: False)
    interfaces = (AgentInterface("https://new.example", Binding.JSONRPC, Version.V1_0),)
    changed = hook.register("https://one.example", AgentCard("A", "", "2", interfaces), _no_keys, lambda url: False)
    other = hook.register("https://other.example", AgentCard("B", "", "1", ()), _no_keys, lambda url: False)
    long = WORKING[:-1] + b" " * (size - len(WORKING)) + WORKING[-1:]

    async def answered(config: PushConfig, number: int, body: bytes) -> int:
        headers = {"X-A2A-Notification-Token": config.token or "", "Parley-Event-Id": f"{TASK}:{number}"}
        return (await hook.answer("POST", "/", headers, body)).status

    with fail_after(10):
        first = [asyncio.create_task(answered(one, number, long)) for number in range(4)]
        await asyncio.sleep(0)
        assert await answered(one, 4, long) == 503
        assert await answered(changed, 4, long) == 503
        theirs = asyncio.create_task(answered(other, 1, long))
        inbox.may_go_on.set()
        assert await asyncio.gather(*first, theirs) == [204] * 5
        assert await answered(one, 4, long) == 204


class Stranger:
    """A request at a receiver of signed notifications whose body is all there but for its end."""

    def __init__(self, hook: WebhookReceiver, size: int) -> None:
        self._pieces = [b"x" * size]
        self.is_read = asyncio.Event()
        self.may_end = asyncio.Event()
        self.status = 0
        signed = signed_headers(new_secret(), body=b"", delivery_id="msg_x")
        fields = [(name.encode(), value.encode()) for name, value in signed.items()]
        self.request = asyncio.create_task(
            hook({"type": "http", "method": "POST", "headers": fields}, self._receive, self._send)
        )

    async def _receive(self) -> Any:
        if self._pieces:
            return {"type": "http.request", "body": self._pieces.pop(), "more_body": True}
        self.is_read.set()
        await self.may_end.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


async def test_strangers_cannot_use_up_the_memory_for_an_agents_signed_bodies() -> None:
    """Their bodies must be read to find out. Above the bound, the request that began first ends, not the newest."""
    inbox, secret = Inbox(), new_secret()
    hook = WebhookReceiver.hmac(HOOK, inbox, secret=secret, max_bytes=4 * 1024 * 1024)

    async def answered(body: bytes, delivery_id: str, signed_by: str = secret) -> int:
        return await posted(hook, signed_headers(signed_by, body=body, delivery_id=delivery_id), body)

    with fail_after(10):
        strangers = [Stranger(hook, 4 * 1024 * 1024) for _ in range(4)]
        for stranger in strangers:
            await stranger.is_read.wait()
        assert await answered(WORKING, "msg_1") == 204
        await strangers[0].request
        latest = Stranger(hook, 4 * 1024 * 1024)
        await latest.is_read.wait()
        assert [stranger.status for stranger in (*strangers, latest)] == [503, 0, 0, 0, 0]
        assert await answered(WORKING, "msg_2", signed_by=new_secret()) == 401
        await strangers[1].request
        for stranger in (*strangers[2:], latest):
            stranger.may_end.set()
            await stranger.request
        assert [stranger.status for stranger in (*strangers, latest)] == [503, 503, 401, 401, 401]
    assert [notification.id for notification in inbox.got] == ["msg_1"]


async def test_of_unverified_bodies_no_more_than_the_bound_is_kept() -> None:
    bodies = UnverifiedBodies(10)
    async with bodies.request() as hold:
        hold(6)
        with pytest.raises(TooManyBodiesError):
            hold(5)  # it is the oldest itself
    async with bodies.request() as first, bodies.request() as second:
        first(6)
        second(5)
        with pytest.raises(TooManyBodiesError):
            first(1)  # this piece was here before the request could be ended
        second(5)
    async with bodies.request() as hold:
        hold(10)


async def test_a_signed_body_counts_for_its_agent_once_the_signature_is_verified() -> None:
    inbox, secret, size = Inbox(), new_secret(), 4_000_000
    inbox.may_go_on.clear()
    hook = WebhookReceiver.hmac(HOOK, inbox, secret=secret, max_bytes=4 * 1024 * 1024)
    long = WORKING[:-1] + b" " * (size - len(WORKING)) + WORKING[-1:]

    async def answered(number: int, signed_by: str = secret) -> int:
        headers = signed_headers(signed_by, body=long, delivery_id=f"msg_{number}")
        return (await hook.answer("POST", "/", headers, long)).status

    with fail_after(10):
        first = [asyncio.create_task(answered(number)) for number in range(4)]
        await asyncio.sleep(0)
        assert await answered(4) == 503
        assert await answered(4, signed_by=new_secret()) == 401
        inbox.may_go_on.set()
        assert await asyncio.gather(*first) == [204] * 4
        assert await answered(4) == 204


async def _no_keys(url: str) -> bytes:
    raise AssertionError("no signed token is offered")


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    answers: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def keep(message: Any) -> None:
        answers.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in TOKEN.items()]
    with fail_after(5):
        hook = receiver(Inbox(), body_seconds=0.01)
        await hook({"type": "http", "method": "POST", "headers": headers}, never, keep)
    assert answers[0]["status"] == 408


@pytest.mark.parametrize("length", ["-1", "many", "9" * 5_000, "１２"])
async def test_a_strange_length_is_no_problem(length: str) -> None:
    answer = await posted(receiver(Inbox(), max_bytes=10_000), {**TOKEN, "Content-Length": length}, WORKING)
    assert answer == (413 if length.startswith("9") else 204)


@pytest.mark.parametrize("body", [b"", b"[" * 100_000, b'{"a":' * 10_000, b"\xff\xfe", b"null", b"0" * 5_000])
async def test_a_body_that_is_no_notification_is_refused(body: bytes) -> None:
    assert await posted(receiver(Inbox()), TOKEN, body) == 400


async def test_header_injection_reaches_no_answer() -> None:
    """What a stranger writes into headers is neither repeated nor a reason to fail."""
    headers = {
        "X-A2A-Notification-Token": "secret\r\nX: y",
        "Parley-Event-Id": "a\r\nSet-Cookie: b=c",
        "webhook-id": "\r\n\r\n",
        "authorization": "Bearer \x00\r\n",
    }
    answer = await receiver(Inbox()).answer("POST", "/hook\r\nX: y", headers, WORKING)
    assert answer == (401, {}, b"")


# --- other frameworks -------------------------------------------------------------------------------------------------


def test_threads_without_an_event_loop_share_one_receiver() -> None:
    got: list[Any] = []
    threads: set[int] = set()

    async def handle(notification: Any) -> None:
        await asyncio.sleep(0)
        threads.add(threading.get_ident())
        got.append(notification)

    hook = WebhookReceiver(PushConfig(HOOK, token="secret"), handle)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: hook.answer_blocking("post", "/hook", FIRST, WORKING), range(200)))
    assert [answer.status for answer in answers] == [204] * 200
    assert (len(got), len(threads)) == (1, 1)
    assert hook.answer_blocking("GET", "/hook?validationToken=abc", {}, b"").body == b"abc"
    hook.close()


# --- memory of what was handled ---------------------------------------------------------------------------------------


async def test_a_file_remembers_after_a_restart(tmp_path: Path) -> None:
    inbox = Inbox()
    other = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.COMPLETED))
    for round_, expected in enumerate([[204, 204, 409], [204, 204, 409]]):
        seen = SqliteSeen(tmp_path / "seen.db")
        hook = receiver(inbox, seen=seen)
        answers = [await posted(hook, FIRST, body) for body in (WORKING, WORKING, other)]
        assert answers == expected, round_
        seen.close()
    assert len(inbox.got) == 1


async def test_what_is_remembered_of_a_delivery_is_short_whatever_its_sender_names() -> None:
    """An agent that notifies us chooses ids and tasks: a thousand large ones must not fill the memory."""

    async def ignore(notification: PushNotification) -> None:
        pass

    hook = WebhookReceiver(PushConfig("https://me.example/hook", token="secret"), ignore)

    async def notify(number: int) -> None:
        update = structs.replace(status(TaskState.WORKING), task_id=f"{number}{'t' * 100_000}")
        headers = {**TOKEN, "Parley-Event-Id": f"{'i' * 10_000}-{number}"}
        assert await hook.receive(headers, DIALECTS[Version.V1_0].pushes.encode(update))

    await notify(0)
    tracemalloc.start()
    try:
        for number in range(1, 51):
            await notify(number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 200_000


async def test_a_file_forgets_what_is_old(tmp_path: Path) -> None:
    now = [0.0]
    seen = SqliteSeen(tmp_path / "seen.db", kept_seconds=100, now=lambda: now[0])
    first, second = Delivery("s", "one", b"1"), Delivery("s", "two", b"2")
    await seen.add(first)
    now[0] = 99.0
    await seen.add(second)
    assert await seen.judge(first) is DeliveryVerdict.REPEAT
    now[0] = 101.0
    await seen.add(second)
    assert (await seen.judge(first), await seen.judge(second)) == (DeliveryVerdict.NEW, DeliveryVerdict.REPEAT)
    assert await seen.judge(Delivery("other", "two", b"2")) is DeliveryVerdict.NEW
    seen.close()


async def test_an_event_below_the_last_one_is_new_in_a_file_unless_it_was_handled(tmp_path: Path) -> None:
    seen = SqliteSeen(tmp_path / "seen.db")
    await seen.add(Delivery("s", "t:4", b"", "t", 4))
    verdicts = [await seen.judge(Delivery("s", f"t:{number}", b"", "t", number)) for number in (3, 4, 5)]
    assert verdicts == [DeliveryVerdict.NEW, DeliveryVerdict.REPEAT, DeliveryVerdict.NEW]
    assert await seen.judge(Delivery("s", "u:1", b"", "u", 1)) is DeliveryVerdict.NEW
    seen.close()
