"""Cases about JSON-RPC envelopes, JSON spelling and the format of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from parley.check.cases.case import HTTP, Cases
from parley.check.cases.expectations import INCONCLUSIVE, INVALID, describe
from parley.check.endpoints.probe import Probe, RawAnswer, parsed, unknown_id
from parley.check.findings import Broken, RecordedExchange, Undecided
from parley.dialects.json_errors import ERROR_INFO
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidRequestError,
    MethodNotFoundError,
    ParseError,
    PeerProtocolError,
    TaskNotFoundError,
)
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.versions import Version
from parley.wire import jsonrpc

CASES = Cases()
JSONRPC = (Binding.JSONRPC,)
NOT_FOUND = 404


def _coded(answer: RawAnswer, *expected: type[A2AError], what: str) -> str:
    """Like `expect`, for errors of JSON-RPC itself, which must have a JSON-RPC envelope."""
    if isinstance(answer.error, INCONCLUSIVE):
        raise Undecided(f"{what} is answered with {describe(answer.error)}") from answer.error
    if answer.error is None:
        raise Broken(f"{what} is accepted")
    try:
        response = jsonrpc.decode_response(answer.exchange.body)
    except PeerProtocolError as error:
        raise Broken(f"{what} is answered with HTTP {answer.exchange.status} and no JSON-RPC error") from error
    codes = [kind.row.code for kind in expected]
    report = parsed(response.error or b"{}")
    code = report.get("code") if isinstance(report, dict) else None
    if code not in codes:
        raise Broken(f"{what} is answered with the code {code}; expected {' or '.join(map(str, codes))}")
    return f"{what} is answered with the code {code}"


@CASES.case("An unknown method is method not found", v1_0="G1.59b", v0_3="G2.18", v0_1="A1.7a", bindings=JSONRPC)
async def unknown_method(probe: Probe) -> str:
    answer = await probe.post(b'{"jsonrpc":"2.0","id":"m-1","method":"parley/check/nonsense","params":{}}')
    return _coded(answer, MethodNotFoundError, what="An unknown method")


@CASES.case("Invalid JSON is a parse error", v1_0="G1.59b", v0_3="G2.18", v0_1="A1.7a", bindings=JSONRPC)
async def no_json(probe: Probe) -> str:
    answer = await probe.post(b'{"jsonrpc":"2.0",')
    said = _coded(answer, ParseError, what="Broken JSON")
    if jsonrpc.decode_response(answer.exchange.body).id != jsonrpc.NULL:
        clause = "G1.59a" if probe.version is Version.V1_0 else ""
        raise Broken("the answer to invalid JSON has an id that is not null", clause=clause)
    return said


@CASES.case("A request without a method is invalid", v1_0="G1.59b", v0_3="G2.18", v0_1="A1.7a", bindings=JSONRPC)
async def no_request(probe: Probe) -> str:
    answer = await probe.post(b'{"jsonrpc":"2.0","id":"r-1"}')
    return _coded(answer, InvalidRequestError, what="A request without a method")


@CASES.case("A batch is refused", v1_0="G1.59d", bindings=JSONRPC)
async def batch(probe: Probe) -> str:
    body = {
        "jsonrpc": "2.0",
        "id": "b-1",
        "method": ops.GET_TASK.methods[probe.version],
        "params": {"id": unknown_id()},
    }
    answer = await probe.posted(msgspec.json.encode([body]))
    try:
        value = parsed(answer.body)
    except Broken:
        value = None
    if isinstance(value, dict) and "error" in value:
        return "A batch is refused"
    raise Undecided(f"a batch is answered with HTTP {answer.status}; A2A does not say how")


@CASES.case("An answer has the id of its request", v1_0="G1.59c", v0_3="G2.9a", v0_1="A1.1b", bindings=JSONRPC)
async def mirrored_id(probe: Probe) -> str:
    method = ops.GET_TASK.methods[probe.version]
    for id in (b'"check-id"', b"4711"):
        body = jsonrpc.encode_request(id, method, msgspec.json.encode({"id": unknown_id()}))
        answer = await probe.post(body)
        if isinstance(answer.error, INCONCLUSIVE):
            raise Undecided(f"the request is answered with {type(answer.error).__name__}") from answer.error
        envelope = parsed(answer.exchange.body)
        if not isinstance(envelope, dict) or envelope.get("id") != msgspec.json.decode(id):
            seen = envelope.get("id") if isinstance(envelope, dict) else envelope
            raise Broken(f"a request with the id {id.decode()} is answered with the id {seen!r}")
    return "Texts and numbers come back as ids"


@CASES.case("An answer is JSON-RPC in application/json", v1_0="G1.59c", v0_3="G2.9", v0_1="A1.1b", bindings=JSONRPC)
async def envelope(probe: Probe) -> str:
    await probe.samples.answer()
    exchange = probe.recorder.exchanges[0]
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Broken(f"the content type is {kind or 'missing'}")
    value = parsed(exchange.body)
    if not isinstance(value, dict):
        raise Broken("the answer is not a JSON object")
    if probe.version is Version.V0_1:  # its schema allows a missing version and null members
        value = {"jsonrpc": "2.0", **{name: item for name, item in value.items() if item is not None}}
    if value.get("jsonrpc") != "2.0" or ("result" in value) == ("error" in value):
        raise Broken('the answer does not have "jsonrpc": "2.0" and either a result or an error')
    return "The answer has a result and no error"


def _result(probe: Probe, exchange: RecordedExchange) -> JsonValue:
    value = parsed(exchange.body)
    return value.get("result") if probe.binding is Binding.JSONRPC and isinstance(value, dict) else value


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def misspellings(value: JsonValue, path: str = "$") -> Iterator[str]:
    """What in a JSON value is not spelled as 1.0 says, except in metadata, data and params, which belong to users.

    Null counts as an absent member.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from misspellings(item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        where = f"{path}.{name}"
        if "_" in name:
            yield f"{where}: the name is not camelCase"
        if item is None:
            continue
        if name == "role" and item not in ("ROLE_USER", "ROLE_AGENT"):
            yield f"{where}: {item!r} is not a Role"
        if name == "state" and not (isinstance(item, str) and item.startswith("TASK_STATE_")):
            yield f"{where}: {item!r} is not a TaskState"
        if name == "timestamp" and not (isinstance(item, str) and _TIME.fullmatch(item) and _is_time(item)):
            yield f"{where}: {item!r} is not a time in UTC with a Z"
        if name not in ("metadata", "data", "params"):
            yield from misspellings(item, where)


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(f"{text[:19]}+00:00")
    except ValueError:
        return False
    return True


@CASES.case("JSON is spelled as the specification says", v1_0="G1.46", bindings=HTTP)
async def spelling(probe: Probe) -> str:
    try:
        await probe.samples.answer()
    except Undecided:
        if not probe.samples.is_unreadable:
            raise
    first, *polls = [_result(probe, exchange) for exchange in probe.recorder.exchanges]
    if not isinstance(first, dict) or ("task" in first) == ("message" in first):
        raise Broken('the answer to a send is not {"task": …} or {"message": …}')
    wrong = [fault for value in (first, *polls) for fault in misspellings(value)]
    if wrong:
        raise Broken("; ".join(wrong[:5]))
    return "Names, enums and times are spelled right"


@CASES.case("Errors have a code, a message and typed details", v1_0="G1.58a", bindings=HTTP)
async def typed_details(probe: Probe) -> str:
    answer = await probe.raw(ops.GET_TASK, {"id": unknown_id()})
    if answer.error is None or isinstance(answer.error, INCONCLUSIVE):
        raise Undecided(f"an unknown task is answered with {answer.error or 'a result'}") from answer.error
    value = parsed(answer.exchange.body)
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        raise Broken("the error has no code, or no message")
    rest = probe.binding is Binding.HTTP_JSON
    if rest and (error["code"] != answer.exchange.status or not isinstance(error.get("status"), str)):
        raise Broken("the code of the error is not the HTTP status, or its status is not a gRPC status")
    if rest and isinstance(answer.error, TaskNotFoundError) and answer.exchange.status != NOT_FOUND:
        raise Broken(f"an unknown task is answered with HTTP {answer.exchange.status}; expected {NOT_FOUND}")
    details: JsonValue = error.get("details" if rest else "data")
    infos: list[JsonObject] = [
        detail
        for detail in (details if isinstance(details, list) else [])
        if isinstance(detail, dict) and detail.get("@type") == ERROR_INFO
    ]
    if not infos or not isinstance(infos[0].get("reason"), str):
        raise Broken("the error has no ErrorInfo among its details", must=rest)
    return f"The error has an ErrorInfo with the reason {infos[0]['reason']}"


@CASES.case("An invalid member is named", v1_0="G1.58b")
async def named_member(probe: Probe) -> str:
    task = await probe.samples.task()
    error = await probe.refusal(ops.GET_TASK, r.GetTaskRequest(task.id, history_length=-1))
    if not isinstance(error, INVALID):
        raise Undecided(f"a negative history length is answered with {describe(error)}") from error
    said = f"{error} {error.path or ''} {probe.recorder.exchanges[-1].shown}".lower()
    if "history" not in said.replace("_", ""):
        raise Broken(f"neither the error nor its details name historyLength: {error}", must=False)
    return f"The error says: {error}"
