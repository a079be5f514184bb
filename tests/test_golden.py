"""Every recorded conversation through our codecs, as a server and as a client meet it.

What a peer said is read and written again: it must mean the same (see `golden_files.meaning`). Where a peer said
something wrong, or we say it differently on purpose, a table below names the file and the reason; nothing is skipped.
"""

import base64
import fnmatch
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.protobuf.json_format import MessageToDict

from parley.dialects import protobuf_v0_3, protobuf_v1_0, v0_3_protojson, v1_0
from parley.dialects.cards import decode_any_card, encode_superset_card
from parley.dialects.detect import detect_jsonrpc, detect_rest
from parley.dialects.dialect import JsonDialect
from parley.dialects.json_errors import decode_error, decode_rest_error
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import ProtoMessage, parse_reply, parse_request
from parley.dialects.protobuf_status import decode_status
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import decode_rest_request, encode_rest_request
from parley.protocol import errors as e
from parley.protocol.errors import A2AError
from parley.protocol.operations import GET_EXTENDED_CARD, SEND_MESSAGE, Operation
from parley.protocol.requests import Request
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.wire import jsonrpc, rest, sse
from tests.golden_files import Golden, load, meaning

JSONRPC, REST, GRPC, CARDS, PUSHES = (load(binding) for binding in ("jsonrpc", "rest", "grpc", "card", "push"))


def each(files: list[Golden]) -> pytest.MarkDecorator:
    """One test per file, named by it."""
    return pytest.mark.parametrize("golden", files, ids=lambda golden: golden.name)


# --- what peers got wrong, and what we say otherwise ------------------------------------------------------------------

REFUSED: dict[str, type[A2AError]] = {
    # Scenes that are invalid on purpose, whoever the peer.
    "jsonrpc/error-batch": e.InvalidRequestError,
    "jsonrpc/error-invalid-params": e.InvalidParamsError,
    "jsonrpc/error-invalid-request": e.InvalidRequestError,
    "jsonrpc/error-method-not-found": e.MethodNotFoundError,
    "jsonrpc/error-page-size": e.InvalidParamsError,
    "jsonrpc/error-params-missing": e.InvalidParamsError,
    "jsonrpc/error-params-type": e.InvalidParamsError,
    "jsonrpc/error-parse": e.ParseError,
    "jsonrpc/error-version-not-supported": e.VersionNotSupportedError,
    "rest/error-invalid-body": e.InvalidParamsError,
    "rest/error-invalid-params": e.InvalidParamsError,
    "rest/error-list-tasks": e.MethodNotFoundError,
    "rest/error-method-not-found": e.MethodNotFoundError,
    "rest/error-page-size": e.InvalidParamsError,
    "rest/error-params-type": e.InvalidParamsError,
    "rest/error-parse": e.ParseError,
    "rest/error-version-not-supported": e.VersionNotSupportedError,
    "grpc/error-invalid-params": e.InvalidParamsError,
    "grpc/error-page-size": e.InvalidParamsError,
    # `{"id": 3, "method": "SendMessage"}`: what is missing for us is not `jsonrpc`, optional since 0.1, but the params.
    "1.3.0/jsonrpc/error-invalid-request": e.InvalidParamsError,
    "1.3.0-compat-0.3/jsonrpc/error-invalid-request": e.InvalidParamsError,
    # 0.2.16's client names webhooks `tasks/{id}/pushNotification/undefined`, which its own server cannot read either.
    "0.2.16/grpc/error-push-create": e.InvalidParamsError,
    "0.2.16/grpc/error-push-get": e.InvalidParamsError,
    "0.2.16/grpc/error-push-not-supported": e.InvalidParamsError,
}
"""Requests that we refuse, by scene or by full name, and the error we answer with."""

