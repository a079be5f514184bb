"""JWT access tokens of an issuer, verified with the keys that it publishes at a configured URL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from parley.protocol.cards import HttpAuthScheme, OAuth2Scheme, OAuthFlows, SecurityScheme
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.authorization_server import AuthorizationServerClient, check_url
from parley.server.security.schemes.jwt import ALGORITHMS, JwtVerifier, check_algorithms
from parley.server.security.schemes.key_set import KeySet
from parley.server.security.schemes.scheme import Challenge, Proof, SettingError
from parley.server.security.schemes.token_claims import LEEWAY_SECONDS, ClaimRules


class JwtIssuer:
    """Accepts the JWTs of one issuer for `audience`, which is this server.

    `flows` tells callers in the card how to get a token; without it the card only says that a token is needed. The
    caller's name, scopes and tenant come from `subject_claim`, `scope_claims` and `tenant_claim`.
    """

    def __init__(
        self,
        issuer: str,
        audience: str | Sequence[str],
        *,
        jwks_url: str,
        algorithms: Sequence[str] = ALGORITHMS,
        subject_claim: str = "sub",
        scope_claims: Sequence[str] = ("scope", "scp"),
        tenant_claim: str | None = None,
        leeway_seconds: float = LEEWAY_SECONDS,
        flows: OAuthFlows | None = None,
        metadata_url: str | None = None,
        description: str | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises SettingError if the URL is not https, the audience is empty, or an algorithm is unknown."""
        self._jwks_url = check_url("jwks_url", jwks_url)
        rules = ClaimRules(
            issuer=issuer,
            audience=check_audience(audience),
            subject_claim=subject_claim,
            scope_claims=tuple(scope_claims),
            tenant_claim=tenant_claim,
            leeway_seconds=leeway_seconds,
        )
        self.card = bearer_card(flows, metadata_url, description, "JWT")
        self.challenge = Challenge("Bearer")
        self.issuers = (issuer,)
        self._now = now
        self._server = AuthorizationServerClient()
        self._jwts = JwtVerifier(rules, KeySet(self.fetch_keys, clock=clock), check_algorithms(algorithms))

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Identify the subject of the token; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        return None if token is None else await self._jwts.verify(token, credentials, self._now())

    async def fetch_keys(self) -> JsonObject:
        """Fetch the issuer's keys. Raises UnavailableError."""
        return await self._server.get(self._jwks_url)

    async def close(self) -> None:
        """Close the connections to the issuer."""
        await self._server.close()


def bearer_card(
    flows: OAuthFlows | None, metadata_url: str | None, description: str | None, bearer_format: str | None
) -> SecurityScheme:
    """The scheme in the card for tokens of an authorization server."""
    if flows is None:
        return HttpAuthScheme("Bearer", bearer_format, description)
    return OAuth2Scheme(flows, metadata_url, description)


def check_audience(audience: str | Sequence[str]) -> tuple[str, ...]:
    """Check the audiences, and return them as a tuple.

    Raises:
        SettingError: it is empty. Then tokens for other services of the issuer would be accepted.
    """
    audiences = (audience,) if isinstance(audience, str) else tuple(audience)
    if not audiences or not all(audiences):
        raise SettingError("audience", "it must not be empty, or tokens for other services would be accepted")
    return audiences
