"""What we write is what the SDKs' own types read: each sample goes through them and comes back as the same value.

The samples are encoded by our dialects and given to a2a-sdk 0.2.16, 0.3.26 and 1.3.0 in environments of their own (see
`peers/accept.py`, which says what each type is), and read again from the SDK's own spelling. What comes back is the
sample, less the documented losses.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from parley.dialects import protobuf_v0_3, protobuf_v1_0, v0_3_protojson
from parley.dialects.cards import encode_superset_card
from parley.dialects.json_errors import decode_error, encode_error
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import message_class
from parley.dialects.registry import DIALECTS
from parley.protocol.errors import A2AError
from parley.protocol.operations import BY_NAME, Operation
from parley.protocol.versions import Version
from parley.wire import jsonrpc
from tests import losses, samples
from tests.losses import Losses
from tests.peer_environments import ask

PEERS = {Version.V0_2: "a2a-sdk-0.2.16", Version.V0_3: "a2a-sdk-0.3.26", Version.V1_0: "a2a-sdk-1.3.0"}
LOSSES = {
    Version.V0_2: Losses(losses.RULES_0_2),
    Version.V0_3: Losses(losses.RULES_0_3),
    Version.V1_0: Losses(losses.RULES_1_0),
}


@dataclass(frozen=True)
class Case:
    """Something we write, its type in a peer, how we read what the peer makes of it, and what we must read."""

    name: str
    peer: str
    type: str
    encoded: bytes
    decode: Callable[[bytes], Any]
    expected: Any
    is_protobuf: bool = False

    @property
    def question(self) -> dict[str, Any]:
        if self.is_protobuf:
            return {"type": self.type, "proto": base64.b64encode(self.encoded).decode()}
        return {"type": self.type, "json": json.loads(self.encoded)}


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


def request_cases(version: Version) -> Iterator[Case]:
    """Whole JSON-RPC requests."""
    dialect = DIALECTS[version]
    for operation in map(BY_NAME.__getitem__, samples.REQUESTS):
        if not dialect.speaks(operation):
            continue
        for index, request in enumerate(samples.REQUESTS[operation.name]):
            params = dialect.encode_request(operation, request)
            envelope = jsonrpc.encode_request(b'"r-1"', operation.methods[version], params)
            yield Case(
                f"{version} request {operation.name} {index}",
                PEERS[version],
                f"RpcRequest:{operation.name}",
                envelope,
                read_request(version, operation),
                (b'"r-1"', operation.methods[version], LOSSES[version].remaining(request)),
            )


def read_request(version: Version, operation: Operation) -> Callable[[bytes], Any]:
    def read(body: bytes) -> Any:
        call = jsonrpc.decode_request(body)
        return call.id, call.method, DIALECTS[version].decode_request(operation, call.params)

    return read


def result_cases(version: Version) -> Iterator[Case]:
    """Whole JSON-RPC replies."""
    dialect = DIALECTS[version]
    for operation in map(BY_NAME.__getitem__, samples.RESULTS):
        if not dialect.speaks(operation):
            continue
        for index, result in enumerate(samples.RESULTS[operation.name]):
            yield Case(
                f"{version} reply {operation.name} {index}",
                PEERS[version],
                f"RpcResponse:{operation.name}",
                jsonrpc.encode_result(b'"r-1"', dialect.encode_result(operation, result)),
                read_result(version, operation),
                (b'"r-1"', LOSSES[version].remaining(result)),
            )


def read_result(version: Version, operation: Operation) -> Callable[[bytes], Any]:
    def read(body: bytes) -> Any:
        reply = jsonrpc.decode_response(body)
        return reply.id, DIALECTS[version].decode_result(operation, reply.result or b"")

    return read


def event_cases(version: Version) -> Iterator[Case]:
    """Frames of a stream, as JSON-RPC replies and bare, as a webhook gets them."""
    dialect = DIALECTS[version]
    for index, event in enumerate(samples.EVENTS):
        (frame,) = dialect.encode_event(event)
        envelope = jsonrpc.encode_result(b"7", frame)
        expected = LOSSES[version].remaining(event)
        yield Case(
            f"{version} frame {index}",
            PEERS[version],
            "RpcResponse:SendStreamingMessage",
            envelope,
            lambda body: dialect.decode_event(jsonrpc.decode_response(body).result or b""),
            expected,
        )
        yield Case(
            f"{version} push {index}",
            PEERS[version],
            "StreamEvent",
            dialect.encode_push(event, samples.BARE_TASK),
            dialect.decode_push,
            expected if version is Version.V1_0 else LOSSES[version].remaining(samples.BARE_TASK),
        )


def error_cases(version: Version) -> Iterator[Case]:
    """The `error` members of JSON-RPC replies, and whole replies of each method with one."""
    for index, error in enumerate(samples.ERRORS):
        encoded = encode_error(version, error)
        name = f"{version} error {type(error).__name__} {index}"
        yield Case(name, PEERS[version], "Error", encoded, lambda raw: facts(decode_error(version, raw)), facts(error))
    for operation in map(BY_NAME.__getitem__, samples.REQUESTS):
        if DIALECTS[version].speaks(operation):
            envelope = jsonrpc.encode_error(b"null", encode_error(version, samples.ERRORS[5]))
            yield Case(
                f"{version} failure {operation.name}",
                PEERS[version],
                f"RpcResponse:{operation.name}",
                envelope,
                lambda body: facts(decode_error(version, jsonrpc.decode_response(body).error or b"")),
                facts(samples.ERRORS[5]),
            )


def facts(error: A2AError) -> tuple[Any, ...]:
    """All that an error says; errors are equal to themselves alone."""
    return type(error), error.message, error.path, error.details


def card_cases(version: Version) -> Iterator[Case]:
    """A version's own cards, and the superset as readers of that version see it."""
    dialect, peer = DIALECTS[version], PEERS[version]
    reader = "AgentCard:client" if version is Version.V1_0 else "AgentCard"
    # To a reader of 0.2 the superset is a card of 0.3.
    superset_losses = LOSSES[max(version, Version.V0_3)]
    for index, card in enumerate((samples.CARD, samples.BARE_CARD)):
        own, superset = dialect.encode_card(card), encode_superset_card(card)
        yield Case(
            f"{version} card {index}", peer, "AgentCard", own, dialect.decode_card, LOSSES[version].remaining(card)
        )
        yield Case(
            f"{version} superset card {index}",
            peer,
            reader,
            superset,
            dialect.decode_card,
            superset_losses.remaining(one_flow_per_scheme(card)),
        )


