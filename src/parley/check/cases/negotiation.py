"""Cases about versions, extensions, authentication and the extended card."""

from __future__ import annotations

from parley.check.cases.case import Cases
from parley.check.cases.expectations import INCONCLUSIVE, INVALID, describe, expect
from parley.check.cases.reading import need_agent
from parley.check.endpoints.probe import Probe, unknown_id
from parley.check.findings import DENIALS, Broken, Undecided
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
NOT_SPOKEN = (MethodNotFoundError, VersionNotSupportedError)
"""Answers of a server that does not support the version."""


async def _ask(probe: Probe, options: CallOptions) -> A2AError | None:
    """Read an unknown task: the cheapest request that shows whether the server accepts one."""
    return await probe.refusal(ops.GET_TASK, r.GetTaskRequest(unknown_id()), options)


@CASES.case("The interface answers as the card says", v1_0="G1.53b", v0_3="G2.2a", v0_2="G3.4", v0_1="A1.1a")
async def answers_as_declared(probe: Probe) -> str:
    try:
        error = await _ask(probe, probe.call_options())
    except UnreachableError as unreachable:
        if unreachable.was_sent or isinstance(unreachable, TimedOutError):
            raise
        raise Broken(f"the interface of the card cannot be reached: {unreachable}") from unreachable
    if error is None:
        raise Broken("an unknown task is found")
    if isinstance(error, NOT_SPOKEN) or _is_not_a2a(probe, error):
        raise Broken(f"the card declares {probe.version} here, and it is not spoken: {describe(error)}")
    await need_agent(probe)
    if isinstance(error, (TaskNotFoundError, *INVALID)):
        return f"The interface answers: {type(error).__name__}"
    raise Undecided(f"the interface answers with {describe(error)}") from error


async def is_spoken(probe: Probe) -> bool:
    """Whether the endpoint supports its version at all."""
    try:
        error = await _ask(probe, probe.call_options())
    except (PeerProtocolError, UnreachableError, Undecided):
        return False
    return not isinstance(error, NOT_SPOKEN) and not _is_not_a2a(probe, error)


def _is_not_a2a(probe: Probe, error: A2AError | None) -> bool:
    """Whether something else than A2A answers: JSON-RPC wraps every error, so a bare 404 is from another server."""
    if probe.binding is not Binding.JSONRPC or isinstance(error, INCONCLUSIVE):
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
        error = await _ask(probe, probe.call_options(a2a_version=version))
        expect(probe, error, VersionNotSupportedError, what=f"The version {version}")
    return "99.0 and 1.99 are refused"


@CASES.case("A patch number changes nothing", v1_0="G1.43a")
async def patch(probe: Probe) -> str:
    error = await _ask(probe, probe.call_options(a2a_version="1.0.1"))
    if isinstance(error, VersionNotSupportedError):
        raise Broken("1.0.1 is refused where 1.0 is spoken", must=False)
    return expect(probe, error, TaskNotFoundError, what="An unknown task asked for in 1.0.1", must=False)


# --- extensions -------------------------------------------------------------------------------------------------------


@CASES.case("Unknown extensions are ignored", v1_0="G1.39a", v0_3="G2.15b")
async def unknown_extension(probe: Probe) -> str:
    await probe.samples.answer()
    listed = ", ".join((*probe.required, UNKNOWN_EXTENSION))
    error = await _ask(probe, probe.call_options(extensions=listed))
    said = expect(probe, error, TaskNotFoundError, what="An unknown task, asked for with an unknown extension")
    if UNKNOWN_EXTENSION in probe.recorder.exchanges[-1].headers.get(probe.extension_header, ""):
        raise Broken("the server claims to have activated an extension that does not exist")
    return said


@CASES.case("Active extensions are echoed", v1_0="G1.39b", bindings=(Binding.JSONRPC, Binding.HTTP_JSON))
async def echoed(probe: Probe) -> str:
    declared = [extension.uri for extension in probe.card.capabilities.extensions]
    if not declared:
        raise Undecided("the card declares no extensions")
    await probe.samples.answer()
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), probe.call_options(extensions=", ".join(declared)))
    if error is not None:  # an active extension may need more than a plain message
        raise Undecided(f"a message that lists all extensions is answered with {describe(error)}")
    active = read_extensions([probe.recorder.exchanges[-1].headers.get("a2a-extensions", "")])
    if not set(declared) & set(active):
        raise Broken("none of the declared extensions that were listed is echoed in A2A-Extensions", must=False)
    return f"The server echoes {', '.join(active)}"


@CASES.case("A required extension must be listed", v1_0="G1.40", v0_3="G2.15a")
async def required(probe: Probe) -> str:
    if not probe.required:
        raise Undecided("the card requires no extension")
    await probe.samples.answer()
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), probe.call_options(extensions=""))
    is_new = probe.version is Version.V1_0
    what = "A message that does not list the required extension"
    return expect(probe, error, ExtensionSupportRequiredError, what=what, must=is_new, any_error=not is_new)


