"""What becomes of the work of a server while its key fails, or never answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from parley.engine.webhooks.deliveries import DeliveryError
from parley.keys.given_keys import GivenKeys
from parley.protocol.errors import LocalProtocolError
from parley.server.app import App
from parley.server.signing_threads import MOST_THREADS, THREADS, SigningError, SigningThreads
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.sender import WebhookSender
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running
from tests.server.test_signing_keys import RemoteKey
from tests.server.test_webhook_auth import asking, notification
from tests.server.webhook_receiver import ANYWHERE, webhook

pytestmark = pytest.mark.anyio


class FailingKey(RemoteKey):
    """A key in a KMS that refuses to sign, as after a change of its permissions."""

    def sign(self, data: bytes) -> bytes:
        raise LocalProtocolError("the caller 4711 may not use projects/x/keys/1")


async def test_a_webhook_is_called_again_when_the_key_works_again() -> None:
    """Its owner has done nothing wrong, and learns nothing of the operator's keys."""
    keys = WebhookAuthenticator(signer=GivenKeys(FailingKey()), issuer_of=lambda _: "https://agents.example")
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=keys) as sender:
        with pytest.raises(DeliveryError, match=r"^The server could not sign a token for it$") as caught:
            await sender.send(notification(receiver.url(), authentication=asking("JWT")))
        assert type(caught.value) is DeliveryError


async def test_one_that_fails_leaves_the_threads_to_the_others(caplog: pytest.LogCaptureFixture) -> None:
    threads = SigningThreads()
    for _ in range(10):
        with pytest.raises(SigningError):
            await threads.run(lambda: FailingKey().sign(b""))
    assert await threads.run(lambda: "signed") == "signed"
    threads.close()
    assert "the caller 4711 may not use" in caplog.text


class Hanging:
    """Signatures of a key that does not answer until it may."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_answer = threading.Event()

    def sign(self) -> None:
        self.begun += 1
        self.may_answer.wait(20)


def signing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "parley-signing"]


async def test_others_are_signed_for_while_many_signatures_never_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their threads are replaced, up to a number; and there are no more threads than before when they have returned."""
    monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 0.02)
    threads, hanging, before = SigningThreads(), Hanging(), set(signing_threads())
    with fail_after(20):
        while hanging.begun < MOST_THREADS - 1:
            with pytest.raises(SigningError):
                await threads.run(hanging.sign)
        monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 10)
        assert await threads.run(lambda: "signed") == "signed"
        hanging.may_answer.set()
        while len(set(signing_threads()) - before) > THREADS:
            await asyncio.sleep(0.01)
        assert await threads.run(lambda: "signed") == "signed"
    threads.close()


async def test_signing_fails_at_once_when_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 0.02)
    threads, hanging = SigningThreads(), Hanging()
    with fail_after(20):
        while hanging.begun < MOST_THREADS:
            with pytest.raises(SigningError):
                await threads.run(hanging.sign)
        monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 600)
        with pytest.raises(SigningError):
            await threads.run(lambda: "signed")
        hanging.may_answer.set()
        while (signed := await tried(threads)) is None:
            await asyncio.sleep(0.01)
    assert signed == "signed"
    threads.close()


async def tried(threads: SigningThreads) -> str | None:
    try:
        return await threads.run(lambda: "signed")
    except SigningError:
        return None


async def test_the_thread_of_a_caller_who_has_left_is_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the cards, whose callers have a deadline of their own."""
    monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 0.2)
    threads, hanging = SigningThreads(), Hanging()
    with fail_after(20):
        for _ in range(THREADS):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await threads.run(hanging.sign)
        while await tried(threads) is None:
            pass
    hanging.may_answer.set()
    threads.close()


async def test_the_threads_end_with_the_app() -> None:
    before = set(signing_threads())
    for _ in range(5):
        async with running(App(echo_agent(), signer=GivenKeys(RemoteKey()))) as client:
            for host in range(5):
                card = await client.get("/.well-known/agent-card.json", headers={"host": f"127.0.0.1:{8000 + host}"})
                assert "signatures" in card.json()
    for thread in set(signing_threads()) - before:
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()


HANGING = """
import asyncio, threading
from parley.server import signing_threads

signing_threads.SIGN_SECONDS = 0.1

async def sign():
    threads = signing_threads.SigningThreads()
    try:
        await threads.run(threading.Event().wait)
    except signing_threads.SigningError:
        print("gave up")
    threads.close()

asyncio.run(sign())
"""


def test_a_key_that_never_answers_does_not_keep_the_process_alive() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "gave up\n")