# --- REST -------------------------------------------------------------------------------------------------------------

REST_TYPES = {
    "SendMessage": ("SendMessageRequest", "SendMessageResponse"),
    "GetTask": (None, "Task"),
    "CreateTaskPushNotificationConfig": ("CreateTaskPushNotificationConfigRequest", "TaskPushNotificationConfig"),
    "ListTaskPushNotificationConfigs": (None, "ListTaskPushNotificationConfigResponse"),
}
"""The messages of `a2a.v1` that are bodies of requests and replies; what has no body has no type."""


def rest_cases() -> Iterator[Case]:
    """Bodies of 0.3 REST as ProtoJSON; those of 1.0 are what stands in its JSON-RPC envelopes."""
    dialect, peer = v0_3_protojson.REST_DIALECT, PEERS[Version.V0_3]
    lost = Losses(losses.RULES_0_3_PROTOJSON)
    for name, (request_type, result_type) in REST_TYPES.items():
        operation = BY_NAME[name]
        for index, request in enumerate(samples.REQUESTS[name] if request_type else ()):
            encoded, decode = dialect.encode_request(operation, request), bind(dialect.decode_request, operation)
            expected = lost.remaining(request)
            yield Case(f"0.3 REST request {name} {index}", peer, f"RestProto:{request_type}", encoded, decode, expected)
        for index, result in enumerate(samples.RESULTS[name]):
            encoded, decode = dialect.encode_result(operation, result), bind(dialect.decode_result, operation)
            expected = lost.remaining(result)
            yield Case(f"0.3 REST reply {name} {index}", peer, f"RestProto:{result_type}", encoded, decode, expected)
    for index, event in enumerate(samples.EVENTS):
        (frame,) = dialect.encode_event(event)
        yield Case(
            f"0.3 REST frame {index}",
            peer,
            "RestProto:StreamResponse",
            frame,
            dialect.decode_event,
            lost.remaining(event),
        )


