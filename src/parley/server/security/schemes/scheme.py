"""What a security scheme is: its line in the card, the check of its credentials, and the challenge it answers with.

A scheme knows nothing of requirements, scopes that are demanded, or other schemes; `security` combines them. It must
tell three things apart: no credentials of its kind (None), bad ones (`Refused`), and ones that cannot be checked now
(UnavailableError). It never puts a secret into an error or a representation.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from parley.protocol.cards import SecurityScheme
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.credentials import PresentedCredentials

MAX_SUBJECT = 512
"""Longest subject. OpenID Connect allows 255 characters, distinguished names and SPIFFE ids are a little longer."""


class Proof(Struct, frozen=True):
    """What good credentials prove: who it is within the scheme, what they may do, and the tenant they belong to."""

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
    """The credentials are bad. The reason may be told to whoever brought them; it holds nothing that they brought.

    `foreign` ones do not look like this scheme's at all, so another scheme may have a better reason to give.
    """

    def __init__(self, reason: str, *, foreign: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.foreign = foreign


class SettingError(ValueError):
    """A scheme was given a setting that it cannot use: `setting` names it, such as `audience` or `tokens[0].hash`."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


class Scheme(Protocol):
    """One way to prove who you are. Constructors raise SettingError."""

    @property
    def card(self) -> SecurityScheme:
        """What the agent card says about it."""
        ...

    @property
    def challenge(self) -> Challenge:
        """What a 401 says about it, without the realm."""
        ...

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """What the credentials prove, or None if there are none of this kind.

        Raises:
            Refused: they are bad.
            UnavailableError: they cannot be checked now.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def _escape(value: str) -> str:
    """A quoted-string's content: printable ASCII only, for it goes into a header."""
    kept = "".join(character if " " <= character <= "~" else "?" for character in value)
    return kept.replace("\\", "\\\\").replace('"', '\\"')