REPORTED: dict[str, type[A2AError]] = {
    "error-agent-crash": e.InternalError,
    "error-batch": e.InvalidRequestError,
    "error-cancel-not-found": e.TaskNotFoundError,
    "error-extended-card-not-configured": e.ExtendedCardNotConfiguredError,
    "error-extended-card-unsupported": e.UnsupportedOperationError,
    "error-invalid-body": e.InvalidParamsError,
    "error-invalid-params": e.InvalidParamsError,
    "error-invalid-request": e.InvalidRequestError,
    "error-method-not-found": e.MethodNotFoundError,
    "error-not-cancelable": e.TaskNotCancelableError,
    "error-page-size": e.InvalidParamsError,
    "error-params-missing": e.InvalidParamsError,
    "error-params-type": e.InvalidParamsError,
    "error-parse": e.ParseError,
    "error-push-config-not-found": e.TaskNotFoundError,
    "error-push-not-supported": e.PushNotificationNotSupportedError,
    "error-raised-agent-response": e.InvalidAgentResponseError,
    "error-raised-card": e.ExtendedCardNotConfiguredError,
    "error-raised-content-type": e.ContentTypeNotSupportedError,
    "error-raised-extension": e.ExtensionSupportRequiredError,
    "error-raised-operation": e.UnsupportedOperationError,
    "error-raised-push": e.PushNotificationNotSupportedError,
    "error-send-to-finished": e.UnsupportedOperationError,
    "error-send-to-unknown": e.TaskNotFoundError,
    "error-stream-agent-crash": e.InternalError,
    "error-subscribe-finished": e.UnsupportedOperationError,
    "error-task-not-found": e.TaskNotFoundError,
    "error-unsupported-push": e.UnsupportedOperationError,
    "error-unsupported-stream": e.UnsupportedOperationError,
    "error-unsupported-subscribe": e.UnsupportedOperationError,
    "error-version-missing": e.VersionNotSupportedError,
    "error-version-not-supported": e.VersionNotSupportedError,
}
"""What each scene's error means, where the peer says it as its dialect has it."""

REPORTED_OTHERWISE: dict[str, type[A2AError]] = {
    # Before 1.0 a message to a finished task was an invalid parameter.
    "0.2.16/*/error-send-to-finished": e.InvalidParamsError,
    "0.2.16/*/error-subscribe-finished": e.InvalidParamsError,
    "0.3.26/*/error-send-to-finished": e.InvalidParamsError,
    "0.3.26/*/error-subscribe-finished": e.InvalidParamsError,
    # 0.2.16 calls everything that fails validation an invalid request, the others some of it.
    "0.2.16/jsonrpc/error-invalid-params": e.InvalidRequestError,
    "0.2.16/jsonrpc/error-method-not-found": e.InvalidRequestError,
    "0.2.16/jsonrpc/error-params-type": e.InvalidRequestError,
    "0.3.26/jsonrpc/error-params-type": e.InvalidRequestError,
    "1.3.0-compat-0.3/jsonrpc/error-params-missing": e.InvalidRequestError,
    "1.3.0-compat-0.3/jsonrpc/error-params-type": e.InvalidRequestError,
    # A refusal that the SDK forgot to translate arrives as a failure, its code at best inside the text.
    "0.2.16/jsonrpc/error-push-not-supported": e.InternalError,
    "0.2.16/jsonrpc/error-unsupported-stream": e.InternalError,
    "0.3.26/jsonrpc/error-push-not-supported": e.InternalError,
    "0.3.26/jsonrpc/error-unsupported-stream": e.InternalError,
    "0.3.26/jsonrpc/card-extended-undeclared": e.InternalError,
    "0.3.26/jsonrpc/push-get-unknown": e.InternalError,
    "0.3.26/rest/error-invalid-params": e.InternalError,
    "0.3.26/rest/error-list-tasks": e.InternalError,
    "0.3.26/rest/error-params-type": e.InternalError,
    "0.3.26/rest/error-parse": e.InternalError,
    "0.3.26/rest/error-push-list": e.InternalError,
    "0.3.26/rest/error-unsupported-stream": e.InternalError,
    "1.3.0-compat-0.3/jsonrpc/error-raised-extension": e.InternalError,
    "0.2.16/grpc/error-push-create": e.UnknownRemoteError,
    "0.2.16/grpc/error-push-not-supported": e.UnknownRemoteError,
    "0.2.16/grpc/error-unsupported-stream": e.UnknownRemoteError,
    "0.3.26/grpc/error-push-not-supported": e.UnknownRemoteError,
    "0.3.26/grpc/error-raised-card": e.UnknownRemoteError,
    "0.3.26/grpc/error-unsupported-stream": e.UnknownRemoteError,
    "1.3.0/grpc/error-agent-crash": e.UnknownRemoteError,
    "1.3.0/grpc/error-stream-agent-crash": e.UnknownRemoteError,
    "1.3.0-compat-0.3/grpc/error-agent-crash": e.UnknownRemoteError,
    "1.3.0-compat-0.3/grpc/error-stream-agent-crash": e.UnknownRemoteError,
    # gRPC knows these methods, 0.3.26 does not; 0.2.16 cannot read the name it gave the webhook.
    "0.3.26/grpc/error-push-delete": e.UnsupportedOperationError,
    "0.3.26/grpc/error-push-list": e.UnsupportedOperationError,
    "0.2.16/grpc/error-push-get": e.InvalidParamsError,
    # Statuses of HTTP without a word of explanation: 404 is most often a task, 405 a path, 501 an operation.
    "0.3.26/rest/card-extended-undeclared": e.TaskNotFoundError,
    "0.3.26/rest/error-push-delete": e.MethodNotFoundError,
    "0.3.26/rest/error-push-not-supported": e.UnsupportedOperationError,
    "*/rest/error-method-not-found": e.TaskNotFoundError,
    # 1.3.0 gives both the same reason, and in REST there is no code to tell them apart.
    "1.3.0/rest/error-parse": e.InvalidRequestError,
    "1.3.0-compat-0.3/rest/error-parse": e.InvalidRequestError,
    # 1.3.0 forgets this route in its 0.3, and refuses the version.
    "1.3.0-compat-0.3/rest/error-push-delete": e.VersionNotSupportedError,
}

