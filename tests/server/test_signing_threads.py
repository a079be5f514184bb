"""What becomes of the work of a server while its key fails, or never answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parley.engine.webhooks.deliveries import DeliveryError
from parley.keys.given_keys import GivenKeys
from parley.protocol.errors import LocalProtocolError
from parley.server.signing_threads import SigningError, SigningThreads
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.sender import WebhookSender
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
