"""What `WWW-Authenticate` says of a refused request: the scope it lacked, and where tokens come from.

The scope (RFC 6750 section 3) goes into the error's message, for people. It and the URL of the protected resource
metadata (RFC 9728 section 5.1) go into the error's details, for `credentials`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from parley.protocol.errors import MAX_TEXT, A2AError, PermissionDeniedError, UnauthenticatedError

SCOPE = "scope"
"""The error detail that holds the missing scopes, separated by spaces."""

RESOURCE_METADATA = "resource_metadata"
"""The error detail that holds the URL of the protected resource metadata."""

_PART = re.compile(r'(?P<name>[\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]*))|(?P<scheme>[\w-]+)')
_SCOPES = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749 section 3.3


def with_challenge(error: A2AError, headers: Mapping[str, str]) -> A2AError:
    """The error with the missing scopes and the URL of the metadata, if the refusal names them."""
    if not isinstance(error, UnauthenticatedError | PermissionDeniedError):
        return error
    bearer = parameters_of(headers.get("www-authenticate", ""), "bearer")
    if RESOURCE_METADATA in bearer:
        error.details.setdefault(RESOURCE_METADATA, bearer[RESOURCE_METADATA][:MAX_TEXT])
    if missing_scopes(error):
        return error
    scope = bearer.get("scope", "")
    if bearer.get("error") != "insufficient_scope" or not _SCOPES.fullmatch(scope):
        return error
    return type(error)(
        f"{error.message[:150]}; the token lacks the scope {scope}",
        path=error.path,
        details={**error.details, SCOPE: scope},
    )


def missing_scopes(error: A2AError) -> tuple[str, ...]:
    """The scopes that a refused request lacked, if the agent names them."""
    text = error.details.get(SCOPE) or error.details.get("scopes", "").replace(
        ",", " "
    )  # the form that skills of Parley use
    return tuple(text.split())


def parameters_of(header: str, scheme: str) -> dict[str, str]:
    """The parameters of one scheme's challenge in a header that may hold several challenges."""
    found: dict[str, str] = {}
    current = ""
    for part in _PART.finditer(header):
        if part["scheme"]:
            current = part["scheme"].lower()
        elif current == scheme:
            quoted = part["quoted"]
            value = part["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found.setdefault(part["name"].lower(), value)
    return found
