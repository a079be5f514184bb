"""API keys in a header, a query parameter or a cookie. They are stored as hashes; see `stored_secrets`.

Prefer a header: URLs with their queries end up in logs and browser histories. gRPC only has headers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from parley.protocol.cards import ApiKeyLocation, ApiKeyScheme, SecurityScheme
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import MAX_TOKEN
from parley.server.security.schemes.scheme import Challenge, Proof, Refused
from parley.server.security.schemes.stored_secrets import SecretTable, StoredSecret
from parley.server.security.schemes.tokens import utc_now


class ApiKeys:
    """Accepts the keys whose hashes are listed. `location` and `parameter` say where a request has its key."""

    def __init__(
        self,
        keys: Sequence[StoredSecret],
        *,
        location: ApiKeyLocation = ApiKeyLocation.HEADER,
        parameter: str = "X-API-Key",
        description: str | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Raises SettingError if an entry is invalid; see `SecretTable`."""
        self._table = SecretTable(keys, "keys")
        self._location = location
        self._parameter = parameter
        self.card: SecurityScheme = ApiKeyScheme(location, parameter, description=description)
        # HTTP needs a challenge in every 401, and none is registered for keys.
        self.challenge = Challenge("ApiKey", {"in": location.value, "name": parameter})
        self._now = now

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Identify the holder of the key; see `Scheme.verify`."""
        found = credentials.api_keys(self._location, self._parameter)
        if not found:
            return None
        if len(found) > 1:
            raise Refused("The request has more than one key")
        if len(found[0]) > MAX_TOKEN:
            raise Refused("The key is too long")
        key = found[0].strip('"') if self._location is ApiKeyLocation.COOKIE else found[0]  # it may be quoted
        return self._table.prove(key, self._now())

    async def close(self) -> None:
        """Nothing to do."""
