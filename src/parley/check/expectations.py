"""What a case may expect of an answer, and what it says of one that is otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from parley.check.findings import Broken, Exchange, Undecided
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.jsonvalue import JsonValue

SAYS_NOTHING = (UnauthenticatedError, PermissionDeniedError, RateLimitedError, UnavailableError)
"""Refusals that say nothing about the rule at hand."""

INVALID = (InvalidParamsError, InvalidRequestError)
"""Refusals that say that a request is invalid: HTTP+JSON and gRPC have one status for both."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a raw request: a JSON value, or the error that it reports."""

    exchange: Exchange
    value: JsonValue
    error: A2AError | None


def named(error: A2AError | None) -> str:
    """An error in a report: its class and what it says."""
    return f"{type(error).__name__} ({error})" if error is not None else "a result"


def parsed(body: bytes) -> JsonValue:
    """The JSON value of a body. Raises Broken if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Broken(f"the answer is no JSON: {error}") from error


class Where(Protocol):
    """What is expected depends on where it was asked."""

    @property
    def is_formless(self) -> bool:
        """Whether the specification fixes no form of errors there."""
        ...


def expect(
    where: Where,
    error: A2AError | None,
    *expected: type[A2AError],
    what: str,
    must: bool = True,
    any_error: bool = False,
    clause: str = "",
) -> str:
    """Say what was seen if a refusal is one of the expected. Raises Broken or Undecided otherwise.

    `any_error` is for rules that want an error and do not say which. Where the specification fixes no form of errors,
    any refusal will do that is not the server's own mistake.
    """
    names = " or ".join(kind.__name__.removesuffix("Error") for kind in expected)
    if error is None:
        raise Broken(f"{what} is accepted; expected {names or 'an error'}", must=must, clause=clause)
    if isinstance(error, expected):
        return f"{what} is refused: {type(error).__name__}"
    if isinstance(error, SAYS_NOTHING):
        raise Undecided(f"{what} is answered with {named(error)}") from error
    is_enough = error.row.http_0_3 not in (500, 502) if where.is_formless else any_error
    if is_enough:
        return f"{what} is refused: {type(error).__name__}"
    raise Broken(f"{what} is answered with {named(error)}; expected {names}", must=must, clause=clause)
