"""Which dialect a request is in, and the reason for that conclusion.

The method's name decides where it can; a header that contradicts it is an error. For names that three releases share,
the header decides, then the dialect that created the task, then the default, which is 0.3. Spec: 1.0 section 3.6;
rulings in `docs/decisions/0003-which-dialect-a-request-speaks.md`.
"""

from __future__ import annotations

from msgspec import Struct

from parley.protocol.errors import MethodNotFoundError, VersionNotSupportedError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.negotiation import read_version
from parley.protocol.operations import OPERATIONS, Operation
from parley.protocol.versions import Version


class Detection(Struct, frozen=True):
    """An operation, the dialect of its request, and the reason for that conclusion, which logs show."""

    operation: Operation
    version: Version
    reason: str


def _methods() -> dict[str, dict[Version, Operation]]:
    table: dict[str, dict[Version, Operation]] = {}
    for operation in OPERATIONS:
        for version, method in operation.methods.items():
            table.setdefault(method, {})[version] = operation
    # The compliance section of 0.3.0 calls the method so, against its own section 7.10.
    table["agent/authenticatedExtendedCard"] = table["agent/getAuthenticatedExtendedCard"]
    return table


METHODS = _methods()


def is_ambiguous(method: str) -> bool:
    """Whether 0.1 shares this method with later releases, so that the task's own dialect is worth looking up."""
    return Version.V0_1 in (versions := METHODS.get(method, {})) and len(versions) > 1


def detect_jsonrpc(method: str, header: str | None = None, *, created_in: Version | None = None) -> Detection:
    """The dialect of a JSON-RPC request, from its method, its `A2A-Version` and the dialect that created the task.

    Raises:
        MethodNotFoundError: no release has the method, or not the release that the header names.
        VersionNotSupportedError: the header names an unknown release.
    """
    stated = read_version(header)
    candidates = METHODS.get(method)
    if candidates is None:
        raise MethodNotFoundError(f"Method not found: {method[:100]!r}")
    if stated is not None:
        if stated not in candidates:
            belongs = " and ".join(sorted(candidates))
            raise MethodNotFoundError(f"Method {method!r} belongs to A2A {belongs}, but A2A-Version says {stated}")
        return Detection(candidates[stated], stated, f"A2A-Version says {stated}")
    if len(candidates) == 1:
        ((version, operation),) = candidates.items()
        return Detection(operation, version, f"only {version} has the method {method}")
    if created_in is not None and created_in in candidates and is_ambiguous(method):
        return Detection(candidates[created_in], created_in, f"the task was created in {created_in}")
    reason = "several releases have the method, and nothing else tells them apart"
    return Detection(candidates[Version.V0_3], Version.V0_3, reason)


def detect_rest(operation: Operation, version: Version, header: str | None = None) -> Detection:
    """The dialect of a REST request, whose path gave `version`.

    Raises:
        VersionNotSupportedError: the header names another release, or an unknown one.
    """
    stated = read_version(header)
    if stated is not None and stated is not version:
        raise VersionNotSupportedError(f"This path belongs to A2A {version}, but A2A-Version says {stated}")
    return Detection(operation, version, f"the path belongs to {version}")


def is_proto_shape(body: JsonValue) -> bool:
    """Whether the body of a 0.3 REST request is ProtoJSON, as SDKs send it, and not the shape of the specification.

    A body that shows neither, or none at all, counts as an SDK's.
    """
    if not isinstance(body, dict):
        return True
    message = body.get("message")
    if isinstance(message, dict):
        role = message.get("role")
        return "content" in message or not ("parts" in message or role in ("user", "agent"))
    return "taskId" not in body and "url" not in body