def bind(decode: Callable[[Operation, Any], Any], operation: Operation) -> Callable[[Any], Any]:
    return lambda raw: decode(operation, raw)


# --- gRPC -------------------------------------------------------------------------------------------------------------


def protobuf_cases(dialect: ProtobufDialect) -> Iterator[Case]:
    """Every message of a service, as bytes."""
    for operation in filter(dialect.speaks, BY_NAME.values()):
        for index, request in enumerate(samples.REQUESTS[operation.name]):
            message = dialect.encode_request(operation, request)
            name = f"{dialect.package} request {operation.name} {index}"
            yield protobuf_case(dialect, name, message, bind(dialect.decode_request, operation))
        for index, result in enumerate(samples.RESULTS.get(operation.name, ())):
            message = dialect.encode_result(operation, result)
            name = f"{dialect.package} reply {operation.name} {index}"
            yield protobuf_case(dialect, name, message, bind(dialect.decode_result, operation))
    for index, event in enumerate(samples.EVENTS):
        name = f"{dialect.package} event {index}"
        yield protobuf_case(dialect, name, dialect.encode_event(event), dialect.decode_event)
    name = f"{dialect.package} card"
    yield protobuf_case(dialect, name, dialect.encode_card(samples.CARD), dialect.decode_card)


def protobuf_case(dialect: ProtobufDialect, name: str, message: Any, decode: Callable[[Any], Any]) -> Case:
    full_name = message.DESCRIPTOR.full_name

    def read(content: bytes) -> Any:
        return decode(message_class(full_name).FromString(content))

    # That our reader gives back the sample is what the protobuf round trips are for.
    encoded = message.SerializeToString()
    return Case(name, PEERS[dialect.version], f"Proto:{full_name}", encoded, read, read(encoded), is_protobuf=True)


# --- the verdicts -----------------------------------------------------------------------------------------------------

JSON_CASES = (request_cases, result_cases, event_cases, error_cases, card_cases)
CASES = [
    *(case for version in PEERS for cases in JSON_CASES for case in cases(version)),
    *rest_cases(),
    *protobuf_cases(protobuf_v0_3.DIALECT),
    *protobuf_cases(protobuf_v1_0.DIALECT),
]


REFUSED = {
    "0.2 superset card 0": "mutualTLS",  # came with 0.3; what 0.2 shall read must not demand it
    # 1.0 says `unknown` by leaving the state unspecified, which the SDK takes for missing. No task of ours is in it.
    "1.0 reply SendMessage 8": "task.status.state",
    "1.0 reply GetTask 8": "status.state",
    "1.0 frame 10": "status_update.status.state",
    "1.0 push 10": "status_update.status.state",
}
"""What an SDK does not take, and the word in its complaint that says why."""


WRONG = {"type": "RpcResponse:GetTask", "json": {"jsonrpc": "2.0", "id": 1, "result": {"id": 5}}}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, Any]]:
    """What the peers say to all cases, by the name of the case, and to what is wrong, by the name of the peer."""
    found: dict[str, dict[str, Any]] = {}
    for peer in PEERS.values():
        cases = [case for case in CASES if case.peer == peer]
        answers = ask(peer, "accept.py", [WRONG, *(case.question for case in cases)])
        found |= zip([peer, *(case.name for case in cases)], answers, strict=True)
    return found


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in REFUSED], ids=lambda case: case.name)
def test_what_we_write_is_read_by_the_sdk_and_comes_back_as_the_same(case: Case, verdicts: dict[str, Any]):
    verdict = verdicts[case.name]
    assert verdict["ok"], verdict["error"]
    again = base64.b64decode(verdict["proto"]) if case.is_protobuf else msgspec.json.encode(verdict["again"])
    assert case.decode(again) == case.expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_sdk_refuses_is_known(name: str, verdicts: dict[str, Any]):
    assert not verdicts[name]["ok"]
    assert REFUSED[name] in verdicts[name]["error"]


def test_the_sdks_do_refuse_what_is_wrong(verdicts: dict[str, Any]):
    """The cases above mean nothing unless these types have teeth."""
    assert [verdicts[peer]["ok"] for peer in PEERS.values()] == [False, False, False]