UNDERSTOOD: dict[str, Operation] = {
    # Sent by hand without `A2A-Version`: 1.3.0 takes that for 0.3; we go by the method and the path.
    "1.3.0/jsonrpc/error-version-missing": SEND_MESSAGE,
    "1.3.0/rest/error-version-missing": SEND_MESSAGE,
    "1.3.0-compat-0.3/jsonrpc/send-without-version": SEND_MESSAGE,
    "1.3.0-compat-0.3/rest/send-without-version": SEND_MESSAGE,
}
"""The operation of requests that were recorded without one."""


def lookup(table: dict[str, Any], name: str) -> Any:
    """The row for a file: its full name, its scene in one peer, its scene over one binding, or its scene."""
    peer, binding, scene = name.split("/")
    keys = (name, f"{peer}/*/{scene}", f"*/{binding}/{scene}", f"{binding}/{scene}", scene)
    return next((table[key] for key in keys if key in table), None)


def reported(golden: Golden) -> type[A2AError] | None:
    """The error that the reply reports, None where it is no error."""
    return lookup(REPORTED_OTHERWISE, golden.name) or lookup(REPORTED, golden.name)


def operation_of(golden: Golden) -> Operation:
    return golden.operation or UNDERSTOOD[golden.name]


def end_at_input_required(recorded: dict[str, Any]) -> None:
    """1.3.0 says `final: false` to 0.3 where it ends the stream; 0.3 wants true, and so do we."""
    update = recorded.get("statusUpdate", recorded)
    if update.get("status", {}).get("state") in ("input-required", "TASK_STATE_INPUT_REQUIRED"):
        update["final"] = True


def be_explicit_about_waiting(recorded: dict[str, Any]) -> None:
    """A caller of 0.3 that says nothing waits; we say so."""
    recorded["configuration"] = {"blocking": True}


def be_explicit_about_not_waiting(recorded: dict[str, Any]) -> None:
    """The same where JSON is made from protobuf, in which silence is false: the configuration is written, but empty."""
    recorded["configuration"] = {}


def leave_unnamed(recorded: dict[str, Any]) -> None:
    """A webhook without an id is named `None` by the SDK, and has no name with us."""
    del recorded["config"]["name"]


def say_what_0_3_demands(recorded: dict[str, Any]) -> None:
    """The protobuf card of 0.2.16 has neither version nor transport, which every card of 0.3 has."""
    recorded |= {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}


def deny_the_extended_card(recorded: dict[str, Any]) -> None:
    """1.3.0 tells 1.0 readers that there is none, and 0.3 readers nothing; we tell both."""
    recorded["supportsAuthenticatedExtendedCard"] = False
    tell_all_flows(recorded)


