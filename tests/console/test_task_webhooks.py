"""Webhooks over the console's API: their state, and "send again"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from parley.cluster.hints import LocalHints
from parley.engine.clock import SystemClock
from parley.engine.engine import Engine
from parley.engine.webhooks.deliveries import Deliveries, DeliveryError
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey
from parley.stores.memory import MemoryDatabase, MemoryStore
from tests.console.consoles import Browser, console_of
from tests.console.test_task_lists import OWNER, echo_agent, put_task
from tests.console.test_task_logs import append, chunk, get
from tests.deadlines import fail_after
from tests.server.test_webhooks import ANYWHERE, answer, receiving
from tests.server.test_webhooks import Receiver as HttpReceiver

pytestmark = pytest.mark.anyio

KEY = TaskKey(OWNER, "t-1")
HOOK = PushConfig(
    "https://user:pw@hooks.example/T0/secret", "t-1", "hook", "token", PushAuthentication(("Bearer",), "s3cret")
)


class Receiver:
    """A webhook that refuses while it is told to."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.error: DeliveryError | None = None
        self.changed = asyncio.Event()

    async def send(self, notification: Any) -> None:
        self.changed.set()
        if self.error is not None:
            raise self.error
        self.got.append(notification.seq)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


async def only(browser: Browser) -> dict[str, Any]:
    (webhook,) = (await get(browser, "t-1/webhooks?agent=echo"))["webhooks"]
    return webhook


def events_of(receiver: HttpReceiver) -> list[int]:
    """The numbers of the events that a webhook was sent."""
    return [int(headers["parley-event-id"].rpartition(":")[2]) for _, headers, _ in receiver.requests]


def hook_at(receiver: HttpReceiver) -> PushConfig:
    return structs.replace(HOOK, url=receiver.url())


async def until_state(browser: Browser, state: str) -> dict[str, Any]:
    while (shown := await only(browser))["state"] != state:
        await asyncio.sleep(0.01)
    return shown


async def test_a_webhook_shows_how_far_it_is_and_no_secrets() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.INPUT_REQUIRED)
        await store.outbox.put(KEY, HOOK)
        assert await only(browser) == {
            "id": "hook",
            "url": "https://hooks.example/…",
            "version": "1.0",
            "has_token": True,
            "authentication": "Bearer",
            "delivered": 3,
            "last": 3,
            "state": "up_to_date",
            "dead_letters": 0,
            "failures": 0,
            "last_error": None,
            "last_attempt_at": None,
            "next_attempt_at": None,
            "paused_since": None,
        }
        await append(store, "t-1", 3, chunk("t-1", "more", append=False))
        assert (await only(browser))["state"] == "waiting"


async def test_events_are_sent_again_from_a_number_on() -> None:
    async with receiving() as receiver, console_of(echo_agent(), webhooks=ANYWHERE) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.INPUT_REQUIRED, artifact=("one", "two"))
        await store.outbox.put(KEY, hook_at(receiver))
        reply = await browser.post("/console/api/tasks/t-1/webhooks/hook/send?agent=echo", {"after": 3})
        assert reply.status_code == 200, reply.text
        await receiver.until(2)
        await until_state(browser, "up_to_date")
        await browser.post("/console/api/tasks/t-1/webhooks/hook/send", {})
        assert events_of(receiver) == [4, 5]
        for path, body, status in (
            ("t-1/webhooks/hook/send", {"after": 6}, 400),
            ("t-1/webhooks/hook/send", {"after": -1}, 400),
            ("t-1/webhooks/other/send", {}, 404),
            ("t-2/webhooks/hook/send", {}, 404),
        ):
            assert (await browser.post(f"/console/api/tasks/{path}", body)).status_code == status


