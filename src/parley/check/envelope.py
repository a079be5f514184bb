"""Cases about envelopes, spelling, validation and the form of errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from parley.check.cases import HTTP, Cases
from parley.check.probe import SAYS_NOTHING, Answer, Probe, expect, parsed
from parley.check.verdict import Broken, Exchange, Undecided
from parley.dialects.json_errors import ERROR_INFO
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    ParseError,
    PeerProtocolError,
)
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.versions import Version
from parley.wire import jsonrpc

CASES = Cases()
JSONRPC = (Binding.JSONRPC,)


def absent() -> str:
    """The id of a task that nobody has."""
    return f"check-absent-{uuid4()}"


def _coded(answer: Answer, *expected: type[A2AError], what: str) -> str:
    """Like `expect`, for errors of JSON-RPC itself, which must come in its envelope."""
    if isinstance(answer.error, SAYS_NOTHING):
        raise Undecided(f"{what} is answered with {type(answer.error).__name__}: {answer.error}")
    if answer.error is None:
        raise Broken(f"{what} is accepted")
    try:
        response = jsonrpc.decode_response(answer.exchange.body)
    except PeerProtocolError as error:
        raise Broken(f"{what} is answered with HTTP {answer.exchange.status} and no JSON-RPC error") from error
    codes = [kind.row.code for kind in expected]
    code: Any = msgspec.json.decode(response.error or b"{}").get("code")
    if code not in codes:
        raise Broken(f"{what} is answered with the code {code}; expected {' or '.join(map(str, codes))}")
    return f"{what} is answered with the code {code}"


@CASES.case("An unknown method is method not found", v1_0="G1.59", v0_3="G2.18", v0_1="A1.7", bindings=JSONRPC)
async def unknown_method(probe: Probe) -> str:
    answer = await probe.post(b'{"jsonrpc":"2.0","id":"m-1","method":"parley/check/nonsense","params":{}}')
    return _coded(answer, MethodNotFoundError, what="An unknown method")


@CASES.case("What is no JSON is a parse error", v1_0="G1.59", v0_3="G2.18", v0_1="A1.7", bindings=JSONRPC)
async def no_json(probe: Probe) -> str:
    answer = await probe.post(b'{"jsonrpc":"2.0",')
    said = _coded(answer, ParseError, what="Broken JSON")
    if jsonrpc.decode_response(answer.exchange.body).id != jsonrpc.NULL:
        raise Broken("the answer to what cannot be read has an id that is not null")
    return said


@CASES.case("What is no request is an invalid request", v1_0="G1.59", v0_3="G2.18", v0_1="A1.7", bindings=JSONRPC)
async def no_request(probe: Probe) -> str:
    answer = await probe.post(b'{"jsonrpc":"2.0","id":"r-1"}')
    return _coded(answer, InvalidRequestError, what="A request without a method")


@CASES.case("A batch is no request", v1_0="G1.59", bindings=JSONRPC)
async def batch(probe: Probe) -> str:
    body = {"jsonrpc": "2.0", "id": "b-1", "method": ops.GET_TASK.methods[probe.version], "params": {"id": absent()}}
    await probe.channel.exchange("POST", probe.interface.url, msgspec.json.encode([body]), probe.sent())
    answer = parsed(probe.recorder.exchanges[-1].body)
    if isinstance(answer, dict) and "error" in answer:
        return "A batch is refused"
    raise Undecided("a batch is answered; A2A does not say how")


@CASES.case("An answer has the id of its request", v1_0="G1.59", v0_3="G2.9", v0_1="A1.1", bindings=JSONRPC)
async def mirrored_id(probe: Probe) -> str:
    method = ops.GET_TASK.methods[probe.version]
    for id in (b'"check-id"', b"4711"):
        body = jsonrpc.encode_request(id, method, msgspec.json.encode({"id": absent()}))
        answer = await probe.post(body)
        if isinstance(answer.error, SAYS_NOTHING):
            raise Undecided(f"the request is answered with {type(answer.error).__name__}")
        envelope = parsed(answer.exchange.body)
        if not isinstance(envelope, dict) or envelope.get("id") != msgspec.json.decode(id):
            seen = envelope.get("id") if isinstance(envelope, dict) else envelope
            raise Broken(f"a request with the id {id.decode()} is answered with the id {seen!r}")
    return "Texts and numbers come back as ids"


@CASES.case("An answer is JSON-RPC in application/json", v1_0="G1.59", v0_3="G2.9", v0_1="A1.1", bindings=JSONRPC)
async def envelope(probe: Probe) -> str:
    await probe.sample()
    exchange = probe.recorder.exchanges[0]
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise Broken(f"the content type is {kind or 'missing'}")
    value = parsed(exchange.body)
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0" or ("result" in value) == ("error" in value):
        raise Broken('the answer has not "jsonrpc": "2.0" and either a result or an error')
    return "The answer has a result and no error"


@CASES.case("Params of a wrong type are invalid", v1_0="G1.45", v0_3="G2.20", v0_1="A1.7", bindings=JSONRPC)
async def wrong_params(probe: Probe) -> str:
    answer = await probe.raw(ops.GET_TASK, {"id": {"not": "a text"}})
    must = probe.version is not Version.V1_0
    wanted = (InvalidParamsError, InvalidRequestError)
    return expect(probe, answer.error, *wanted, what="A task id that is an object", must=must)


def _dropped(name: str) -> Callable[[dict[str, Any]], None]:
    def edit(message: dict[str, Any]) -> None:
        message.pop(name, None)

    return edit


def _emptied(message: dict[str, Any]) -> None:
    name = "content" if "content" in message else "parts"
    message[name] = []


async def _edited(probe: Probe, edit: Callable[[dict[str, Any]], None]) -> Answer:
    members: Any = probe.members(ops.SEND_MESSAGE, probe.request())
    edit(members["message"])
    return await probe.raw(ops.SEND_MESSAGE, members)


@CASES.case("A message without its parts is invalid", v1_0="G1.45", v0_3="G2.20", v0_1="A1.7", bindings=HTTP)
async def without_parts(probe: Probe) -> str:
    await probe.sample()
    must = probe.version is not Version.V1_0
    name = "content" if probe.version is Version.V0_3 and probe.binding is Binding.HTTP_JSON else "parts"
    answer = await _edited(probe, _dropped(name))
    wanted = (InvalidParamsError, InvalidRequestError)
    return expect(probe, answer.error, *wanted, what="A message without parts", must=must)


@CASES.case("A message whose parts are empty is invalid", v1_0="G1.45", bindings=HTTP)
async def empty_parts(probe: Probe) -> str:
    await probe.sample()
    answer = await _edited(probe, _emptied)
    wanted = (InvalidParamsError, InvalidRequestError)
    return expect(probe, answer.error, *wanted, what="A message with an empty list of parts", must=False)


@CASES.case("A message without an id is invalid", v1_0="G1.45", v0_3="G2.20", bindings=HTTP)
async def without_id(probe: Probe) -> str:
    await probe.sample()
    answer = await _edited(probe, _dropped("messageId"))
    wanted = (InvalidParamsError, InvalidRequestError)
    # The proto of 0.3 marks no member as required, and its SDK reads an absent one as empty.
    must = probe.version is Version.V0_3 and probe.binding is Binding.JSONRPC
    return expect(probe, answer.error, *wanted, what="A message without messageId", must=must)


@CASES.case("An unknown role is invalid", v1_0="G1.45", v0_3="G2.20", bindings=HTTP)
async def unknown_role(probe: Probe) -> str:
    await probe.sample()
    answer = await _edited(probe, lambda message: message.update(role="ROLE_WIZARD"))
    wanted = (InvalidParamsError, InvalidRequestError)
    must = probe.version is not Version.V1_0
    return expect(probe, answer.error, *wanted, what="A message with the role ROLE_WIZARD", must=must)


@CASES.case("Unknown members are ignored", v1_0="G1.45", bindings=HTTP)
async def unknown_members(probe: Probe) -> str:
    await probe.sample()
    answer = await _edited(probe, lambda message: message.update(parleyCheckSurprise={"a": [1]}))
    if answer.error is None:
        return "A message with an unknown member is answered"
    if isinstance(answer.error, SAYS_NOTHING):
        raise Undecided(f"the message is answered with {answer.error}")
    raise Broken(f"a message with an unknown member is refused: {answer.error}", must=False)


def _result(probe: Probe, exchange: Exchange) -> JsonValue:
    value = parsed(exchange.body)
    return value.get("result") if probe.binding is Binding.JSONRPC and isinstance(value, dict) else value


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def misspellings(value: JsonValue, path: str = "$") -> Iterator[str]:
    """Where JSON is not spelled as 1.0 says. What is the user's own (metadata, data, params) is not looked at."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from misspellings(item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        where = f"{path}.{name}"
        if "_" in name:
            yield f"{where}: the name is not camelCase"
        if name == "role" and item not in ("ROLE_USER", "ROLE_AGENT"):
            yield f"{where}: {item!r} is no Role"
        if name == "state" and not (isinstance(item, str) and item.startswith("TASK_STATE_")):
            yield f"{where}: {item!r} is no TaskState"
        if name == "timestamp" and not (isinstance(item, str) and _TIME.fullmatch(item) and _is_time(item)):
            yield f"{where}: {item!r} is no time in UTC with a Z"
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
        await probe.sample()
    except Undecided:
        if not probe.is_unreadable:
            raise
    first, *looks = [_result(probe, exchange) for exchange in probe.recorder.exchanges]
    inner = first
    if not isinstance(inner, dict) or ("task" in inner) == ("message" in inner):
        raise Broken('the answer to a send is not {"task": …} or {"message": …}')
    wrong = [place for value in (first, *looks) for place in misspellings(value)]
    if wrong:
        raise Broken("; ".join(wrong[:5]))
    return "Names, enums and times are spelled right"


