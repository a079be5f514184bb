"""The challenge: which webhooks must prove that they want notifications, and what hostile ones achieve."""

import asyncio
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from parley.engine.webhooks.deliveries import Deliveries, DeliveryError, DeliveryRefusedError, NoAnswerError
from parley.network.http import HttpRequest
from parley.network.pinned import PinnedNetwork
from parley.network.urls import parse_url
from parley.protocol.push import PushAuthentication, PushConfig
from parley.server.webhooks.challenge import ChallengeAnswer, OwnershipChallenge
from parley.server.webhooks.guard import ChallengePolicy, WebhookPolicy, WebhookRules
from parley.server.webhooks.sender import WebhookSender
from parley.stores.interface import Owner, TaskKey
from parley.stores.memory import MemoryStore
from tests.server.webhook_receiver import Request, accept, answer, notification, webhook
from tests.stores.writes import KEY, addition, creation

pytestmark = pytest.mark.anyio

ALWAYS = WebhookPolicy(allow_private=True, challenge="always")
NOT_ANSWERED = "It did not answer the challenge"


async def test_a_webhook_is_challenged_once_before_its_first_notification() -> None:
    async with webhook() as receiver, WebhookSender(ALWAYS) as sender:
        told = notification(
            receiver.url("/hook?key=1"), token="t0ken", authentication=PushAuthentication(("Bearer",), "s3cret")
        )
        await sender.send(told)
        await sender.send(told)
        challenge, *others = receiver.requests
        assert [request.method for request in others] == ["POST", "POST"]
        (token,) = challenge.query["validationToken"]
        assert (challenge.method, challenge.target) == ("GET", f"/hook?key=1&validationToken={token}")
        assert len(token) == 43
        assert challenge.body == b""
        assert {"authorization", "x-a2a-notification-token", "parley-event-id"}.isdisjoint(challenge.headers)


async def test_each_owner_url_and_process_has_a_challenge_of_its_own() -> None:
    async with webhook() as receiver:
        told = notification(receiver.url())
        stranger = structs.replace(told, key=structs.replace(KEY, owner=Owner("", "mallory")))
        async with WebhookSender(ALWAYS) as sender:
            for one in (told, stranger, notification(receiver.url("/other")), told, stranger):
                await sender.send(one)
        async with WebhookSender(ALWAYS) as sender:
            await sender.send(told)
        challenges = [request for request in receiver.requests if request.method == "GET"]
        assert [request.target.partition("?")[0] for request in challenges] == ["/hook", "/hook", "/other", "/hook"]
        assert len({request.query["validationToken"][0] for request in challenges}) == 4


async def test_proofs_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.server.webhooks.challenge.REMEMBERED", 2)
    async with webhook() as receiver, WebhookSender(ALWAYS) as sender:
        for path in ("/1", "/2", "/1", "/3", "/1", "/2"):
            await sender.send(notification(receiver.url(path)))
        challenged = [request.target.partition("?")[0] for request in receiver.requests if request.method == "GET"]
        assert challenged == ["/1", "/2", "/3", "/2"]


@pytest.mark.parametrize(
    ("policy", "host", "addresses", "is_challenged"),
    [
        ("never", "127.0.0.1", [], False),
        ("private", "127.0.0.1", [], True),
        ("private", "localhost", ["127.0.0.1"], True),
        ("private", "hooks.example.com", ["127.0.0.1"], True),
        ("always", "hooks.example.com", ["127.0.0.1"], True),
        ("never", "hooks.example.com", ["127.0.0.1"], False),
    ],
)
async def test_the_policy_says_who_is_challenged(
    policy: ChallengePolicy, host: str, addresses: Sequence[str], is_challenged: bool
) -> None:
    async def resolve(name: str, port: int) -> Sequence[str]:
        return addresses

    allowed = WebhookPolicy(allowed_hosts=(host,), challenge=policy)
    async with webhook() as receiver, WebhookSender(allowed, resolve=resolve) as sender:
        await sender.send(notification(f"http://{host}:{receiver.port}/hook"))
        methods = [request.method for request in receiver.requests]
        assert methods == (["GET", "POST"] if is_challenged else ["POST"])


