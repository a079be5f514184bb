"""OpenID Connect: JWTs of an issuer that publishes the URL of its keys at `/.well-known/openid-configuration`.

The document must name exactly the configured issuer (OpenID Connect Discovery section 4.3); otherwise it is not used.
It is read again whenever keys are fetched, so an issuer may change their URL.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from parley.protocol.cards import OpenIdConnectScheme
from parley.protocol.errors import UnavailableError
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.schemes.authorization_server import check_url
from parley.server.security.schemes.jwt import ALGORITHMS
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.token_claims import LEEWAY_SECONDS

_log = logging.getLogger(__name__)


class OpenIdConnect(JwtIssuer):
    """Accepts the JWTs of an OpenID Connect issuer for `audience`, which is this server.

    The other settings are those of `JwtIssuer`.
    """

    def __init__(
        self,
        issuer: str,
        audience: str | Sequence[str],
        *,
        algorithms: Sequence[str] = ALGORITHMS,
        subject_claim: str = "sub",
        scope_claims: Sequence[str] = ("scope", "scp"),
        tenant_claim: str | None = None,
        leeway_seconds: float = LEEWAY_SECONDS,
        description: str | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises SettingError if the issuer is not an https URL, the audience is empty, or an algorithm is unknown."""
        self._discovery_url = check_url("issuer", issuer).rstrip("/") + "/.well-known/openid-configuration"
        self._issuer = issuer
        super().__init__(
            issuer,
            audience,
            jwks_url=self._discovery_url,
            algorithms=algorithms,
            subject_claim=subject_claim,
            scope_claims=scope_claims,
            tenant_claim=tenant_claim,
            leeway_seconds=leeway_seconds,
            now=now,
            clock=clock,
        )
        self.card = OpenIdConnectScheme(self._discovery_url, description)

    async def fetch_keys(self) -> JsonObject:
        """Fetch the keys from the URL in the discovery document. Raises UnavailableError."""
        document = await super().fetch_keys()
        url = document.get("jwks_uri")
        try:
            if document.get("issuer") != self._issuer:
                raise ValueError("it names another issuer")
            if not isinstance(url, str):
                raise ValueError("it has no jwks_uri")
            check_url("jwks_uri", url)
        except ValueError as exc:
            _log.warning("The discovery document at %s is invalid: %s", self._discovery_url, exc)
            raise UnavailableError("The credentials cannot be checked now; try again later") from exc
        return await self._server.get(url)