@CASES.case("Errors have a code, a message and typed details", v1_0="G1.58", bindings=HTTP)
async def typed_details(probe: Probe) -> str:
    answer = await probe.raw(ops.GET_TASK, {"id": absent()})
    if answer.error is None or isinstance(answer.error, SAYS_NOTHING):
        raise Undecided(f"an unknown task is answered with {answer.error or 'a result'}")
    value = parsed(answer.exchange.body)
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        raise Broken("the error has no code, or no message")
    rest = probe.binding is Binding.HTTP_JSON
    if rest and (error["code"] != answer.exchange.status or not isinstance(error.get("status"), str)):
        raise Broken("the error has not the HTTP status as its code and a gRPC status as its status")
    details: JsonValue = error.get("details" if rest else "data")
    infos: list[JsonObject] = [
        detail
        for detail in (details if isinstance(details, list) else [])
        if isinstance(detail, dict) and detail.get("@type") == ERROR_INFO
    ]
    if not infos or not isinstance(infos[0].get("reason"), str):
        raise Broken("the error has no ErrorInfo among its details", must=rest)
    return f"The error has an ErrorInfo with the reason {infos[0]['reason']}"


@CASES.case("An invalid member is named", v1_0="G1.58")
async def named_member(probe: Probe) -> str:
    task = await probe.task()
    error = await probe.refusal(ops.GET_TASK, r.GetTaskRequest(task.id, history_length=-1, tenant=probe.tenant))
    if error is None or isinstance(error, SAYS_NOTHING):
        raise Undecided("a negative history length is not refused")
    if "history" not in str(error).lower():
        raise Broken(f"the error does not name historyLength: {error}", must=False)
    return f"The error says: {error}"
