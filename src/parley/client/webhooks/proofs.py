"""How the sender of a notification proves who it is: each kind of proof checks the headers first, then the body.

What can be refused by its headers is refused before a byte of the body is read. `Secrets` is a token or credentials
that the request repeats; `standard_webhooks` and `signed_tokens` hold the proofs that are made anew for each request.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from parley.protocol.errors import UnauthenticatedError
from parley.protocol.push import PushConfig

TOKEN_HEADER = "x-a2a-notification-token"
API_KEY_HEADER = "x-api-key"
EVENT_ID_HEADER = "parley-event-id"

Headers: TypeAlias = Mapping[str, str]
"""The headers of a request by their names in lower case."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a proof says about a request."""

    delivery_id: str | None = None
    task_id: str | None = None
    """The task that the notification must be about, or None if the proof names none."""


BodyCheck: TypeAlias = Callable[[bytes], Evidence]
"""Checks the body of a request whose headers were accepted. Raises UnauthenticatedError."""


class SenderProof(Protocol):
    """What one kind of sender has to present."""

    async def prepare(self, headers: Headers) -> None:
        """Fetch what the check needs. Raises UnavailableError if that is not possible now."""
        ...

    def check(self, headers: Headers) -> BodyCheck:
        """Check the headers of a request. Raises UnauthenticatedError."""
        ...


class Secrets:
    """The token and the credentials of a config: the request must repeat all that there are.

    One of the schemes must be used. An API key comes in a header of its own, or in Authorization as older servers
    send it.
    """

    def __init__(self, config: PushConfig) -> None:
        proof = config.authentication
        self._token = config.token
        self._credentials = proof.credentials if proof is not None else None
        self._schemes = frozenset(scheme.lower() for scheme in proof.schemes) if proof is not None else frozenset[str]()

    @property
    def is_empty(self) -> bool:
        """Whether there is no secret, so that any sender would be accepted."""
        return not self._token and not self._credentials

    async def prepare(self, headers: Headers) -> None:
        """Nothing is fetched."""

    def check(self, headers: Headers) -> BodyCheck:
        """Compare the secrets. Raises UnauthenticatedError."""
        check_token(headers, self._token)
        if self._credentials and not self._has_credentials(headers, self._credentials):
            raise UnauthenticatedError("The notification has the wrong credentials")
        evidence = Evidence(headers.get(EVENT_ID_HEADER) or None)
        return lambda _: evidence

    def _has_credentials(self, headers: Headers, credentials: str) -> bool:
        if "apikey" in self._schemes and is_same_secret(headers.get(API_KEY_HEADER, ""), credentials):
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() in self._schemes and is_same_secret(given.strip(), credentials)


def check_token(headers: Headers, token: str | None) -> None:
    """Compare the token of a config, if it has one. Raises UnauthenticatedError."""
    if token and not is_same_secret(headers.get(TOKEN_HEADER, ""), token):
        raise UnauthenticatedError("The notification has the wrong token")


def is_same_secret(given: str, expected: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))
