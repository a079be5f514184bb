"""Cases about validation: invalid messages. A server that accepts one may be unable to list it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parley.check.cases.case import HTTP, Cases
from parley.check.cases.expectations import INCONCLUSIVE, INVALID, describe, expect
from parley.check.endpoints.probe import Probe, RawAnswer
from parley.check.findings import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol.cards import Binding
from parley.protocol.versions import Version

CASES = Cases()
JSONRPC = (Binding.JSONRPC,)


@CASES.case("Params of a wrong type are invalid", v1_0="G1.45b", v0_3="G2.20a", v0_1="A1.7a", bindings=JSONRPC)
async def wrong_params(probe: Probe) -> str:
    answer = await probe.raw(ops.GET_TASK, {"id": {"not": "a text"}})
    must = probe.version is not Version.V1_0
    return expect(probe, answer.error, *INVALID, what="A task id that is an object", must=must)


async def _edited(probe: Probe, edit: Callable[[dict[str, Any]], object]) -> RawAnswer:
    """The answer to a message that was edited before it was sent."""
    await probe.samples.answer()
    members: Any = probe.members(ops.SEND_MESSAGE, probe.request())
    edit(members["message"])
    return await probe.raw(ops.SEND_MESSAGE, members)


@CASES.case("A message without its parts is invalid", v1_0="G1.45b", v0_3="G2.20a", v0_1="A1.7a", bindings=HTTP)
async def without_parts(probe: Probe) -> str:
    name = "content" if probe.version is Version.V0_3 and probe.binding is Binding.HTTP_JSON else "parts"
    answer = await _edited(probe, lambda message: message.pop(name))
    must = probe.version is not Version.V1_0
    return expect(probe, answer.error, *INVALID, what="A message without parts", must=must)


@CASES.case("A message whose parts are empty is invalid", v1_0="G1.45b", bindings=HTTP)
async def empty_parts(probe: Probe) -> str:
    answer = await _edited(probe, lambda message: message.update(parts=[]))
    return expect(probe, answer.error, *INVALID, what="A message with an empty list of parts", must=False)


@CASES.case("A message without an id is invalid", v0_3="G2.20c", bindings=(Binding.HTTP_JSON,))
@CASES.case("A message without an id is invalid", v0_3="G2.20a", v0_2="G2.20c", bindings=JSONRPC)
@CASES.case("A message without an id is invalid", v1_0="G1.45b", bindings=HTTP)
async def without_id(probe: Probe) -> str:
    answer = await _edited(probe, lambda message: message.pop("messageId"))
    # The proto of 0.3 marks no member as required, and its SDK reads an absent one as empty.
    must = probe.version is Version.V0_3 and probe.binding is Binding.JSONRPC
    return expect(probe, answer.error, *INVALID, what="A message without messageId", must=must)


@CASES.case("An unknown role is invalid", v1_0="G1.45b", v0_3="G2.20a", bindings=HTTP)
async def unknown_role(probe: Probe) -> str:
    answer = await _edited(probe, lambda message: message.update(role="ROLE_WIZARD"))
    must = probe.version is not Version.V1_0
    return expect(probe, answer.error, *INVALID, what="A message with the role ROLE_WIZARD", must=must)


@CASES.case("Unknown members are ignored", v1_0="G1.45a", bindings=HTTP)
async def unknown_members(probe: Probe) -> str:
    answer = await _edited(probe, lambda message: message.update(parleyCheckSurprise={"a": [1]}))
    if answer.error is None:
        return "A message with an unknown member is answered"
    if isinstance(answer.error, INCONCLUSIVE):
        raise Undecided(f"the message is answered with {describe(answer.error)}") from answer.error
    raise Broken(f"a message with an unknown member is refused: {answer.error}", must=False)
