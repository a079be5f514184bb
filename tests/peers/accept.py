"""Says whether this environment's a2a-sdk accepts a value, and how it writes it again.

Reads JSON lines from stdin, `{"id": n, "type": T, "json": value}` or, for protobuf,
`{"id": n, "type": T, "proto": "<base64>"}`, and answers each with one JSON line:
`{"id": n, "ok": true, "again": <the SDK's own JSON>}` or
`{"id": n, "ok": false, "error": "…"}`. Answers to protobuf types also carry `"proto"`,
the SDK's own bytes in base64. An SDK that has no such type answers `"unknown": true`.

Types T that every version has, read with its pydantic models (0.2, 0.3) or its protobuf
messages (1.x: no unknown members, and the SDK's own check of required fields):

    AgentCard  Task  Message  SendMessageParams  StreamEvent  PushConfig  TaskQuery  TaskId
    Error                     the `error` member of a JSON-RPC reply; in 1.x its details must
                              be the google.rpc messages that their `@type` names
    RpcRequest:<Operation>    a whole JSON-RPC request, e.g. RpcRequest:SendMessage
    RpcResponse:<Operation>   a whole JSON-RPC reply or one SSE frame of it
    Proto:<full name>         a protobuf message as bytes or JSON, e.g. Proto:a2a.v1.Task

Only 1.x:

    ListTasksResponse
    AgentCard:client          the card as the SDK's client reads it, with 0.3 members

Only 0.3 (and the compatibility types of 1.x):

    RestProto:<name>          a REST body as ProtoJSON of a2a.v1, e.g. RestProto:Task

Operations are the 1.0 names in every version.
"""

import base64
import importlib
import importlib.metadata
import json
import sys
from collections.abc import Callable

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.unknown_fields import UnknownFieldSet

IS_1 = importlib.metadata.version("a2a-sdk").startswith("1.")
# Importing these makes their messages known by name.
PROTO_MODULES = (
    ("a2a.types.a2a_pb2", "a2a.compat.v0_3.a2a_v0_3_pb2", "google.rpc.error_details_pb2", "google.rpc.status_pb2")
    if IS_1
    else ("a2a.grpc.a2a_pb2",)
)
for module in PROTO_MODULES:
    importlib.import_module(module)


class UnknownType(Exception):
    """This SDK has no such type."""


def proto_class(name: str):
    try:
        return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(name))
    except KeyError:
        raise UnknownType(name) from None


def accept_proto(name: str, line: dict) -> dict:
    """Parses a protobuf message from bytes or JSON, refusing fields it does not know."""
    if "proto" in line:
        parsed = proto_class(name).FromString(base64.b64decode(line["proto"]))
        refuse_unknown_fields(parsed)
    else:
        parsed = ParseDict(line["json"], proto_class(name)())
    content = parsed.SerializeToString(deterministic=True)
    return {"again": MessageToDict(parsed), "proto": base64.b64encode(content).decode("ascii")}


def refuse_unknown_fields(parsed) -> None:
    if len(UnknownFieldSet(parsed)):
        raise ValueError(f"unknown fields in {parsed.DESCRIPTOR.full_name}")
    for field, value in parsed.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for item in [value] if hasattr(value, "DESCRIPTOR") else value:
            refuse_unknown_fields(item)


