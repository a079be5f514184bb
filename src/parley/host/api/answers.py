"""Answers to the questions of agents, for callers of the native API. Approvals are decided elsewhere (`approvals`)."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from parley.agents.elsewhere import asked_elsewhere
from parley.host.access.scopes import Scope
from parley.host.api.message_parts import MessageInput, parts_of
from parley.host.api.requests import NOT_FOUND, RequestReply
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.errors import BadRequest, Conflict, PathNotFound
from parley.host.origin import host_caller
from parley.protocol.errors import TaskFinishedError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.messages import DataPart, Message, Part, Role
from parley.protocol.requests import GetTaskRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task

NOT_WAITING = "the request does not wait for an answer"


class AnswerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer: a message, or the fields of a form."""

    message: MessageInput | UnsetType = UNSET
    data: JsonObject | UnsetType = UNSET


async def answer_request(call: ApiCall[AnswerBody]) -> Answer:
    """Answer the question of an agent. The request goes on."""
    host, tenant_id, request_id = call.host, call.tenant.id, call.path["id"]
    parts = _parts(call.body)
    head = await host.views.head(tenant_id, request_id)
    if head is None:
        raise PathNotFound(NOT_FOUND)
    caller, agent = host_caller(tenant_id), host.engine.agent(head.agent)
    task = await agent.get_task(GetTaskRequest(request_id), caller)
    _check_waits(task)
    message = Message(_message_id(call, task), Role.USER, parts, task_id=request_id)
    try:
        await agent.send_message(SendMessageRequest(message, SendConfiguration(return_immediately=True)), caller)
    except TaskFinishedError:
        raise Conflict(NOT_WAITING) from None
    view = await host.views.request(tenant_id, request_id)
    assert view is not None
    return Answer(RequestReply(view))


def _parts(body: AnswerBody) -> tuple[Part, ...]:
    match body.message, body.data:
        case UnsetType(), dict(data):
            return (DataPart(data),)
        case (str() | tuple()) as message, UnsetType():
            return parts_of(message)
        case _:
            raise BadRequest("$: must have either message or data")


def _check_waits(task: Task) -> None:
    if not is_interrupted(task.status.state):
        raise Conflict(NOT_WAITING)
    asked = asked_elsewhere(task.status)
    if asked is not None:
        text = f"the request waits for the approval {asked[0]}; decide it with POST /v1/approvals/{asked[0]}"
        raise Conflict(text, more={"approval_id": asked[0]})


def _message_id(call: ApiCall[Any], task: Task) -> str:
    """The same for every answer of one principal to one question: a repeat is known as one."""
    asked = task.status.message.message_id if task.status.message is not None else str(task.status.timestamp)
    return hashlib.sha256(f"answer {task.id} {asked} {call.actor}".encode()).hexdigest()[:32]


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/requests/{id}/answer",
        handler=answer_request,
        scope=Scope.CALL,
        summary="Answer the question of an agent",
        description="For a request whose state is `input_required`. Its events go on where they ended.",
        body=BodyReader(AnswerBody),
        replies=[ApiReply(RequestReply)],
        errors=[400, 404, 409],
    ),
)