# --- authentication ---------------------------------------------------------------------------------------------------


def _secured(probe: Probe) -> None:
    if not probe.card.security or any(not requirement for requirement in probe.card.security):
        raise Undecided("the card requires no authentication")
    if probe.options.shows_certificate:
        raise Undecided("every connection of this check shows your certificate")


def _denied(probe: Probe, error: A2AError | None, what: str) -> str:
    if error is None:
        raise Broken(f"{what} is accepted")
    if not isinstance(error, DENIALS):
        raise Undecided(f"{what} is answered with {describe(error)}") from error
    challenge = probe.recorder.exchanges[-1].headers.get("www-authenticate")
    if probe.binding is not Binding.GRPC and isinstance(error, UnauthenticatedError) and not challenge:
        clause = "G1.48b" if probe.version is Version.V1_0 else "G2.13b"
        raise Broken(
            f"{what} is refused without saying how to authenticate (WWW-Authenticate)", must=False, clause=clause
        )
    return f"{what} is refused: {type(error).__name__}"


@CASES.case("A caller without credentials is refused", v1_0="G1.48a", v0_3="G2.13a")
async def anonymous(probe: Probe) -> str:
    _secured(probe)
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), probe.call_options(anonymous=True))
    return _denied(probe, error, "A message without credentials")


@CASES.case("A caller with wrong credentials is refused", v1_0="G1.48a", v0_3="G2.13a")
async def wrong_credentials(probe: Probe) -> str:
    _secured(probe)
    options = probe.call_options(anonymous=True, authorization="Bearer parley-check-wrong")
    error = await probe.refusal(ops.SEND_MESSAGE, probe.request(), options)
    return _denied(probe, error, "A message with a wrong token")


@CASES.case("Credentials are accepted", v1_0="G1.48a", v0_3="G2.13a")
async def accepted(probe: Probe) -> str:
    """A refusal leaves the rule undecided: only the server knows which credentials are valid."""
    _secured(probe)
    if probe.is_anonymous:
        raise Undecided(f"there are no credentials for this endpoint: {probe.missing_credentials}")
    error = await _ask(probe, probe.call_options())
    if isinstance(error, DENIALS):
        raise Undecided(f"the server does not accept the credentials: {describe(error)}") from error
    if isinstance(error, INCONCLUSIVE):
        raise Undecided(f"with credentials the server answers with {describe(error)}") from error
    return "The server accepts the credentials"


@CASES.case("Without credentials, nothing shows which tasks exist", v1_0="G1.49")
async def leak(probe: Probe) -> str:
    _secured(probe)
    task = await probe.samples.task()
    known = await probe.refusal(ops.GET_TASK, r.GetTaskRequest(task.id), probe.call_options(anonymous=True))
    unknown = await _ask(probe, probe.call_options(anonymous=True))
    if known is None:
        raise Broken("a caller without credentials reads a task")
    for error in (known, unknown):
        if isinstance(error, INCONCLUSIVE) and not isinstance(error, DENIALS):
            raise Undecided(f"a reader without credentials is answered with {describe(error)}") from error
    if type(known) is not type(unknown):
        raise Broken(
            f"without credentials a task that exists is {describe(known)}, one that does not {describe(unknown)}"
        )
    return f"Whether a task exists or not, a caller without credentials is answered with {type(known).__name__}"


@CASES.case("The extended card requires authentication", v1_0="G1.54a", v0_3="G2.5c")
async def extended_card(probe: Probe) -> str:
    if probe.version is Version.V0_2:
        raise Undecided("0.2 has no method for it")
    if not probe.card.capabilities.extended_card:
        raise Undecided("the card declares no extended card")
    if probe.options.shows_certificate:
        raise Undecided("every connection of this check shows your certificate")
    error = await probe.refusal(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest(), probe.call_options(anonymous=True))
    if error is None:
        raise Broken("the extended card is given to a caller without credentials")
    if not isinstance(error, DENIALS):
        raise Undecided(f"without credentials the extended card is answered with {describe(error)}") from error
    return f"A caller without credentials is refused: {type(error).__name__}"


@CASES.case("Without the capability there is no extended card", v1_0="G1.54b", v0_3="G2.5c")
async def no_extended_card(probe: Probe) -> str:
    if probe.version is Version.V0_2:
        raise Undecided("0.2 has no method for it")
    if probe.card.capabilities.extended_card:
        raise Undecided("the card declares an extended card")
    error = await probe.refusal(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())
    is_new = probe.version is Version.V1_0
    if error is None and not is_new and probe.binding is not Binding.JSONRPC:
        raise Undecided("0.3 has one route for both cards over HTTP+JSON and gRPC")
    return expect(probe, error, UnsupportedOperationError, what="The extended card", any_error=not is_new)
