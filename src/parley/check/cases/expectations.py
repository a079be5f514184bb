"""What a case expects of a refusal, and how it judges another one."""

from __future__ import annotations

from parley.check.endpoints.probe import Probe
from parley.check.findings import BUSY, DENIALS, Broken, Undecided
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
)

INCONCLUSIVE = (*DENIALS, *BUSY)
"""Refusals that say nothing about the rule at hand."""

INVALID = (InvalidParamsError, InvalidRequestError)
"""Refusals that say that a request is invalid: HTTP+JSON and gRPC have one status for both."""


def describe(error: A2AError | None) -> str:
    """An error as a report shows it: its class and its message."""
    return f"{type(error).__name__} ({error})" if error is not None else "a result"


def expect(
    probe: Probe,
    error: A2AError | None,
    *expected: type[A2AError],
    what: str,
    must: bool = True,
    any_error: bool = False,
    clause: str = "",
) -> str:
    """Describe a refusal that is one of those expected. Raises Broken or Undecided if it is another, or None.

    `any_error` is for rules that require an error and do not say which. Where the specification defines no format for
    errors, any refusal is accepted except a failure of the server itself.
    """
    names = " or ".join(kind.__name__.removesuffix("Error") for kind in expected)
    if error is None:
        raise Broken(f"{what} is accepted; expected {names or 'an error'}", must=must, clause=clause)
    if isinstance(error, expected):
        return f"{what} is refused: {type(error).__name__}"
    if isinstance(error, INCONCLUSIVE):
        raise Undecided(f"{what} is answered with {describe(error)}") from error
    is_enough = error.row.http_0_3 not in (500, 502) if probe.has_no_error_format else any_error
    if is_enough:
        return f"{what} is refused: {type(error).__name__}"
    raise Broken(f"{what} is answered with {describe(error)}; expected {names}", must=must, clause=clause)
