"""A webhook on a real port that writes down what it gets, and a signer of tokens, for tests of authentication."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from joserfc.jwk import ECKey

from parley.engine.webhooks.notifications import Notification
from parley.keys.given_keys import GivenKeys
from parley.keys.signing_key import LocalKey
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import fold
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.webhooks.guard import WebhookPolicy
from tests.deadlines import fail_after
from tests.stores.writes import KEY, chunk, created, minute

ANYWHERE = WebhookPolicy(allow_private=True)
DONE = StatusUpdate("t-1", "c-1", TaskStatus(TaskState.COMPLETED, None, minute(1)))
TASK = fold(None, [created("t-1"), chunk(2), DONE])


@dataclass
class Request:
    """A request; the names of its headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)


def answer(status: int = 200, body: str = "", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode()


def accept(request: Request) -> bytes | None:
    """What a good webhook answers: the challenge with its token, notifications with nothing."""
    return answer(200, request.query["validationToken"][0] if request.method == "GET" else "")


@dataclass
class Webhook:
    """`respond` makes the answers; None: it never answers."""

    respond: Callable[[Request], bytes | None] = accept
    requests: list[Request] = field(default_factory=list[Request])
    certificates: list[Any] = field(default_factory=list[Any])
    port: int = 0
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := (await reader.readline()).decode():
                method, target, _ = line.split(" ")
                headers: dict[str, str] = {}
                while (header := (await reader.readline()).decode().rstrip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(method, target, headers, body)
                async with self._arrived:
                    self.requests.append(request)
                    self.certificates.append(writer.get_extra_info("peercert"))
                    self._arrived.notify_all()
                reply = self.respond(request)
                if reply is None:
                    await reader.read()
                    return
                writer.write(reply)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def notified(self, path: str) -> Request:
        """The first notification at a path."""

        def found() -> Request | None:
            return next((request for request in self.notifications if request.target == path), None)

        async with self._arrived:
            request = await self._arrived.wait_for(found)
        assert request is not None
        return request

    @property
    def notifications(self) -> list[Request]:
        return [request for request in self.requests if request.method == "POST"]

    def url(self, path: str = "/hook", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"


@asynccontextmanager
async def webhook(
    respond: Callable[[Request], bytes | None] = accept, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Webhook]:
    receiver = Webhook(respond)
    with fail_after(10):
        server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
        receiver.port = server.sockets[0].getsockname()[1]
        try:
            yield receiver
        finally:
            server.close()


def notification(url: str, event: Any = DONE, *, version: Version = Version.V1_0, **members: Any) -> Notification:
    return Notification(KEY, "cook", PushConfig(url, "t-1", "hook", **members), version, 7, event)


class KeySigner(GivenKeys):
    """One key that signs tokens, whose public half is published."""

    def __init__(self) -> None:
        super().__init__(LocalKey(ECKey.generate_key("P-256"), "k-1"))

    @property
    def key_set(self) -> dict[str, Any]:
        """The public key as a JSON Web Key Set."""
        return msgspec.json.decode(self.published())
