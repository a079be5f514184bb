"""Bearer tokens from a list: `Authorization: Bearer …`, RFC 6750. They are stored as hashes; see `stored_secrets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from parley.protocol.cards import HttpAuthScheme, SecurityScheme
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.scheme import Challenge, Proof
from parley.server.security.schemes.stored_secrets import SecretTable, StoredSecret


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


class BearerTokens:
    """Accepts the tokens whose hashes are listed; the name of an entry is the name of the holder."""

    def __init__(
        self,
        tokens: Sequence[StoredSecret],
        *,
        description: str | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Raises SettingError if an entry is invalid; see `SecretTable`."""
        self._table = SecretTable(tokens, "tokens")
        self.card: SecurityScheme = HttpAuthScheme("Bearer", description=description)
        self.challenge = Challenge("Bearer")
        self._now = now

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Identify the holder of the token; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        return None if token is None else self._table.prove(token, self._now())

    async def close(self) -> None:
        """Nothing to do."""