@pytest.mark.parametrize("allowed_hosts", [(), ("hooks.example.com",)])
async def test_private_leaves_public_hosts_alone(allowed_hosts: tuple[str, ...]) -> None:
    async def resolve(name: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", "2606:4700::1"]

    async def exchange(request: HttpRequest, limit: int) -> ChallengeAnswer:
        raise AssertionError("it was challenged")

    policy = WebhookPolicy(allowed_hosts=allowed_hosts, challenge="private")
    network = PinnedNetwork(WebhookRules(policy), resolve)
    url = parse_url("https://hooks.example.com/x")
    await OwnershipChallenge(policy).check(KEY.owner, url, network, exchange)


async def test_a_name_that_turns_private_after_it_was_found_public_is_challenged_before_it_is_called() -> None:
    """DNS rebinding: the first answer is for the policy, and all others are for the call."""
    found = [["8.8.8.8"]]

    async def resolve(name: str, port: int) -> Sequence[str]:
        return found.pop() if found else ["127.0.0.1"]

    policy = WebhookPolicy(allow_private=True, challenge="private")
    async with webhook() as receiver, WebhookSender(policy, resolve=resolve) as sender:
        told = notification(f"http://hooks.example.com:{receiver.port}/hook")
        with pytest.raises(DeliveryError, match="private address now") as failure:
            await sender.send(told)
        assert not isinstance(failure.value, DeliveryRefusedError | NoAnswerError)
        assert receiver.requests == []
        await sender.send(told)
        found.append(["8.8.8.8"])
        await sender.send(told)
        assert [request.method for request in receiver.requests] == ["GET", "POST", "POST"]


# --- webhooks that do not prove it ------------------------------------------------------------------------------------


def echo(request: Request) -> str:
    return request.query["validationToken"][0]


@pytest.mark.parametrize(
    "reply",
    [
        lambda request: answer(200),
        lambda request: answer(200, "ok"),
        lambda request: answer(200, f"<p>{echo(request)}</p>"),
        lambda request: answer(200, echo(request)[:-1]),
        lambda request: answer(200, echo(request) * 2),
        lambda request: answer(201, echo(request)),
        lambda request: answer(302, echo(request), "Location: /other"),
        lambda request: answer(400, echo(request)),
        lambda request: answer(404),
        lambda request: answer(405),
        lambda request: answer(500, echo(request)),
    ],
)
async def test_without_the_proof_nothing_is_delivered_and_a_later_try_may_succeed(reply: Any) -> None:
    async with webhook(reply) as receiver, WebhookSender(ALWAYS) as sender:
        with pytest.raises(DeliveryError, match=NOT_ANSWERED) as failure:
            await sender.send(notification(receiver.url()))
        assert not isinstance(failure.value, DeliveryRefusedError | NoAnswerError)
        assert [request.method for request in receiver.requests] == ["GET"]  # no redirect was followed either
        receiver.respond = accept
        await sender.send(notification(receiver.url()))
        assert len(receiver.notifications) == 1


async def test_the_token_may_end_with_a_line_break() -> None:
    async with webhook(
        lambda request: answer(200, f"{echo(request)}\n") if request.method == "GET" else answer()
    ) as hook:
        async with WebhookSender(ALWAYS) as sender:
            await sender.send(notification(hook.url()))
        assert len(hook.notifications) == 1


@pytest.mark.parametrize("phase", ["GET", "POST"])
async def test_a_webhook_that_never_answers_is_hung_up_on(phase: str) -> None:
    """It stands for one that takes 30 seconds as well: the limit of a call is 15."""

    def respond(request: Request) -> bytes | None:
        return None if request.method == phase else accept(request)

    async with webhook(respond) as receiver, WebhookSender(ALWAYS, timeout=0.05) as sender:
        with pytest.raises(NoAnswerError, match=r"It did not answer within 0\.05 seconds"):
            await sender.send(notification(receiver.url()))


@pytest.mark.parametrize("phase", ["GET", "POST"])
async def test_of_a_reply_of_a_gigabyte_a_few_kilobytes_are_read(phase: str) -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        line = await reader.readline()
        while (await reader.readline()).strip():
            pass
        is_flood = line.startswith(phase.encode())
        token = line.split(b"validationToken=")[-1].split(b" ")[0]
        size = 1 << 30 if is_flood else len(token)
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % size)
        try:
            if not is_flood:
                writer.write(token)
                return
            while sent < size:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    tracemalloc.start()
    async with WebhookSender(ALWAYS) as sender:
        before, _ = tracemalloc.get_traced_memory()
        if phase == "GET":
            with pytest.raises(DeliveryError, match=NOT_ANSWERED):
                await sender.send(notification(url))
        else:
            await sender.send(notification(url))
        _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    server.close()
    await server.wait_closed()
    assert sent < 64 << 20  # what sockets hold, and not the gigabyte
    assert peak - before < 8 << 20


async def test_webhooks_that_do_not_answer_the_challenge_delay_no_other_owner() -> None:
    """100 of them, at as many hosts, each of which takes the challenge and never answers."""
    hanging: list[asyncio.StreamWriter] = []
    some_hang = asyncio.Event()

    def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hanging.append(writer)
        some_hang.set()

    async def register(owner: str, number: int, url: str) -> TaskKey:
        key = TaskKey(Owner("", owner), f"{owner}-{number}")
        await store.tasks.write(creation(key))
        await store.outbox.put(key, PushConfig(url, key.task_id, "hook"))
        await store.tasks.write(addition(1, key))
        return key

    store = MemoryStore()
    server = await asyncio.start_server(hang, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    for number in range(100):
        await register("ada", number, f"http://127.1.0.{number + 1}:{port}/")
    async with webhook() as receiver, WebhookSender(ALWAYS) as sender:
        deliveries = Deliveries(store, sender)
        await deliveries.start()
        await some_hang.wait()
        deliveries.notify(await register("grace", 0, receiver.url()))
        await receiver.notified("/hook")
        assert deliveries.under_way > 1  # those that hang have not timed out yet
        await deliveries.stop(grace=0)
    server.close()
    for writer in hanging:
        writer.close()
