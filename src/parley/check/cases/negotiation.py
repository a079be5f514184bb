"""Cases about versions, extensions, authentication and the extended card."""

from __future__ import annotations

from parley.check.cases.case import Cases
from parley.check.cases.reading import need_agent
from parley.check.endpoints.probe import Probe, absent
from parley.check.expectations import INVALID, SAYS_NOTHING, expect, named
from parley.check.findings import Broken, Undecided
from parley.client.errors import TimedOutError, UnreachableError
from parley.client.transports.transport import CallOptions
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    ExtensionSupportRequiredError,
    MethodNotFoundError,
    PeerProtocolError,
    PermissionDeniedError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.negotiation import read_extensions
from parley.protocol.versions import Version
from parley.wire import jsonrpc

CASES = Cases()
UNKNOWN_EXTENSION = "urn:parley:check:unknown"
DENIALS = (UnauthenticatedError, PermissionDeniedError)
UNSPOKEN = (MethodNotFoundError, VersionNotSupportedError)
"""Answers of a server that does not know the version."""


async def _ask(probe: Probe, sent: CallOptions) -> A2AError | None:
    """Read an unknown task: the cheapest question that shows whether a request is let in."""
    return await probe.refusal(ops.GET_TASK, r.GetTaskRequest(absent(), tenant=probe.tenant), sent)


@CASES.case("The interface answers as the card says", v1_0="G1.53b", v0_3="G2.2a", v0_2="G3.4", v0_1="A1.1a")
async def truthful(probe: Probe) -> str:
    try:
        error = await _ask(probe, probe.sent())
    except UnreachableError as unreachable:
        if unreachable.was_sent or isinstance(unreachable, TimedOutError):
            raise
        raise Broken(f"nobody listens where the card says: {unreachable}") from unreachable
    if error is None:
        raise Broken("an unknown task is found")
    if isinstance(error, UNSPOKEN) or _is_elsewhere(probe, error):
        raise Broken(f"the card declares {probe.version} here, and it is not spoken: {named(error)}")
    await need_agent(probe)
    if isinstance(error, (TaskNotFoundError, *INVALID)):
        return f"The interface answers in its way: {type(error).__name__}"
    raise Undecided(f"the interface answers with {named(error)}") from error


async def is_spoken(probe: Probe) -> bool:
    """Whether a place speaks its version at all."""
    try:
        error = await _ask(probe, probe.sent())
    except (PeerProtocolError, UnreachableError, Undecided):
        return False
    return not isinstance(error, UNSPOKEN) and not _is_elsewhere(probe, error)


def _is_elsewhere(probe: Probe, error: A2AError | None) -> bool:
    """Whether what answers is no A2A: JSON-RPC has an envelope for every error, so a bare 404 is somebody else's."""
    if probe.binding is not Binding.JSONRPC or isinstance(error, SAYS_NOTHING):
        return False
    exchange = probe.recorder.exchanges[-1]
    try:
        jsonrpc.decode_response(exchange.body)
    except PeerProtocolError:
        return 400 <= exchange.status < 500
    return False


# --- versions ---------------------------------------------------------------------------------------------------------


@CASES.case("A version that is not offered is refused", v1_0="G1.43b")
async def unknown_version(probe: Probe) -> str:
    for version in ("99.0", "1.99"):
        error = await _ask(probe, probe.sent(a2a_version=version))
        expect(probe, error, VersionNotSupportedError, what=f"The version {version}")
    return "99.0 and 1.99 are refused"


@CASES.case("A patch number changes nothing", v1_0="G1.43a")
async def patch(probe: Probe) -> str:
    error = await _ask(probe, probe.sent(a2a_version="1.0.1"))
    if isinstance(error, VersionNotSupportedError):
        raise Broken("1.0.1 is refused where 1.0 is spoken", must=False)
    return expect(probe, error, TaskNotFoundError, what="An unknown task asked for in 1.0.1", must=False)


# --- extensions -------------------------------------------------------------------------------------------------------


@CASES.case("Unknown extensions are ignored", v1_0="G1.39a", v0_3="G2.15b")
async def unknown_extension(probe: Probe) -> str:
    await probe.samples.answer()
    listed = ", ".join((*probe.required, UNKNOWN_EXTENSION))
    error = await _ask(probe, probe.sent(extensions=listed))
    said = expect(probe, error, TaskNotFoundError, what="An unknown task, asked for with an unknown extension")
    if UNKNOWN_EXTENSION in probe.recorder.exchanges[-1].headers.get(probe.extension_header, ""):
        raise Broken("the server claims to have activated an extension that nobody knows")
    return said


@CASES.case("Active extensions are echoed", v1_0="G1.39b", bindings=(Binding.JSONRPC, Binding.HTTP_JSON))
async def echoed(probe: Probe) -> str:
    declared = [extension.uri for extension in probe.card.capabilities.extensions]
    if not declared:
        raise Undecided("the card declares no extensions")
    await probe.samples.answer()
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), probe.sent(extensions=", ".join(declared)))
    if error is not None:  # an active extension may want more than a plain message
        raise Undecided(f"a message that lists all extensions is answered with {named(error)}")
    active = read_extensions([probe.recorder.exchanges[-1].headers.get("a2a-extensions", "")])
    if not set(declared) & set(active):
        raise Broken("none of the declared extensions that were listed is echoed in A2A-Extensions", must=False)
    return f"Echoed are {', '.join(active)}"


