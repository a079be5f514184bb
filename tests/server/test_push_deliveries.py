"""The deliveries to webhooks over HTTP: what an owner sees of them, sends again and resumes; and no one else."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from parley.client.client import Client
from parley.client.push_deliveries import PushDeliveries
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.protocol.errors import TaskNotFoundError
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.telemetry.audit import AuditTrail
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.stores.interface import DeadLetter, DeliveryFailure, Owner, TaskKey
from parley.stores.memory import MemoryStore
from tests.server.serving import echo_agent, running
from tests.server.test_webhooks import ANYWHERE, answer, receiving
from tests.stores.writes import NOON, addition, creation

pytestmark = pytest.mark.anyio

TOKENS = {name: f"a-token-of-{name}-with-enough-length" for name in ("ada", "bob", "eve")}
ADA = Owner("acme", "token:ada")
PATH = "/push/deliveries"


def security() -> Security:
    tenants = {"ada": "acme", "bob": "acme", "eve": "umbrella"}
    secrets = [StoredSecret(name=name, hash=hash_secret(token), tenant=tenants[name]) for name, token in TOKENS.items()]
    return Security({"token": BearerTokens(secrets)})


def of(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[name]}"}


async def put_webhook(store: MemoryStore, owner: Owner, task: str, url: str, config_id: str = "hook") -> TaskKey:
    """A task with three events, and a webhook that was sent none."""
    key = TaskKey(owner, task)
    if await store.tasks.head(key) is None:
        await store.tasks.write(creation(key))
        for number in (1, 2):
            await store.tasks.write(structs.replace(addition(number, key), state=TaskState.INPUT_REQUIRED))
    authentication = PushAuthentication(("Bearer",), "s3cret")
    await store.outbox.put(key, PushConfig(url, task, config_id, "t0ken", authentication), after=0, holder="elsewhere")
    return key


@asynccontextmanager
async def cook(store: MemoryStore, **options: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    options.setdefault("security", security())
    app = App(echo_agent("Cook"), store=store, webhooks=ANYWHERE, **options)
    async with running(app) as client:
        yield client


LATER = datetime(2999, 1, 1, tzinfo=UTC)
FAILURE = DeliveryFailure(1, 4, "It answered with status 503", NOON, NOON, LATER, NOON)


async def paused(store: MemoryStore, key: TaskKey, config_id: str = "hook") -> None:
    await store.outbox.note_failure(key, config_id, FAILURE, holder="elsewhere")


async def test_an_owner_sees_what_failed_without_secrets() -> None:
    store = MemoryStore()
    key = await put_webhook(store, ADA, "t-1", "https://user:pw@hooks.example/T0/secret?key=s3cret")
    await put_webhook(store, ADA, "t-1", "https://hooks.example", "well")
    await paused(store, key)
    letter = DeadLetter(1, 2, "It answered with status 410", NOON, 3)
    await store.outbox.mark_delivered(key, "well", 3, holder="elsewhere", dead_letter=letter)
    async with cook(store) as client:
        reply = await client.get(PATH, headers=of("ada"))
        one = await client.get(f"{PATH}/t-1/hook", headers=of("ada"))
        of_task = (await client.get(f"{PATH}?taskId=t-1&status=paused", headers=of("ada"))).json()
    at = "2026-03-01T12:00:00.250001Z"
    hook = {
        "taskId": "t-1",
        "configId": "hook",
        "url": "https://hooks.example/…",
        "status": "paused",
        "delivered": 0,
        "last": 3,
        "attempts": 4,
        "lastError": "It answered with status 503",
        "nextAttemptAt": "2999-01-01T00:00:00Z",
        **dict.fromkeys(("firstFailedAt", "lastFailedAt", "pausedSince"), at),
    }
    well = {
        "taskId": "t-1",
        "configId": "well",
        "url": "https://hooks.example/…",
        "status": "up_to_date",
        "delivered": 3,
        "last": 3,
        "deadLetters": [
            {"firstEvent": 1, "lastEvent": 2, "reason": "It answered with status 410", "at": at, "attempts": 3}
        ],
    }
    assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-store")
    assert reply.json() == {"deliveries": [hook, well]}
    assert (one.json(), of_task) == (hook, {"deliveries": [hook]})
    assert "s3cret" not in reply.text + one.text
    assert "t0ken" not in reply.text + one.text


async def test_what_another_owner_or_tenant_has_does_not_exist() -> None:
    """Absent and forbidden look the same, and nothing is changed."""
    store = MemoryStore()
    await paused(store, await put_webhook(store, ADA, "t-1", "https://hooks.example"))
    async with cook(store) as client:
        for stranger in ("bob", "eve"):
            assert (await client.get(PATH, headers=of(stranger))).json() == {"deliveries": []}
            for verb, path in (
                ("GET", f"{PATH}?taskId=%s"),
                ("GET", f"{PATH}/%s/hook"),
                ("POST", f"{PATH}/%s/hook/redeliver"),
                ("POST", f"{PATH}/%s/hook/resume"),
            ):
                there = await client.request(verb, path % "t-1", headers=of(stranger))
                nowhere = await client.request(verb, path % "t-9", headers=of(stranger))
                assert (there.status_code, nowhere.status_code) == (404, 404)
                assert there.text == nowhere.text.replace("t-9", "t-1")
        assert (await client.get(f"/umbrella{PATH}", headers=of("ada"))).status_code == 403
        assert (await client.get(PATH)).status_code == 401
        assert (await client.get(f"/acme{PATH}/t-1/hook", headers=of("ada"))).json()["status"] == "paused"
    assert [webhook.failure for webhook in await store.outbox.webhooks(TaskKey(ADA, "t-1"))] == [FAILURE]


async def test_lists_come_in_pages() -> None:
    store = MemoryStore()
    for number in range(250):
        await paused(store, await put_webhook(store, ADA, f"t-{number:03}", "https://hooks.example"))
    seen: list[str] = []
    async with cook(store) as client:
        token = ""
        while True:
            page = (await client.get(f"{PATH}?status=paused&pageSize=60{token}", headers=of("ada"))).json()
            seen += [each["taskId"] for each in page["deliveries"]]
            token = f"&pageToken={page.get('nextPageToken')}"
            if "nextPageToken" not in page:
                break
        assert (await client.get(f"{PATH}?status=failing", headers=of("ada"))).json() == {"deliveries": []}
    assert seen == [f"t-{number:03}" for number in range(250)]


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "text"),
    [
        ("GET", "?status=odd", None, 400, "status must be one of"),
        ("GET", "?pageSize=0", None, 400, "pageSize must be a number from 1 to 100"),
        ("GET", "?pageSize=101", None, 400, "pageSize must be"),
        ("GET", "?pageSize=1" + 4_400 * "0", None, 400, "pageSize must be"),
        ("GET", "?pageToken=%%", None, 400, "page token"),
        ("GET", "?pageToken=WzFd", None, 400, "page token"),
        ("GET", "?taskId=a&taskId=b", None, 400, "taskId may be given once"),
        ("POST", "", None, 405, "GET"),
        ("GET", "/t-1/hook/resume", None, 405, "POST"),
        ("DELETE", "/t-1/hook", None, 405, "GET"),
        ("GET", "/t-1/other", None, 404, "no webhook 'other'"),
        ("POST", "/t-1/hook/redeliver", {"after": 4}, 400, "The task has 3 events"),
        ("POST", "/t-1/hook/redeliver", {"after": -1}, 400, "The task has 3 events"),
        ("POST", "/t-1/hook/redeliver", {"after": "1"}, 400, "$.after"),
        ("POST", "/t-1/hook/redeliver", {"From": 1}, 400, "From"),
        ("POST", "/t-1/hook/redeliver", [], 400, "object"),
    ],
)
async def test_a_bad_request_is_refused_precisely_and_changes_nothing(
    verb: str, path: str, body: Any, status: int, text: str
) -> None:
    store = MemoryStore()
    await paused(store, await put_webhook(store, ADA, "t-1", "https://hooks.example"))
    before = await store.outbox.webhooks(TaskKey(ADA, "t-1"))
    async with cook(store) as client:
        reply = await client.request(verb, f"{PATH}{path}", headers=of("ada"), json=body)
    assert (reply.status_code, text in reply.text) == (status, True), reply.text
    assert await store.outbox.webhooks(TaskKey(ADA, "t-1")) == before


async def until_status(client: httpx2.AsyncClient, is_it: Callable[[str], bool]) -> None:
    """Wait for a status of the webhook."""
    while not is_it((await client.get(f"{PATH}/t-1/hook", headers=of("ada"))).json()["status"]):
        pass


async def test_a_paused_webhook_is_resumed_and_what_was_given_up_is_sent_again(tmp_path: Path) -> None:
    """In order and with the ids that it had; metrics and the audit trail know of it."""
    store, metrics = MemoryStore(), Metrics()
    telemetry = Telemetry(metrics=metrics, audit=AuditTrail(tmp_path / "audit.jsonl"))
    limits = DeliveryLimits(attempts=1)
    async with receiving() as receiver:
        key = await put_webhook(store, ADA, "t-1", receiver.url())
        receiver.answers += [answer(500), answer(410)]
        async with cook(store, delivery_limits=limits, telemetry=telemetry) as client:
            await until_status(client, lambda status: status == "paused")
            reply = await client.post(f"{PATH}/t-1/hook/resume", headers=of("ada"))
            assert reply.json()["status"] in ("waiting", "up_to_date")
            await receiver.until(3)
            await until_status(client, lambda status: status != "waiting")
            (webhook,) = await store.outbox.webhooks(key)
            assert [(each.first_seq, each.last_seq) for each in webhook.dead_letters] == [(2, 2)]
            await client.post(f"{PATH}/t-1/hook/redeliver", headers=of("ada"))
            await receiver.until(5)
            await until_status(client, lambda status: status != "waiting")  # it is noted that the last one was sent
            await client.post(f"{PATH}/t-1/hook/redeliver", headers=of("ada"), json={"after": 2})
            await receiver.until(6)
        text = metrics.render()[1].decode()
    assert [headers["parley-event-id"] for _, headers, _ in receiver.requests] == [
        *("t-1:2", "t-1:2", "t-1:3"),
        *("t-1:2", "t-1:3"),
        "t-1:3",
    ]
    for line in (
        'parley_webhook_changes_total{change="paused"} 1.0',
        'parley_webhook_changes_total{change="resumed"} 1.0',
        'parley_webhook_changes_total{change="redelivered"} 2.0',
        'parley_webhook_changes_total{change="given-up"} 1.0',
        "parley_webhook_dead_letters_total 1.0",
    ):
        assert line in text
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["what"], line["caller"], line["config"], line.get("events")) for line in lines] == [
        ("push-paused", "token:ada", "hook", None),
        ("push-resumed", "token:ada", "hook", None),
        ("push-given-up", "token:ada", "hook", 1),
        ("push-redelivered", "token:ada", "hook", None),
        ("push-redelivered", "token:ada", "hook", None),
    ]


async def test_the_client_speaks_it() -> None:
    store = MemoryStore()
    key = await put_webhook(store, Owner("", ""), "t/1", "https://hooks.example", "a b")
    await paused(store, key, "a b")
    app = App(echo_agent("Cook"), store=store, webhooks=ANYWHERE)
    async with app.running(), Client("http://cook.example", app=app) as client:
        deliveries = PushDeliveries(client)
        (found,) = (await deliveries.list(status="paused")).deliveries
        assert (found.task_id, found.config_id, found.paused_since) == ("t/1", "a b", NOON)
        assert await deliveries.get("t/1", "a b") == found
        assert (await deliveries.resume("t/1", "a b")).status == "waiting"
        assert (await deliveries.redeliver("t/1", "a b", after=0)).delivered == 0
        with pytest.raises(TaskNotFoundError):
            await deliveries.get("t-2", "a b")
