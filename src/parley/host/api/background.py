"""Background work: a request that is answered with its id at once, and messages to requests that are at work.

What happens then is read with `GET /v1/requests/{id}`, which can wait for the end, with the stream of events, or told
to a webhook.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from parley.engine.caller import Caller
from parley.host.access.principal import PRINCIPAL
from parley.host.access.scopes import Scope
from parley.host.api.message_parts import MessageInput, parts_of
from parley.host.api.orchestrate import OrchestrateBody
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.api.run_requests import RUN_HEADERS, begin_run, idempotency_key
from parley.host.approvals.decisions import stamped
from parley.host.errors import BadRequest, Conflict, PathNotFound
from parley.host.origin import EXTERNAL, owner_name
from parley.host.when_busy import WhenBusy, when_busy_metadata
from parley.protocol.errors import TaskFinishedError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Role
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.versions import Version

_Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=8_192)]


class WebhookAuthentication(Struct, frozen=True):
    """How the webhook authenticates its caller: `{"scheme": "Bearer", "credentials": "…"}`."""

    scheme: Annotated[str, Meta(min_length=1, max_length=100)]
    credentials: _Text | None = None


class WebhookInput(Struct, frozen=True):
    """Where what happens is told, as A2A 1.0 tells it."""

    url: _Text
    token: _Text | None = None
    """Sent back in the header `X-A2A-Notification-Token`."""
    authentication: WebhookAuthentication | None = None


class BackgroundBody(OrchestrateBody, frozen=True):
    """A message to an agent that the body names, and where its answer is told."""

    webhook: WebhookInput | None = None


class FollowUpBody(Struct, frozen=True):
    """A message to a request."""

    message: MessageInput
    when_busy: WhenBusy | None = None
    """What becomes of it while the request is at work; null: what the agent does by default."""


class BegunRequest(Struct, frozen=True):
    """A request that was begun, or found by its key."""

    request_id: str


class AcceptedMessage(Struct, frozen=True):
    """A message that a request has taken."""

    request_id: str
    message_id: str


async def begin_request(call: ApiCall[BackgroundBody]) -> Answer:
    """Begin a request, and answer with its id."""
    webhook = _push_config(call, call.body.webhook)
    request_id = await begin_run(
        call, call.body, named=call.body.agent, route="requests", surface="orchestrate", webhook=webhook
    )
    return Answer(BegunRequest(request_id), 202, headers=((b"location", f"/v1/requests/{request_id}".encode()),))


async def send_to_request(call: ApiCall[FollowUpBody]) -> Answer:
    """Send a message to a request that is at work, or the answer to one that has asked a question."""
    host, tenant_id, request_id = call.host, call.tenant.id, call.path["id"]
    head = await host.views.head(tenant_id, request_id)
    if head is None:
        raise PathNotFound("request not found")
    key = idempotency_key(call)
    named = host.new_id() if key is None else f"{request_id} {key}"
    message = Message(
        message_id=hashlib.sha256(f"native {named}".encode()).hexdigest()[:32],
        role=Role.USER,
        parts=parts_of(call.body.message),
        task_id=request_id,
        metadata=when_busy_metadata(call.body.when_busy),
    )
    # Just as a message over A2A, so that the same rules hold for it.
    claims: JsonObject = {EXTERNAL: True, PRINCIPAL: call.principal.name}
    caller = Caller(owner_name(tenant_id), tenant_id, frozenset(call.principal.scopes), claims)
    request = SendMessageRequest(stamped(message, caller), SendConfiguration(return_immediately=True))
    try:
        await host.engine.agent(head.agent).send_message(request, caller)
    except TaskFinishedError as error:
        raise Conflict("the request has ended", more={"request_id": request_id, **error.details}) from None
    return Answer(AcceptedMessage(request_id, message.message_id), 202)


def _push_config(call: ApiCall[BackgroundBody], webhook: WebhookInput | None) -> PushConfig | None:
    """The webhook of a request.

    Raises:
        PermissionDeniedError: the caller may not read what the webhook is told.
        BadRequest: the tenant has not switched webhooks on.
        InvalidParamsError: it may not be called.
    """
    if webhook is None:
        return None
    call.principal.require(Scope.READ)
    check = call.host.app.shared.check_webhook
    if check is None or not call.tenant.settings.push_notifications:
        raise BadRequest("$.webhook: push notifications are not switched on for this tenant")
    given = webhook.authentication
    authentication = None if given is None else PushAuthentication((given.scheme,), given.credentials)
    config = PushConfig(webhook.url, token=webhook.token, authentication=authentication)
    check(config, "$.webhook", Version.V1_0)
    return config


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/requests",
        handler=begin_request,
        scope=Scope.CALL,
        summary="Send a message, and do not wait",
        description="The reply names the request. `GET /v1/requests/{id}?wait=30` waits for its end.",
        body=BodyReader(BackgroundBody),
        headers=RUN_HEADERS,
        replies=[ApiReply(BegunRequest, 202, "The request was begun.")],
        errors=[404, 409, 429],
    ),
    ApiRoute(
        method="POST",
        path="/v1/requests/{id}/messages",
        handler=send_to_request,
        scope=Scope.CALL,
        summary="Send a message to a request that is at work or asks a question",
        body=BodyReader(FollowUpBody),
        headers=RUN_HEADERS,
        replies=[ApiReply(AcceptedMessage, 202, "The request has taken the message.")],
        errors=[404, 409, 429],
    ),
)