async def test_a_failing_webhook_says_why_and_is_called_at_once_if_it_is_wanted() -> None:
    async with receiving() as receiver, console_of(echo_agent(), webhooks=ANYWHERE) as server:
        store, browser = server.app.store, await server.browser()
        receiver.answers.append(answer(503, "Retry-After: 600"))
        await put_task(store, "t-1", state=TaskState.INPUT_REQUIRED)
        await store.outbox.put(KEY, hook_at(receiver), after=0)
        await browser.post("/console/api/tasks/t-1/webhooks/hook/send", {})
        shown = await until_state(browser, "failing")
        while shown["next_attempt_at"] is None:
            shown = await only(browser)
        assert (shown["failures"], shown["last_error"]) == (1, "It answered with status 503")
        assert shown["last_attempt_at"] < shown["next_attempt_at"]
        await browser.post("/console/api/tasks/t-1/webhooks/hook/send", {})
        await until_state(browser, "up_to_date")
        assert events_of(receiver) == [3, 3]


async def test_what_was_given_up_is_sent_again() -> None:
    async with receiving() as receiver, console_of(echo_agent(), webhooks=ANYWHERE) as server:
        store, browser = server.app.store, await server.browser()
        receiver.answers += [answer(410), answer(410)]
        await put_task(store, "t-1", state=TaskState.INPUT_REQUIRED, artifact=("one",))
        await store.outbox.put(KEY, hook_at(receiver), after=3)
        await browser.post("/console/api/tasks/t-1/webhooks/hook/send", {})
        shown = await until_state(browser, "given_up")
        assert (shown["failures"], shown["last_error"]) == (1, "It answered with status 410")
        receiver.answers.clear()
        await browser.post("/console/api/tasks/t-1/webhooks/hook/send", {})
        await until_state(browser, "up_to_date")
        assert events_of(receiver)[-1] == 4


async def test_the_worker_that_calls_a_webhook_hears_that_it_is_wanted_now() -> None:
    """Another worker has the task in its outbox, and pauses after a failure."""
    database, hints = MemoryDatabase(), LocalHints()
    stores = MemoryStore(database), MemoryStore(database)
    receivers = Receiver(), Receiver()
    receivers[0].error = DeliveryError("503", retry_after=600)
    limits = DeliveryLimits()
    async with (
        Deliveries(stores[0], receivers[0], limits=limits, clock=SystemClock()) as first,
        Deliveries(stores[1], receivers[1], limits=limits, clock=SystemClock()) as second,
        Engine(stores[0], echo_agent(), deliveries=first, hints=hints) as holder,
        Engine(stores[1], echo_agent(), deliveries=second, hints=hints) as other,
    ):
        await put_task(stores[0], "t-1", state=TaskState.INPUT_REQUIRED)
        with fail_after(10):
            await stores[0].outbox.put(KEY, HOOK, after=2, holder=first.worker)
            holder.webhooks.notify(KEY)
            while not holder.webhooks.next_attempt_at((await stores[0].outbox.webhooks(KEY))[0]):
                await asyncio.sleep(0.01)
            receivers[0].error = None
            assert await other.webhooks.send_again(KEY, "hook", after=2) is True
            await receivers[0].until(lambda: receivers[0].got == [3])
        assert receivers[1].got == []


async def test_a_delivery_that_is_under_way_does_not_undo_a_rewind() -> None:
    """The webhook is called for event 4 while a person wants everything again."""
    store, receiver, goes_on = MemoryStore(), Receiver(), asyncio.Event()
    send, calls = receiver.send, list[int]()

    async def send_slowly(notification: Any) -> None:
        calls.append(notification.seq)
        if len(calls) == 1:
            receiver.changed.set()
            await goes_on.wait()
        await send(notification)

    receiver.send = send_slowly  # pyright: ignore[reportAttributeAccessIssue]
    async with (
        Deliveries(store, receiver) as deliveries,
        Engine(store, echo_agent(), deliveries=deliveries) as engine,
    ):
        await put_task(store, "t-1", state=TaskState.INPUT_REQUIRED, artifact=("one",))
        with fail_after(10):
            await store.outbox.put(KEY, HOOK, after=3, holder=deliveries.worker)
            engine.webhooks.notify(KEY)
            await receiver.until(lambda: calls == [4])
            assert await engine.webhooks.send_again(KEY, "hook", after=2) is True
            goes_on.set()
            await receiver.until(lambda: receiver.got == [4, 3, 4])