def tell_all_flows(recorded: dict[str, Any]) -> None:
    """1.3.0 leaves PKCE out of a scheme's 0.3 form, and its own client reads that form alone; we repeat it there."""
    for scheme in recorded["securitySchemes"].values():
        if "oauth2SecurityScheme" in scheme:
            scheme["flows"] = scheme["oauth2SecurityScheme"]["flows"]


SAID_OTHERWISE: dict[str, Callable[[dict[str, Any]], None]] = {
    "1.3.0-compat-0.3/jsonrpc/stream-input-required reply": end_at_input_required,
    "1.3.0-compat-0.3/rest/stream-input-required reply": end_at_input_required,
    "1.3.0-compat-0.3/grpc/stream-input-required reply": end_at_input_required,
    "1.3.0-compat-0.3/jsonrpc/send-without-version request": be_explicit_about_waiting,
    "1.3.0-compat-0.3/rest/send-without-version request": be_explicit_about_not_waiting,
    "1.3.0-compat-0.3/rest/push-create-unnamed request": leave_unnamed,
    "1.3.0-compat-0.3/grpc/push-create-unnamed request": leave_unnamed,
    "0.2.16/grpc/card-extended reply": say_what_0_3_demands,
    "1.3.0/card/public reply": tell_all_flows,
    "1.3.0/card/public-plain reply": deny_the_extended_card,
}
"""What we write otherwise than it was recorded, as the change that makes the recorded value ours."""


def expected(golden: Golden, half: str, recorded: bytes | dict[str, Any]) -> str:
    """The meaning of what was recorded, with what we say otherwise."""
    value = json.loads(recorded) if isinstance(recorded, bytes) else recorded
    SAID_OTHERWISE.get(f"{golden.name} {half}", lambda _: None)(value)
    return meaning(value)


def written(encoded: bytes) -> str:
    return meaning(json.loads(encoded))


def understood(files: list[Golden]) -> list[Golden]:
    return [golden for golden in files if lookup(REFUSED, golden.name) is None]


def refused(files: list[Golden]) -> list[Golden]:
    return [golden for golden in files if lookup(REFUSED, golden.name) is not None]


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


def read_jsonrpc(golden: Golden) -> tuple[Operation, Version, Request, bytes]:
    """As a server reads a request; the last item are the params."""
    call = jsonrpc.decode_request(golden.request_body)
    found = detect_jsonrpc(call.method, golden.version_header)
    return (
        found.operation,
        found.version,
        DIALECTS[found.version].decode_request(found.operation, call.params),
        (call.params),
    )


@each(understood(JSONRPC))
def test_a_json_rpc_request_is_understood_and_said_again(golden: Golden):
    operation, version, request, params = read_jsonrpc(golden)
    again = DIALECTS[golden.version].encode_request(operation, request)
    # Nothing in a request tells 0.2 from 0.3, and nothing needs to.
    assert (operation, version) == (operation_of(golden), max(golden.version, Version.V0_3))
    assert written(again) == expected(golden, "request", params)


@each(refused(JSONRPC))
def test_a_json_rpc_request_that_makes_no_sense_is_refused(golden: Golden):
    with pytest.raises((jsonrpc.RejectedRequest, A2AError)) as caught:
        read_jsonrpc(golden)
    error = caught.value.error if isinstance(caught.value, jsonrpc.RejectedRequest) else caught.value
    assert type(error) is lookup(REFUSED, golden.name)


@each(JSONRPC)
def test_a_json_rpc_reply_is_understood_and_said_again(golden: Golden):
    dialect = DIALECTS[golden.version]
    errors: list[A2AError] = []
    for body in json_frames(golden):
        reply = jsonrpc.decode_response(body)
        if reply.error is not None:
            errors.append(decode_error(golden.version, reply.error))
            continue
        assert reply.result is not None
        if "sse" in golden.reply:
            (again,) = dialect.encode_event(dialect.decode_event(reply.result))
        else:
            operation = operation_of(golden)
            again = dialect.encode_result(operation, dialect.decode_result(operation, reply.result))
        assert written(again) == expected(golden, "reply", reply.result)
    assert_reported(golden, errors)