if IS_1:
    from a2a.client.card_resolver import parse_agent_card
    from a2a.server.jsonrpc_models import JSONRPCError
    from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
    from a2a.types import a2a_pb2 as pb
    from a2a.utils.proto_utils import validate_proto_required_fields
    from jsonrpc.jsonrpc2 import JSONRPC20Request, JSONRPC20Response

    MESSAGES = {
        "AgentCard": pb.AgentCard,
        "Task": pb.Task,
        "Message": pb.Message,
        "SendMessageParams": pb.SendMessageRequest,
        "StreamEvent": pb.StreamResponse,
        "PushConfig": pb.TaskPushNotificationConfig,
        "TaskQuery": pb.GetTaskRequest,
        "TaskId": pb.CancelTaskRequest,
    }
    RESULTS = {
        "SendMessage": pb.SendMessageResponse,
        "SendStreamingMessage": pb.StreamResponse,
        "GetTask": pb.Task,
        "CancelTask": pb.Task,
        "SubscribeToTask": pb.StreamResponse,
        "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig,
        "GetTaskPushNotificationConfig": pb.TaskPushNotificationConfig,
        "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsResponse,
        "GetExtendedAgentCard": pb.AgentCard,
    }

    def accept_message(kind, value) -> object:
        parsed = ParseDict(value, kind())
        validate_proto_required_fields(parsed)
        return MessageToDict(parsed)

    def accept_card(value) -> object:
        again = accept_message(pb.AgentCard, value)
        # The client's reader edits what it is given.
        read = MessageToDict(parse_agent_card(json.loads(json.dumps(value))))
        if read != again:
            raise ValueError("the client reads another card")
        return again

    def accept_client_card(value) -> object:
        parsed = parse_agent_card(value)
        validate_proto_required_fields(parsed)
        return MessageToDict(parsed)

    def accept_task_list(value) -> object:
        # The SDK's check takes an empty page for a missing one, so look at the members.
        missing = {"tasks", "nextPageToken", "pageSize", "totalSize"} - value.keys()
        if missing:
            raise ValueError(f"missing {sorted(missing)}")
        parsed = ParseDict(value, pb.ListTasksResponse())
        for task in parsed.tasks:
            validate_proto_required_fields(task)
        return MessageToDict(parsed, always_print_fields_with_no_presence=True)

    def accept_error(value) -> object:
        error = JSONRPCError.model_validate(value)
        for detail in error.data or []:
            kind = proto_class(detail["@type"].removeprefix("type.googleapis.com/"))
            ParseDict({name: item for name, item in detail.items() if name != "@type"}, kind())
        return error.model_dump(exclude_none=True)

    def accept_rpc_request(operation: str, value) -> object:
        kind = JsonRpcDispatcher.METHOD_TO_MODEL.get(operation)
        if kind is None:
            raise UnknownType(operation)
        if JSONRPC20Request.from_data(value).method != operation:
            raise ValueError(f"the method is not {operation}")
        return {**value, "params": accept_message(kind, value.get("params", {}))}

    def accept_rpc_response(operation: str, value) -> object:
        JSONRPC20Response(**{("_id" if key == "id" else key): item for key, item in value.items()})
        if "error" in value:
            return {**value, "error": accept_error(value["error"])}
        if operation == "DeleteTaskPushNotificationConfig":
            return value
        if operation == "ListTasks":
            return {**value, "result": accept_task_list(value["result"])}
        if operation not in RESULTS:
            raise UnknownType(operation)
        return {**value, "result": accept_message(RESULTS[operation], value["result"])}

    ACCEPT: dict[str, Callable] = {
        "AgentCard": accept_card,
        "AgentCard:client": accept_client_card,
        "ListTasksResponse": accept_task_list,
        "Error": accept_error,
    }

    def accept_json(kind: str, value) -> object:
        if kind in ACCEPT:
            return ACCEPT[kind](value)
        if kind not in MESSAGES:
            raise UnknownType(kind)
        return accept_message(MESSAGES[kind], value)

else:
    from a2a import types
    from pydantic import TypeAdapter

    MODELS = {
        "AgentCard": types.AgentCard,
        "Task": types.Task,
        "Message": types.Message,
        "SendMessageParams": types.MessageSendParams,
        "StreamEvent": types.SendStreamingMessageSuccessResponse.model_fields["result"].annotation,
        "PushConfig": types.TaskPushNotificationConfig,
        "TaskQuery": types.TaskQueryParams,
        "TaskId": types.TaskIdParams,
        "Error": types.JSONRPCErrorResponse.model_fields["error"].annotation,
    }
    # The 1.0 operation names that these versions spell differently.
    ENVELOPES = {
        "CreateTaskPushNotificationConfig": "SetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
        "GetExtendedAgentCard": "GetAuthenticatedExtendedCard",
    }

    def accept_json(kind: str, value) -> object:
        if kind not in MODELS:
            raise UnknownType(kind)
        return accept_model(MODELS[kind], value)

    def accept_model(model, value) -> object:
        adapter = TypeAdapter(model)
        parsed = adapter.validate_python(value)
        return adapter.dump_python(parsed, mode="json", exclude_none=True, by_alias=True)

    def accept_rpc_request(operation: str, value) -> object:
        named = {"SubscribeToTask": "TaskResubscription"} | ENVELOPES
        return accept_model(envelope(named.get(operation, operation) + "Request"), value)

    def accept_rpc_response(operation: str, value) -> object:
        named = {"SubscribeToTask": "SendStreamingMessage"} | ENVELOPES
        return accept_model(envelope(named.get(operation, operation) + "Response"), value)

    def envelope(name: str):
        if not hasattr(types, name):
            raise UnknownType(name)
        return getattr(types, name)


def accept(line: dict) -> dict:
    kind, _, name = line["type"].partition(":")
    if kind == "Proto":
        return accept_proto(name, line)
    if kind == "RestProto":
        return accept_proto(f"a2a.v1.{name}", line)
    if kind == "RpcRequest":
        return {"again": accept_rpc_request(name, line["json"])}
    if kind == "RpcResponse":
        return {"again": accept_rpc_response(name, line["json"])}
    return {"again": accept_json(line["type"], line["json"])}


def answer(line: dict) -> dict:
    try:
        return {"id": line["id"], "ok": True, **accept(line)}
    except UnknownType as error:
        return {"id": line["id"], "ok": False, "unknown": True, "error": f"no type {error}"}
    except Exception as error:  # whatever the SDK raises is its verdict
        said = f"{type(error).__name__}: {error} {getattr(error, 'data', None) or ''}"
        return {"id": line["id"], "ok": False, "error": said.strip()}


if __name__ == "__main__":
    for text in sys.stdin:
        if text.strip():
            print(json.dumps(answer(json.loads(text))), flush=True)