@CASES.case("A required extension must be listed", v1_0="G1.40", v0_3="G2.15a")
async def required(probe: Probe) -> str:
    if not probe.required:
        raise Undecided("the card requires no extension")
    await probe.samples.answer()
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), probe.sent(extensions=""))
    is_new = probe.version is Version.V1_0
    what = "A message that does not list the required extension"
    return expect(probe, error, ExtensionSupportRequiredError, what=what, must=is_new, any_error=not is_new)


# --- authentication ---------------------------------------------------------------------------------------------------


def _secured(probe: Probe) -> None:
    if not probe.card.security or any(not requirement for requirement in probe.card.security):
        raise Undecided("the card demands no authentication")
    if probe.options.shows_certificate:
        raise Undecided("every connection of this check shows your certificate")


def _denied(probe: Probe, error: A2AError | None, what: str) -> str:
    if error is None:
        raise Broken(f"{what} is let in")
    if not isinstance(error, DENIALS):
        raise Undecided(f"{what} is answered with {named(error)}") from error
    challenge = probe.recorder.exchanges[-1].headers.get("www-authenticate")
    if probe.binding is not Binding.GRPC and isinstance(error, UnauthenticatedError) and not challenge:
        clause = "G1.48b" if probe.version is Version.V1_0 else "G2.13b"
        raise Broken(
            f"{what} is refused, but not told how to authenticate (WWW-Authenticate)", must=False, clause=clause
        )
    return f"{what} is refused: {type(error).__name__}"


@CASES.case("A caller without credentials is refused", v1_0="G1.48a", v0_3="G2.13a")
async def anonymous(probe: Probe) -> str:
    _secured(probe)
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), probe.sent(anonymous=True))
    return _denied(probe, error, "A message without credentials")


@CASES.case("A caller with wrong credentials is refused", v1_0="G1.48a", v0_3="G2.13a")
async def impostor(probe: Probe) -> str:
    _secured(probe)
    sent = probe.sent(anonymous=True, authorization="Bearer parley-check-wrong")
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), sent)
    return _denied(probe, error, "A message with a wrong token")


@CASES.case("Credentials are taken", v1_0="G1.48a", v0_3="G2.13a")
async def accepted(probe: Probe) -> str:
    """A server that lets nobody in keeps no rule, but it may know better than we whom to let in."""
    _secured(probe)
    if probe.is_stranger:
        raise Undecided(f"no credentials for this place were given: {probe.lacking}")
    error = await _ask(probe, probe.sent())
    if isinstance(error, DENIALS):
        raise Undecided(f"the credentials that were given are not taken: {named(error)}") from error
    if isinstance(error, SAYS_NOTHING):
        raise Undecided(f"with credentials the server answers with {named(error)}") from error
    return "With the credentials that were given the server answers"


@CASES.case("Strangers cannot tell which tasks exist", v1_0="G1.49")
async def leak(probe: Probe) -> str:
    _secured(probe)
    task = await probe.samples.task()
    known = await probe.refusal(
        ops.GET_TASK, r.GetTaskRequest(task.id, tenant=probe.tenant), probe.sent(anonymous=True)
    )
    unknown = await _ask(probe, probe.sent(anonymous=True))
    if known is None:
        raise Broken("a caller without credentials reads a task")
    for error in (known, unknown):
        if isinstance(error, SAYS_NOTHING) and not isinstance(error, DENIALS):
            raise Undecided(f"a reader without credentials is answered with {named(error)}") from error
    if type(known) is not type(unknown):
        raise Broken(f"without credentials a task that exists is {named(known)}, one that does not {named(unknown)}")
    return f"Whether a task exists or not, a caller without credentials is answered with {type(known).__name__}"


@CASES.case("The extended card is for those who authenticate", v1_0="G1.54a", v0_3="G2.5c")
async def extended_card(probe: Probe) -> str:
    if probe.version is Version.V0_2:
        raise Undecided("0.2 has no method for it")
    if not probe.card.capabilities.extended_card:
        raise Undecided("the card declares no extended card")
    if probe.options.shows_certificate:
        raise Undecided("every connection of this check shows your certificate")
    error = await probe.refusal(
        ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest(probe.tenant), probe.sent(anonymous=True)
    )
    if error is None:
        raise Broken("the extended card is given to a caller without credentials")
    if not isinstance(error, DENIALS):
        raise Undecided(f"without credentials the extended card is answered with {named(error)}") from error
    return f"A caller without credentials is refused: {type(error).__name__}"


@CASES.case("Without the capability there is no extended card", v1_0="G1.54b", v0_3="G2.5c")
async def no_extended_card(probe: Probe) -> str:
    if probe.version is Version.V0_2:
        raise Undecided("0.2 has no method for it")
    if probe.card.capabilities.extended_card:
        raise Undecided("the card declares an extended card")
    error = await probe.refusal(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest(probe.tenant))
    is_new = probe.version is Version.V1_0
    if error is None and not is_new and probe.binding is not Binding.JSONRPC:
        raise Undecided("0.3 has one route for both cards over HTTP+JSON and gRPC")
    return expect(probe, error, UnsupportedOperationError, what="The extended card", any_error=not is_new)