def json_frames(golden: Golden) -> list[bytes]:
    """The reply, or the data of each frame of its stream."""
    if "sse" not in golden.reply:
        return [golden.reply_body]
    return [frame.data for frame in sse_frames(golden)]


def sse_frames(golden: Golden) -> list[sse.Frame]:
    decoder = sse.Decoder()
    frames = decoder.feed(golden.reply["sse"].encode())
    assert not decoder.pending
    return frames


def assert_reported(golden: Golden, errors: list[A2AError]) -> None:
    """An error ends a reply, so there is one or none."""
    meant = reported(golden)
    assert [type(error) for error in errors] == ([meant] if meant else [])


# --- REST -------------------------------------------------------------------------------------------------------------


def read_rest(golden: Golden) -> tuple[rest.RouteMatch, Request, JsonDialect]:
    """As a server reads a request, together with the dialect to answer in."""
    line = urlsplit(golden.request["path"])
    found = rest.match_any(golden.request["method"], line.path)
    detect_rest(found.operation, found.version, golden.version_header)
    request, dialect = decode_rest_request(
        found.version,
        found.operation,
        parameters=found.parameters,
        query=rest.read_query(found.route, rest.parse_query(line.query)),
        body=golden.request_body,
        tenant=found.tenant,
    )
    return found, request, dialect


def without_path_names(body: bytes, parameters: dict[str, str]) -> dict[str, Any]:
    """A body without the members that repeat the path, which SDKs write and the path overrides."""
    task_id = parameters.get("id", "")
    repeated = {"id": task_id, "taskId": task_id, "name": f"tasks/{task_id}"}
    members = json.loads(body or b"{}")
    return {name: value for name, value in members.items() if not (parameters and repeated.get(name) == value)}


@each(understood(REST))
def test_a_rest_request_is_understood_and_said_again(golden: Golden):
    found, request, _ = read_rest(golden)
    again = encode_rest_request(found.version, found.operation, request)
    verb, path = rest.build_path(found.operation, found.version, parameters=again.parameters, tenant=again.tenant)
    recorded = urlsplit(golden.request["path"])
    fields = rest.read_query(found.route, rest.parse_query(rest.encode_query(again.query)))
    assert (found.operation, found.version) == (operation_of(golden), golden.version)
    assert golden.request["method"] in found.route.verbs
    assert path == recorded.path
    if not golden.name.startswith("1.3.0-compat"):  # it follows a task with POST first, and falls back to our GET
        assert verb == golden.request["method"]
    assert meaning(fields) == meaning(rest.read_query(found.route, rest.parse_query(recorded.query)))
    body = without_path_names(golden.request_body, found.parameters)
    assert meaning(without_path_names(again.body, found.parameters)) == expected(golden, "request", body)


@each(refused(REST))
def test_a_rest_request_that_makes_no_sense_is_refused(golden: Golden):
    with pytest.raises(A2AError) as caught:
        read_rest(golden)
    assert type(caught.value) is lookup(REFUSED, golden.name)


REST_DIALECTS = {Version.V0_3: v0_3_protojson.REST_DIALECT, Version.V1_0: v1_0.REST_DIALECT}
"""What SDKs speak over REST."""


@each([golden for golden in REST if golden.reply["status"] < 400])
def test_a_rest_reply_is_understood_and_said_again(golden: Golden):
    dialect, operation = REST_DIALECTS[golden.version], operation_of(golden)
    assert read_rest(golden)[2] is dialect
    if "sse" not in golden.reply:
        again = dialect.encode_result(operation, dialect.decode_result(operation, golden.reply_body))
        assert written(again) == expected(golden, "reply", golden.reply_body)
        return
    errors: list[A2AError] = []
    for frame in sse_frames(golden):
        if frame.event == "error":
            errors.append(decode_rest_error(golden.reply["status"], frame.data))
            continue
        (again,) = dialect.encode_event(dialect.decode_event(frame.data))
        assert written(again) == expected(golden, "reply", frame.data)
    if golden.reply.get("cut"):  # a server that breaks off says nothing, not even that something is wrong
        assert errors == []
    else:
        assert_reported(golden, errors)


