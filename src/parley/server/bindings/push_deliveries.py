"""The deliveries to webhooks over HTTP, below an agent's URL: `GET /push/deliveries` and what is below it.

A2A has no operations for it, so this is not one of its bindings. Callers, tenants, credentials, rates and errors are
those of HTTP+JSON. So what a caller may do with its tasks, it may do here, on `serve` and `up` alike.

    GET  /push/deliveries?taskId=…&status=…&pageSize=…&pageToken=…
    GET  /push/deliveries/TASK/WEBHOOK
    POST /push/deliveries/TASK/WEBHOOK/redeliver   {"after": 7}
    POST /push/deliveries/TASK/WEBHOOK/resume
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, get_args
from urllib.parse import unquote

import msgspec

from parley.engine.caller import Caller
from parley.engine.webhooks.retries import status_of
from parley.network.urls import without_secrets
from parley.protocol.cards import Binding
from parley.protocol.errors import InvalidParamsError, MethodNotFoundError, PushNotificationNotSupportedError
from parley.protocol.push_deliveries import (
    DELIVERIES_PATH,
    DeadLetterView,
    DeliveryList,
    DeliveryStatus,
    DeliveryView,
    RedeliverRequest,
)
from parley.protocol.versions import Version
from parley.server.bindings.failures import ClientDisconnected, as_wire_error
from parley.server.bindings.http import JSON, AsgiRequest, reply_error
from parley.server.bindings.rest import NO_STORE
from parley.server.contracts import WebhookDeliveries
from parley.server.service import Service
from parley.stores.interface import Webhook
from parley.wire.rest import MethodNotAllowedError

_PATH = re.compile(
    rf"(?:/(?P<tenant>[^/]+))?{DELIVERIES_PATH}"
    r"(?:/(?P<task>[^/]+)/(?P<webhook>[^/]+)(?:/(?P<action>redeliver|resume))?)?"
)

MAX_PAGE_SIZE = 100

_decode_redeliver = msgspec.json.Decoder(RedeliverRequest).decode


class PushDeliveriesEndpoint:
    """Answers requests about the deliveries to the webhooks of an agent's tasks."""

    __slots__ = ("_service",)

    def __init__(self, service: Service) -> None:
        self._service = service

    @staticmethod
    def has(path: str) -> bool:
        """Whether a path, relative to the agent's URL, belongs here."""
        return DELIVERIES_PATH in path and _PATH.fullmatch(path) is not None

    async def __call__(self, request: AsgiRequest, path: str) -> None:
        """Answer one request."""
        try:
            body = await self._answer(request, path)
        except ClientDisconnected:
            return
        except Exception as error:  # a request ends here
            failure = as_wire_error(error)
            self._service.refused(Binding.HTTP_JSON, failure)
            await reply_error(request, Version.V1_0, failure)
        else:
            await request.reply(200, body, JSON, [NO_STORE])

    async def _answer(self, request: AsgiRequest, path: str) -> bytes:
        found = _PATH.fullmatch(path)
        assert found is not None, "`has` was asked first"
        tenant, task, webhook = (None if name is None else unquote(name) for name in found.group(1, 2, 3))
        allowed = ["GET", "HEAD"] if found["action"] is None else ["POST"]
        if request.verb not in allowed:
            raise MethodNotAllowedError(allowed)
        service = self._service
        identity = await service.shared.authenticate(request.credentials, request.address)
        with service.shared.throttle.admit(identity.name, request.address):
            caller, operations = service.caller_of(identity, tenant), service.deliveries
            if operations is None:
                raise MethodNotFoundError("This server does not call the webhooks of this agent itself")
            if not service.cards.has_push:
                raise PushNotificationNotSupportedError
            if task is None or webhook is None:
                return await _list(operations, caller, request)
            if found["action"] == "redeliver":
                asked = _redeliver_request(await request.read_json_body(service.shared.limits, service.shared.bodies))
                changed = await operations.redeliver(task, webhook, caller, after=asked.after)
            elif found["action"] == "resume":
                changed = await operations.resume(task, webhook, caller)
            else:
                changed = await operations.get(task, webhook, caller)
            return msgspec.json.encode(view_of(changed))


async def _list(operations: WebhookDeliveries, caller: Caller, request: AsgiRequest) -> bytes:
    status: Any = _one(request, "status")
    if status is not None and status not in get_args(DeliveryStatus):
        raise InvalidParamsError(f"status must be one of: {', '.join(get_args(DeliveryStatus))}", path="$.status")
    size, token = _one(request, "pageSize"), _one(request, "pageToken")
    if size is not None and not (
        size.isascii() and size.isdigit() and len(size) < 10 and 1 <= int(size) <= MAX_PAGE_SIZE
    ):
        raise InvalidParamsError(f"pageSize must be a number from 1 to {MAX_PAGE_SIZE}", path="$.pageSize")
    page = await operations.list(
        caller,
        task_id=_one(request, "taskId"),
        status=status,
        after=None if token is None else _read_token(token),
        limit=MAX_PAGE_SIZE if size is None else int(size),
    )
    token = None if page.next_after is None else _write_token(page.next_after)
    return msgspec.json.encode(DeliveryList(tuple(map(view_of, page.webhooks)), token))


def view_of(webhook: Webhook) -> DeliveryView:
    """A webhook as its owner is shown it."""
    failure, letters = webhook.failure, webhook.dead_letters
    return DeliveryView(
        webhook.key.task_id,
        webhook.config.id or "",
        without_secrets(webhook.config.url),
        status_of(webhook),
        webhook.delivered_seq,
        webhook.last_seq,
        attempts=0 if failure is None else failure.attempts,
        last_error=None if failure is None else failure.text,
        first_failed_at=None if failure is None else failure.first_at,
        last_failed_at=None if failure is None else failure.at,
        next_attempt_at=None if failure is None else failure.next_at,
        paused_since=None if failure is None else failure.paused_since,
        dead_letters=tuple(
            DeadLetterView(each.first_seq, each.last_seq, each.reason, each.at, each.attempts) for each in letters
        ),
    )


def _redeliver_request(body: bytes) -> RedeliverRequest:
    try:
        return _decode_redeliver(body or b"{}")
    except msgspec.ValidationError as error:
        raise InvalidParamsError(str(error)) from None
    except msgspec.DecodeError:
        raise InvalidParamsError("The body must be a JSON object") from None


def _one(request: AsgiRequest, name: str) -> str | None:
    """A query parameter that may be given once."""
    values = request.query.get(name, [])
    if len(values) > 1:
        raise InvalidParamsError(f"{name} may be given once", path=f"$.{name}")
    return values[0] if values else None


def _write_token(after: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(after)).decode().rstrip("=")


def _read_token(token: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(text, type=tuple[str, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidParamsError("The page token is not one of this list", path="$.pageToken") from None
