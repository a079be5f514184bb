"""Receives push notifications of agents: verifies the sender, decodes every dialect, and drops repeats.

    receiver = WebhookReceiver("https://me.example/hook", handle)
    app = Starlette(routes=[Route("/hook", receiver, methods=["POST"])])
    await client.send("100 USD", push=receiver.config)

It is an ASGI application; programs with a web server of their own call `receive` with the headers and the body of each
request. The sender must present every secret of the config before its body is read. Parley's agents number their
notifications, so that repeats are dropped; those of other agents are handled each time. A request succeeds once it has
been handled; after a failure the agent sends it again. Spec: 1.0 section 4.3.3, 0.3 section 9.5.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from secrets import token_urlsafe
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from parley.client.options import Bounds
from parley.dialects.registry import DIALECTS
from parley.protocol.errors import LocalProtocolError, PeerProtocolError, UnauthenticatedError
from parley.protocol.events import StreamEvent
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

TOKEN_HEADER = "x-a2a-notification-token"
EVENT_ID_HEADER = "parley-event-id"

SHAPES = (Version.V1_0, Version.V0_3, Version.V0_1)
"""The versions whose notifications differ: an event since 1.0, a task before. 0.2 is like 0.3."""

MAX_TASKS = 10_000
"""Tasks whose last number is remembered; the least recent one is dropped first."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PushNotification:
    """A notification of an agent: an event since 1.0, before that the task as it is."""

    event: StreamEvent
    number: int | None = None
    """The number of the event in its task, from Parley's agents: it increases, and is the same for a repeat."""

    @property
    def task_id(self) -> str | None:
        """The id of its task."""
        return self.event.id if isinstance(self.event, Task) else self.event.task_id


Handler: TypeAlias = Callable[[PushNotification], Awaitable[None]]
"""Called with each notification. If it raises, the agent gets an error and may send the notification again."""


class _TooLongError(Exception):
    """A body is longer than allowed."""


@dataclass(slots=True)
class _Progress:
    """The number of the last handled event of a task; the lock is held while the next one is handled."""

    number: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class WebhookReceiver:
    """A webhook. `config` is for the agent; if it is a URL, a config with a random token is made from it.

    One receiver serves one agent: every sender that knows the secrets is trusted.
    """

    def __init__(self, config: PushConfig | str, handle: Handler, *, max_bytes: int | None = None) -> None:
        """Raises LocalProtocolError if the config has no secret."""
        self.config = PushConfig(config, token=token_urlsafe(32)) if isinstance(config, str) else config
        proof = self.config.authentication or PushAuthentication(())
        self._schemes = frozenset(scheme.lower() for scheme in proof.schemes)
        self._credentials = proof.credentials
        if not self.config.token and not self._credentials:
            raise LocalProtocolError("A webhook needs a token or credentials; otherwise any sender could call it")
        self._handle = handle
        self._max_bytes = Bounds().reply_bytes if max_bytes is None else max_bytes
        self._progress: OrderedDict[str, _Progress] = OrderedDict()

    def read(self, headers: Mapping[str, str], body: bytes) -> PushNotification:
        """The notification in a request.

        Raises:
            UnauthenticatedError: the sender does not know the secrets.
            PeerProtocolError: the body is not valid A2A.
        """
        headers = {name.lower(): value for name, value in headers.items()}
        self._authenticate(headers)
        event = _decoded(body)
        notification = PushNotification(event)
        task, _, number = headers.get(EVENT_ID_HEADER, "").rpartition(":")
        if not (number.isascii() and number.isdigit() and len(number) < 16):
            return notification
        if unquote(task) != notification.task_id:
            raise PeerProtocolError("The notification's id belongs to another task")
        return PushNotification(event, int(number))

    async def receive(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Handle the notification in a request; False for a repeat. Raises as `read` and the handler do."""
        notification = self.read(headers, body)
        if notification.number is None:
            await self._handle(notification)
            return True
        progress = self._progress_of(notification.task_id or "")
        async with progress.lock:  # the agent may time out, and send the same event again while it is being handled
            if notification.number <= progress.number:
                return False
            await self._handle(notification)
            progress.number = notification.number
            return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        if scope["type"] == "http":
            status = await self._answer(scope, receive)
            await send({"type": "http.response.start", "status": status.value, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    # --- one request --------------------------------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive) -> HTTPStatus:
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._authenticate(headers)  # before the body is read
            await self.receive(headers, await self._body(receive))
        except UnauthenticatedError:
            return HTTPStatus.UNAUTHORIZED
        except _TooLongError:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        except PeerProtocolError as error:
            _log.warning("Invalid notification: %s", error)
            return HTTPStatus.BAD_REQUEST
        except Exception:  # a request ends here, whatever the handler raises
            _log.exception("A notification could not be handled")
            return HTTPStatus.INTERNAL_SERVER_ERROR
        return HTTPStatus.NO_CONTENT

    async def _body(self, receive: Receive) -> bytes:
        body = bytearray()
        has_more = True
        while has_more:
            message = await receive()  # a disconnect ends the body, which is then invalid
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                raise _TooLongError
            has_more = message.get("more_body", False)
        return bytes(body)

    def _authenticate(self, headers: Mapping[str, str]) -> None:
        token, credentials = self.config.token, self._credentials
        if token and not _is_same(headers.get(TOKEN_HEADER, ""), token):
            raise UnauthenticatedError("The notification has the wrong token")
        if credentials:
            scheme, _, proof = headers.get("authorization", "").partition(" ")
            if scheme.lower() not in self._schemes or not _is_same(proof.strip(), credentials):
                raise UnauthenticatedError("The notification has the wrong credentials")

    def _progress_of(self, task_id: str) -> _Progress:
        progress = self._progress.setdefault(task_id, _Progress())
        self._progress.move_to_end(task_id)
        if len(self._progress) > MAX_TASKS:
            self._progress.popitem(last=False)
        return progress


def _decoded(body: bytes) -> StreamEvent:
    problems: list[str] = []
    for version in SHAPES:
        try:
            return DIALECTS[version].decode_push(body)
        except PeerProtocolError as error:
            problems.append(f"{version}: {error}")
    raise PeerProtocolError(f"The notification is not valid in any version of A2A ({'; '.join(problems)})")


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))