@each([golden for golden in REST if golden.reply["status"] >= 400])
def test_a_rest_error_is_understood(golden: Golden):
    assert_reported(golden, [decode_rest_error(golden.reply["status"], golden.reply_body)])


# --- gRPC -------------------------------------------------------------------------------------------------------------


def protobuf_dialect(golden: Golden) -> ProtobufDialect:
    """0.2.16 has the package of 0.3."""
    return protobuf_v1_0.DIALECT if golden.version is Version.V1_0 else protobuf_v0_3.DIALECT


def parsed(parse: Callable[[Any, bytes], ProtoMessage], kind: Any, proto: str) -> ProtoMessage:
    """A recorded message, all of whose fields we know."""
    message = parse(kind, base64.b64decode(proto))
    known = kind.FromString(message.SerializeToString())
    known.DiscardUnknownFields()
    assert known.ByteSize() == message.ByteSize()
    return message


def read_grpc(golden: Golden) -> tuple[ProtoMessage, Request]:
    """As a server reads a request."""
    dialect = protobuf_dialect(golden)
    rpc = dialect.rpc(operation_of(golden))
    assert rpc.path == golden.request["rpc"]
    message = parsed(parse_request, rpc.request, golden.request["proto"])
    return message, dialect.decode_request(operation_of(golden), message)


@each(understood(GRPC))
def test_a_grpc_request_is_understood_and_said_again(golden: Golden):
    message, request = read_grpc(golden)
    again = protobuf_dialect(golden).encode_request(operation_of(golden), request)
    assert meaning(MessageToDict(again)) == expected(golden, "request", MessageToDict(message))


@each(refused(GRPC))
def test_a_grpc_request_that_makes_no_sense_is_refused(golden: Golden):
    with pytest.raises(A2AError) as caught:
        read_grpc(golden)
    assert type(caught.value) is lookup(REFUSED, golden.name)


@each(GRPC)
def test_a_grpc_reply_is_understood_and_said_again(golden: Golden):
    dialect, operation = protobuf_dialect(golden), operation_of(golden)
    rpc = dialect.rpc(operation)
    for proto in golden.reply["protos"]:
        message = parsed(parse_reply, rpc.response, proto)
        if rpc.streams:
            again = dialect.encode_event(dialect.decode_event(message))
        else:
            again = dialect.encode_result(operation, dialect.decode_result(operation, message))
        assert meaning(MessageToDict(again)) == expected(golden, "reply", MessageToDict(message))
    details = golden.reply["trailers"].get("grpc-status-details-bin")
    status = (golden.reply["code"], golden.reply["details"], base64.b64decode(details) if details else None)
    assert_reported(golden, [] if status[0] == "OK" else [decode_status(*status)])


# --- cards ------------------------------------------------------------------------------------------------------------

CARD_ERRORS = [golden for golden in CARDS if golden.reply["status"] >= 400]
SERVED_CARDS = [golden for golden in CARDS if golden.reply["status"] < 400]


@each(SERVED_CARDS)
def test_a_card_is_understood_and_said_again(golden: Golden):
    """a2a-sdk 1.3.0 serves the members of both versions in one document, and so do we."""
    card, version = decode_any_card(golden.reply_body)
    again = encode_superset_card(card) if version is Version.V1_0 else DIALECTS[version].encode_card(card)
    assert version is golden.version
    assert written(again) == expected(golden, "reply", golden.reply_body)


@each(SERVED_CARDS)
def test_a_superset_card_says_to_each_reader_what_its_own_card_would(golden: Golden):
    """Each reader must know every scheme, so that there is one OAuth flow per scheme, as 1.0 wants it, for both."""
    card = one_flow_per_scheme(decode_any_card(golden.reply_body)[0])
    superset = encode_superset_card(card)
    for version in (Version.V0_3, Version.V1_0):
        dialect = DIALECTS[version]
        assert dialect.decode_card(superset) == dialect.decode_card(dialect.encode_card(card))


@each(CARD_ERRORS)
def test_the_refusal_of_a_card_is_understood(golden: Golden):
    """0.2 has the extended card at a path of its own, which answers with a bare 404."""
    error = decode_rest_error(golden.reply["status"], golden.reply_body)
    assert (golden.operation, type(error)) == (GET_EXTENDED_CARD, e.TaskNotFoundError)


