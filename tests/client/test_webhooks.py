"""Receiving what agents push: from our own server in every dialect, from SDKs as recorded, and from strangers."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs
from standardwebhooks import Webhook

from parley.client.client import Client
from parley.client.options import Retries
from parley.client.push_deliveries import PushDeliveries
from parley.client.reply import Reply
from parley.client.webhooks.notification import PushNotification
from parley.client.webhooks.proofs import Secrets
from parley.client.webhooks.receiver import WebhookReceiver
from parley.client.webhooks.seen import MemorySeen
from parley.client.webhooks.standard_webhooks import new_secret
from parley.dialects.registry import DIALECTS
from parley.protocol.cards import Binding
from parley.protocol.errors import LocalProtocolError, PeerProtocolError, UnauthenticatedError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import CreatePushConfigRequest
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from tests.client.scripted_agent import TASK, chunk, status
from tests.deadlines import fail_after
from tests.golden_files import FOLDER
from tests.proxy.test_old_sdk import old_process
from tests.server.serving import echo_agent, serving

pytestmark = pytest.mark.anyio

HOOK = "https://me.example/hook"
TOKEN = {"X-A2A-Notification-Token": "secret"}
WORKING = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.WORKING))


class Inbox:
    """Keeps what it is told, and fails as often as it should."""

    def __init__(self, failures: int = 0) -> None:
        self.got: list[PushNotification] = []
        self.failures = failures
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.has_ended = asyncio.Event()

    async def __call__(self, notification: PushNotification) -> None:
        await self.may_go_on.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        self.got.append(notification)
        if isinstance(notification.event, Task | StatusUpdate) and is_terminal(notification.event.status.state):
            self.has_ended.set()


def receiver(inbox: Inbox, **options: Any) -> WebhookReceiver:
    return WebhookReceiver(PushConfig(HOOK, token="secret"), inbox, **options)


async def posted(app: WebhookReceiver, headers: dict[str, str], *chunks: bytes, method: str = "POST") -> int:
    """The status that a request is answered with; asserts that no more of it is read than is needed."""
    pieces = [{"type": "http.request", "body": piece, "more_body": True} for piece in chunks]
    sent: list[Any] = []

    async def receive() -> Any:
        return pieces.pop(0) if pieces else {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    fields = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "method": method, "headers": fields}, receive, send)
    return sent[0]["status"]


# --- from real agents -------------------------------------------------------------------------------------------------

WAYS = [
    (Version.V0_1, Binding.JSONRPC),
    (Version.V0_2, Binding.JSONRPC),
    (Version.V0_3, Binding.HTTP_JSON),
    (Version.V1_0, Binding.JSONRPC),
]


@pytest.mark.parametrize(("version", "binding"), WAYS)
@pytest.mark.parametrize("authentication", [None, PushAuthentication(("Bearer",), "proof")])
async def test_what_our_own_server_pushes_is_told_in_order_and_once(
    version: Version, binding: Binding, authentication: PushAuthentication | None
) -> None:
    inbox = Inbox()
    app = App(echo_agent(), webhooks=WebhookPolicy(allow_private=True), drain_seconds=0)
    hook = WebhookReceiver(PushConfig(HOOK, token="secret", authentication=authentication), inbox)
    async with app.running(), serving(app) as agent, serving(hook) as door:
        url = f"{agent.base_url}/.well-known/agent-card.json?A2A-Version={version.value}"
        async with Client(url, bindings=[binding], versions=[version], retries=Retries(attempts=1)) as client:
            reply = await client.send("count 3", push=structs.replace(hook.config, url=f"{door.base_url}/hook"))
        await inbox.has_ended.wait()
    assert reply.task is not None
    assert {notification.task_id for notification in inbox.got} == {reply.task.id}
    numbers = [notification.number or 0 for notification in inbox.got]
    assert numbers == sorted(set(numbers))
    events: list[Any] = [notification.event for notification in inbox.got]
    if version is Version.V1_0:
        parts = [event.artifact.parts for event in events if isinstance(event, ArtifactUpdate)]
        assert parts == [(TextPart("0 "),), (TextPart("1 "),), (TextPart("2 "),)]
    else:
        assert [event.status.state for event in events if isinstance(event, Task)] == [
            TaskState.WORKING,
            TaskState.COMPLETED,
        ]
        assert Reply(client, events[-1]).text == "0 1 2 "


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/push/*.json")), ids=lambda path: f"{path.parts[-3]}-{path.stem}")
async def test_what_sdks_were_recorded_to_push_is_read(path: Any) -> None:
    request = json.loads(path.read_text())["request"]
    # Some were registered without a token, as this receiver would not be.
    headers = {"x-a2a-notification-token": "token-of-the-test", **request["headers"]}
    inbox = Inbox()
    hook = WebhookReceiver(PushConfig(HOOK, token="token-of-the-test"), inbox)
    body = json.dumps(request["body"]).encode()
    assert await hook.receive(headers, body)
    assert await hook.receive(headers, body)  # nothing tells that it is the same
    assert inbox.got[0] == inbox.got[1]
    assert inbox.got[0].number is None
    with pytest.raises(UnauthenticatedError):
        await receiver(inbox).receive(headers, body)


@pytest.mark.parametrize("sdk", ["a2a-sdk-0.2.16", "a2a-sdk-0.3.26"])
async def test_what_sdks_push_is_told(sdk: str) -> None:
    inbox = Inbox()
    hook = receiver(inbox)
    with fail_after(30), old_process("server_sdk_pydantic.py", "push", sdk=sdk) as url:
        async with serving(hook, seconds=30) as door, Client(url, bindings=[Binding.JSONRPC]) as client:
            reply = await client.send("echo hello", push=structs.replace(hook.config, url=f"{door.base_url}/hook"))
            await inbox.has_ended.wait()
    last: Any = inbox.got[-1].event
    assert (last.id, Reply(client, last).text) == (reply.task and reply.task.id, "hello")


# --- how often --------------------------------------------------------------------------------------------------------


def numbered(number: int | str, task: str = TASK) -> dict[str, str]:
    return {**TOKEN, "Parley-Event-Id": f"{task}:{number}"}


async def test_what_came_before_is_taken_and_not_told_again() -> None:
    inbox = Inbox()
    hook = receiver(inbox)
    assert [await posted(hook, numbered(number), WORKING) for number in (3, 3, 4, 3, 4, 5)] == [204] * 6
    assert [notification.number for notification in inbox.got] == [3, 4, 5]


async def test_an_event_that_the_agent_gave_up_and_sends_again_is_handled() -> None:
    """`parley push redeliver` sends from the first dead letter on: what was handled after it comes again, too."""
    inbox = Inbox(failures=1)
    hook = receiver(inbox)
    assert [await posted(hook, numbered(number), WORKING) for number in (3, 4, 5)] == [500, 204, 204]
    assert [await posted(hook, numbered(number), WORKING) for number in (3, 4, 5)] == [204] * 3
    assert [notification.number for notification in inbox.got] == [4, 5, 3]


class Answered:
    """A receiver behind which each answer is noted, with the id of its delivery."""

    def __init__(self, hook: WebhookReceiver) -> None:
        self._hook = hook
        self.answers: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def noting(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                await self.answers.put((dict(scope["headers"])[b"parley-event-id"].decode(), message["status"]))

        await self._hook(scope, receive, noting)


@pytest.mark.parametrize("older", [Version.V0_1, Version.V0_2, Version.V0_3])
async def test_a_webhook_that_is_registered_again_in_another_version_is_sent_its_events_again(older: Version) -> None:
    """They have another form now, and so another id: with the old one, a receiver would refuse the other body."""
    inbox = Inbox()
    hook = receiver(inbox)
    noted = Answered(hook)
    app = App(echo_agent(), webhooks=WebhookPolicy(allow_private=True), drain_seconds=0)
    async with app.running(), serving(app) as agent, serving(noted) as door:
        config = structs.replace(hook.config, url=f"{door.base_url}/hook")
        old_card = f"{agent.base_url}/.well-known/agent-card.json?A2A-Version={older.value}"
        async with Client(old_card, bindings=[Binding.JSONRPC], versions=[older]) as client:
            task = (await client.send("count 1", push=config)).task
            assert task is not None
            first = [await noted.answers.get() for _ in range(2)]
        async with Client(str(agent.base_url)) as client:
            await client.create_push_config(CreatePushConfigRequest(task.id, config))
            rounds: list[list[tuple[str, int]]] = []
            for _ in range(2):
                await PushDeliveries(client).redeliver(task.id, "default", after=0)
                rounds.append([await noted.answers.get() for _ in range(3)])
    ids = [f"{task.id}:{number}" for number in (3, 4, 5)]
    assert first == [(f"{task.id}:{older}:{number}", 204) for number in (3, 5)]
    assert rounds == [[(each, 204) for each in ids]] * 2
    assert [notification.number for notification in inbox.got] == [3, 5, 3, 4, 5]


async def test_what_is_forgotten_of_one_version_is_not_a_repeat_in_another() -> None:
    inbox = Inbox()
    hook = receiver(inbox, seen=MemorySeen(max_ids=1))
    for number in ("0.3:3", "0.3:4", "3", "0.3:3"):
        assert await posted(hook, numbered(number), WORKING) == 204
    assert [notification.id for notification in inbox.got] == [f"{TASK}:{number}" for number in ("0.3:3", "0.3:4", "3")]


async def test_of_an_id_that_was_forgotten_the_number_is_remembered() -> None:
    inbox = Inbox()
    hook = receiver(inbox, seen=MemorySeen(max_ids=2))
    for number in (3, 4, 5, 3, 5, 6, 4, 5):
        assert await posted(hook, numbered(number), WORKING) == 204
    assert [notification.number for notification in inbox.got] == [3, 4, 5, 6]


async def test_what_could_not_be_handled_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox(failures=1)
    hook = receiver(inbox)
    assert [await posted(hook, numbered(number), WORKING) for number in (3, 3, 4)] == [500, 204, 204]
    assert [notification.number for notification in inbox.got] == [3, 4]
    assert "the disk is full" in caplog.text


async def test_an_agent_that_loses_its_patience_has_its_event_handled_once() -> None:
    inbox = Inbox()
    hook = receiver(inbox)
    inbox.may_go_on.clear()
    with fail_after(5):
        asking = [asyncio.create_task(posted(hook, numbered(3), WORKING)) for _ in range(3)]
        other = asyncio.create_task(posted(hook, numbered(3, "%C3%A9"), _pushed("é")))
        await asyncio.sleep(0)
        inbox.may_go_on.set()
        assert await asyncio.gather(*asking, other) == [204] * 4
    assert sorted(notification.task_id or "" for notification in inbox.got) == [TASK, "é"]


def _pushed(task_id: str) -> bytes:
    return DIALECTS[Version.V1_0].pushes.encode(StatusUpdate(task_id, "c", TaskStatus(TaskState.WORKING)))


async def test_of_many_tasks_the_last_ones_are_remembered() -> None:
    inbox = Inbox()
    hook = receiver(inbox, seen=MemorySeen(max_tasks=1, max_ids=1))
    for task in ("a", "b", "a", "c", "a", "b"):
        await hook.receive(numbered(1, task), _pushed(task))
    assert [notification.task_id for notification in inbox.got] == ["a", "b", "c", "a", "b"]


async def test_a_message_may_be_about_no_task() -> None:
    inbox = Inbox()
    reply = Message("m", Role.AGENT, (TextPart("hi"),))
    await receiver(inbox).receive(TOKEN, DIALECTS[Version.V1_0].pushes.encode(reply))
    assert (inbox.got[0].event, inbox.got[0].task_id) == (reply, None)


# --- from strangers ---------------------------------------------------------------------------------------------------

BOTH = PushConfig(HOOK, token="secret", authentication=PushAuthentication(("Bearer", "Basic"), "pröof"))


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({**TOKEN, "Authorization": "Bearer pröof"}, True),
        ({**TOKEN, "authorization": "bearer  pröof"}, True),
        ({**TOKEN, "authorization": "Basic pröof"}, True),
        ({**TOKEN, "authorization": "Digest pröof"}, False),
        ({**TOKEN, "authorization": "Bearer"}, False),
        ({**TOKEN, "authorization": "pröof"}, False),
        ({"authorization": "Bearer pröof"}, False),
        ({"x-a2a-notification-token": "secre", "authorization": "Bearer pröof"}, False),
        (TOKEN, False),
        ({}, False),
    ],
)
async def test_whoever_lacks_one_of_the_secrets_is_a_stranger(headers: dict[str, str], is_let_in: bool) -> None:
    hook = WebhookReceiver(BOTH, Inbox())
    if is_let_in:
        assert hook.read(headers, WORKING).event == status(TaskState.WORKING)
    else:
        with pytest.raises(UnauthenticatedError):
            hook.read(headers, WORKING)


async def test_a_webhook_that_anybody_could_call_is_none() -> None:
    for config in (
        PushConfig(HOOK),
        PushConfig(HOOK, token=""),
        PushConfig(HOOK, authentication=PushAuthentication(("Bearer",))),
    ):
        with pytest.raises(LocalProtocolError, match="any sender"):
            WebhookReceiver(config, Inbox())


@pytest.mark.parametrize("names", [("OAuth2",), ("mtls",), ("Bearer", "OAUTH2")])
async def test_a_scheme_that_no_config_can_verify_needs_a_proof(names: tuple[str, ...]) -> None:
    """Otherwise the token alone would be accepted."""
    config = PushConfig(HOOK, token="secret", authentication=PushAuthentication(names))
    with pytest.raises(LocalProtocolError, match=f"cannot verify {names[-1]}.* proof=") as refusal:
        WebhookReceiver(config, Inbox())
    assert "secret" not in str(refusal.value)
    told = WebhookReceiver(config, Inbox(), proof=Secrets(config))
    assert told.read(TOKEN, WORKING).event == status(TaskState.WORKING)


async def test_credentials_belong_to_the_first_name_that_takes_any() -> None:
    secret = new_secret()
    config = PushConfig(HOOK, authentication=PushAuthentication(("OAuth2", "HMAC", "Bearer"), secret))
    hook = WebhookReceiver(config, Inbox())
    with pytest.raises(UnauthenticatedError):
        hook.read({"authorization": f"Bearer {secret}"}, WORKING)
    signed = Webhook(secret).sign("d-1", now := datetime.now(UTC), WORKING.decode())
    headers = {"webhook-id": "d-1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signed}
    assert hook.read(headers, WORKING).event == status(TaskState.WORKING)


async def test_a_url_is_enough() -> None:
    one, other = (WebhookReceiver(HOOK, Inbox()).config for _ in range(2))
    assert (one.url, len(one.token or "")) == (HOOK, 43)
    assert one.token != other.token


async def test_requests_that_are_no_notifications_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    inbox = Inbox()
    hook = receiver(inbox, max_bytes=1_000)
    assert await posted(hook, TOKEN, method="GET") == 405
    assert await posted(hook, {}, b"x" * 2_000) == 401
    assert await posted(hook, TOKEN, b"x" * 600, b"x" * 600) == 413
    assert await posted(hook, TOKEN, b"{") == 400
    assert await posted(hook, TOKEN, b'{"statusUpdate": {"taskId": "t"}}') == 400
    assert await posted(hook, numbered(3, "other"), WORKING) == 400
    assert await posted(hook, numbered("many"), WORKING) == 204
    assert [notification.number for notification in inbox.got] == [None]
    assert "secret" not in caplog.text


async def test_of_a_strangers_request_nothing_is_read() -> None:
    async def receive() -> Any:
        raise AssertionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await receiver(Inbox())({"type": "http", "method": "POST", "headers": []}, receive, send)
    assert sent[0]["status"] == 401


async def test_what_is_wrong_is_said_for_each_dialect() -> None:
    with pytest.raises(PeerProtocolError, match=r"1\.0: .*0\.3: .*0\.1: "):
        receiver(Inbox()).read(TOKEN, b'{"id": 7}')


async def test_a_chunk_is_read_as_an_event() -> None:
    event = chunk("one ")
    assert receiver(Inbox()).read(TOKEN, DIALECTS[Version.V1_0].pushes.encode(event)) == PushNotification(event)
