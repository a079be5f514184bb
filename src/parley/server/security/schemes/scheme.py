"""The interface of a security scheme: its entry in the card, the verification of credentials, and its challenge.

A scheme is independent of requirements and of other schemes; `requirements` combines them. It distinguishes three
cases: no credentials of its kind (None), invalid ones (`Refused`), and ones that cannot be checked now
(UnavailableError). It never puts a secret into an error or a representation.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from parley.protocol.cards import SecurityScheme
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.credentials import PresentedCredentials

MAX_SUBJECT = 512
"""The longest subject. OpenID Connect allows 255 characters; distinguished names and SPIFFE ids are a little longer."""


class Proof(Struct, frozen=True):
    """What valid credentials prove: the subject within the scheme, its scopes, claims and tenant."""

    subject: str
    scopes: frozenset[str] = frozenset()
    claims: JsonObject = {}
    tenant: str | None = None


class Challenge(Struct, frozen=True):
    """One challenge of a `WWW-Authenticate` header, such as `Bearer realm="parley"`."""

    scheme: str
    parameters: dict[str, str] = {}

    def __str__(self) -> str:
        written = ", ".join(f'{name}="{_escape(value)}"' for name, value in self.parameters.items())
        return f"{self.scheme} {written}" if written else self.scheme


class Refused(Exception):
    """The credentials are invalid. The caller sees the reason, which contains no part of the credentials.

    `foreign` means that they belong to another scheme, whose reason is then preferred.
    """

    def __init__(self, reason: str, *, foreign: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.foreign = foreign


class SettingError(ValueError):
    """A setting of a scheme is invalid: `setting` names it, such as `audience` or `tokens[0].hash`."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


class Scheme(Protocol):
    """One kind of credentials. Constructors raise SettingError."""

    @property
    def card(self) -> SecurityScheme:
        """The scheme in the agent card."""
        ...

    @property
    def challenge(self) -> Challenge:
        """The challenge in a 401, without the realm."""
        ...

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Verify the credentials, or return None if there are none of this kind.

        Raises:
            Refused: they are invalid.
            UnavailableError: they cannot be checked now.
        """
        ...

    async def close(self) -> None:
        """Close connections and threads."""
        ...


def _escape(value: str) -> str:
    """The content of a quoted string in a header: printable ASCII only."""
    kept = "".join(character if " " <= character <= "~" else "?" for character in value)
    return kept.replace("\\", "\\\\").replace('"', '\\"')
