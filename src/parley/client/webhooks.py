"""Receives what agents push: checks who sends it, reads it in every dialect, and tells each event once.

    receiver = WebhookReceiver("https://me.example/hook", handle)
    app = Starlette(routes=[Route("/hook", receiver, methods=["POST"])])
    await client.send("100 USD", push=receiver.config)

It is an ASGI application; whoever has its own gives `take` the headers and the body of each request. A sender proves
itself by the secrets of the config, all of them, before anything of the body is read. What agents of Parley send has a
number by which repetitions are known; what others send is told as often as it comes. A request is answered with success
when it has been handled: a failure here makes the agent send it again. Spec: 1.0 section 4.3.3, 0.3 section 9.5.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from secrets import token_urlsafe
from typing import Any, TypeAlias
from urllib.parse import unquote

from parley.client.options import Bounds
from parley.dialects.registry import DIALECTS
from parley.protocol.errors import LocalProtocolError, PeerProtocolError, UnauthenticatedError
from parley.protocol.events import StreamEvent
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

TOKEN_HEADER = "x-a2a-notification-token"
EVENT_ID_HEADER = "parley-event-id"

SHAPES = (Version.V1_0, Version.V0_3, Version.V0_1)
"""The shapes of what is pushed: an event since 1.0, a task before; 0.2 has that of 0.3."""

MOST_TASKS = 10_000
"""Tasks whose last number is remembered; the one that was quiet for longest goes first."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Something that an agent tells: an event since 1.0, before that the task as it stands."""

    event: StreamEvent
    number: int | None = None
    """Of the event in its task, from agents of Parley: it rises, and is the same when an event is told again."""

    @property
    def task_id(self) -> str | None:
        """The task that it is about."""
        return self.event.id if isinstance(self.event, Task) else self.event.task_id


Handler: TypeAlias = Callable[[Pushed], Awaitable[None]]
"""Called with each notification. What it raises makes the agent send the notification again, if the agent does so."""

_Asgi: TypeAlias = MutableMapping[str, Any]


class _TooLongError(Exception):
    """A body is longer than allowed."""


@dataclass(slots=True)
class _Place:
    """How far a task was told; the lock is held while the next event is handled."""

    number: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class WebhookReceiver:
    """A webhook. `config` is what to give to the agent; it is made, with a random token, from a URL alone.

    One receiver is for one agent: whoever knows the secrets may tell anything.
    """

    def __init__(self, config: PushConfig | str, handle: Handler, *, max_bytes: int | None = None) -> None:
        """Raises LocalProtocolError if the config has no secret by which the agent could be known."""
        self.config = PushConfig(config, token=token_urlsafe(32)) if isinstance(config, str) else config
        proof = self.config.authentication or PushAuthentication(())
        self._schemes = frozenset(scheme.lower() for scheme in proof.schemes)
        self._credentials = proof.credentials
        if not self.config.token and not self._credentials:
            raise LocalProtocolError("A webhook has a token or credentials, or anybody could call it")
        self._handle = handle
        self._max_bytes = Bounds().reply_bytes if max_bytes is None else max_bytes
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def read(self, headers: Mapping[str, str], body: bytes) -> Pushed:
        """What a request tells, if the agent has sent it.

        Raises:
            UnauthenticatedError: it has not.
            PeerProtocolError: what it tells is no A2A.
        """
        headers = {name.lower(): value for name, value in headers.items()}
        self._authenticate(headers)
        event = _decoded(body)
        pushed = Pushed(event)
        task, _, number = headers.get(EVENT_ID_HEADER, "").rpartition(":")
        if not (number.isascii() and number.isdigit() and len(number) < 16):
            return pushed
        if unquote(task) != pushed.task_id:
            raise PeerProtocolError("The notification's id is of another task")
        return Pushed(event, int(number))

    async def take(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Handle what a request tells; whether it was new. Raises as `read` does, and what the handler raises."""
        pushed = self.read(headers, body)
        if pushed.number is None:
            await self._handle(pushed)
            return True
        place = self._place(pushed.task_id or "")
        async with place.lock:  # the agent may lose its patience, and come again while the same event is at work here
            if pushed.number <= place.number:
                return False
            await self._handle(pushed)
            place.number = pushed.number
            return True

    async def __call__(
        self,
        scope: _Asgi,
        receive: Callable[[], Awaitable[_Asgi]],
        send: Callable[[_Asgi], Awaitable[None]],
    ) -> None:
        """Answer a request, as an ASGI application."""
        if scope["type"] == "http":
            status = await self._answer(scope, receive)
            await send({"type": "http.response.start", "status": status.value, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    # --- who, what, and how often -------------------------------------------------------------------------------------

    async def _answer(self, scope: _Asgi, receive: Callable[[], Awaitable[_Asgi]]) -> HTTPStatus:
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._authenticate(headers)  # first: strangers do not get to fill the memory
            await self.take(headers, await self._body(receive))
        except UnauthenticatedError:
            return HTTPStatus.UNAUTHORIZED
        except _TooLongError:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        except PeerProtocolError as error:
            _log.warning("A notification cannot be read: %s", error)
            return HTTPStatus.BAD_REQUEST
        except Exception:  # here a request ends, whatever the handler has done
            _log.exception("A notification could not be handled")
            return HTTPStatus.INTERNAL_SERVER_ERROR
        return HTTPStatus.NO_CONTENT

    async def _body(self, receive: Callable[[], Awaitable[_Asgi]]) -> bytes:
        body = bytearray()
        has_more = True
        while has_more:
            message = await receive()  # when the sender goes away there is no more, and what came is no notification
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                raise _TooLongError
            has_more = message.get("more_body", False)
        return bytes(body)

    def _authenticate(self, headers: Mapping[str, str]) -> None:
        token, credentials = self.config.token, self._credentials
        if token and not _is_same(headers.get(TOKEN_HEADER, ""), token):
            raise UnauthenticatedError("The notification's token is not the webhook's")
        if credentials:
            scheme, _, proof = headers.get("authorization", "").partition(" ")
            if scheme.lower() not in self._schemes or not _is_same(proof.strip(), credentials):
                raise UnauthenticatedError("The notification's credentials are not the webhook's")

    def _place(self, task_id: str) -> _Place:
        place = self._places.setdefault(task_id, _Place())
        self._places.move_to_end(task_id)
        if len(self._places) > MOST_TASKS:
            self._places.popitem(last=False)
        return place


def _decoded(body: bytes) -> StreamEvent:
    problems: list[str] = []
    for version in SHAPES:
        try:
            return DIALECTS[version].decode_push(body)
        except PeerProtocolError as error:
            problems.append(f"{version}: {error}")
    raise PeerProtocolError(f"The notification is in no dialect of A2A ({'; '.join(problems)})")


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))