# --- webhooks ---------------------------------------------------------------------------------------------------------


UNTOLD = Task("untold", None, TaskStatus(TaskState.UNKNOWN))
"""The task beside an event of 1.0, of which a webhook of 1.0 hears nothing."""


@each(PUSHES)
def test_a_push_is_understood_and_said_again(golden: Golden):
    dialect = DIALECTS[golden.version]
    event = dialect.decode_push(golden.request_body)
    again = dialect.encode_push(event, event if isinstance(event, Task) else UNTOLD)
    assert written(again) == expected(golden, "request", golden.request_body)


# --- the tests themselves ---------------------------------------------------------------------------------------------


def recorded_values(golden: Golden) -> Iterator[Any]:
    """Every JSON value of an exchange that the tests above compare."""
    if golden.binding == "grpc":
        rpc = protobuf_dialect(golden).rpc(operation_of(golden))
        yield MessageToDict(rpc.request.FromString(base64.b64decode(golden.request["proto"])))
        yield from (MessageToDict(rpc.response.FromString(base64.b64decode(p))) for p in golden.reply["protos"])
        return
    yield from (half["body"] for half in (golden.request, golden.reply) if "body" in half)
    yield from (json.loads(frame.data) for frame in (sse_frames(golden) if "sse" in golden.reply else ()))


def damaged(value: Any) -> Iterator[Any]:
    """The value with one text, number or flag changed, once for each of them."""
    match value:
        case dict():
            for name, item in value.items():
                yield from ({**value, name: other} for other in damaged(item))
        case list():
            for index, item in enumerate(value):
                yield from ([*value[:index], other, *value[index + 1 :]] for other in damaged(item))
        case bool():
            yield not value
        case str():
            yield f"1{value[1:]}" if value.startswith("2026-") else f"other {value}"
        case int() | float():
            yield value + 1
        case None:
            yield "something"


MAIN_ENDPOINT = {"transport": "JSONRPC", "url": "http://agent.example/"}
RICH = ("card-extended", "list-tasks-filtered", "push-create", "send-parts", "send-plain-data", "stream-chunks")


@each([golden for golden in JSONRPC + REST + GRPC if golden.name.endswith(RICH)] + SERVED_CARDS + PUSHES)
def test_nothing_recorded_could_change_without_a_test_above_noticing(golden: Golden):
    """Texts, states, ids, part contents and everything else: each alone, changed, means something else."""
    for value in recorded_values(golden):
        unnoticed = [other for other in damaged(value) if meaning(other) == meaning(value)]
        assert unnoticed == []


@each([golden for golden in JSONRPC + REST + GRPC if golden.name.endswith(RICH)] + SERVED_CARDS + PUSHES)
def test_nothing_recorded_could_be_lost_without_a_test_above_noticing(golden: Golden):
    """Each member and each item, left out, is missed, except those that `meaning` names: empty ones, and a card's main
    endpoint among its additional ones."""
    for value in recorded_values(golden):
        unnoticed = [gone for gone, other in shortened(value) if meaning(other) == meaning(value)]
        assert [gone for gone in unnoticed if gone not in ("", [], {}, False, MAIN_ENDPOINT)] == []


def shortened(value: Any) -> Iterator[tuple[Any, Any]]:
    """What is left out, and the value without it, once for each member and each item."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield item, {key: other for key, other in value.items() if key != name}
            yield from ((gone, {**value, name: other}) for gone, other in shortened(item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield item, [*value[:index], *value[index + 1 :]]
            yield from ((gone, [*value[:index], other, *value[index + 1 :]]) for gone, other in shortened(item))


def test_the_tables_name_no_file_that_is_not_there():
    names = [golden.name for golden in JSONRPC + REST + GRPC + CARDS]
    tables: list[Iterable[str]] = [REFUSED, REPORTED_OTHERWISE, UNDERSTOOD, map(first_word, SAID_OTHERWISE)]
    patterns = [pattern if pattern.count("/") == 2 else f"*/{pattern}" for table in tables for pattern in table]
    unused = [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]
    assert unused == []


def first_word(text: str) -> str:
    return text.split()[0]
