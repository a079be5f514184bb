"""Access tokens that an issuer signs: JWTs, verified with the keys the issuer publishes at a known URL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from parley.protocol.cards import HttpAuthScheme, OAuth2Scheme, OAuthFlows, SecurityScheme
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.authorization_server import AuthorizationServer, check_url
from parley.server.security.schemes.jwt import ALGORITHMS, JwtVerifier, check_algorithms
from parley.server.security.schemes.key_set import KeySet
from parley.server.security.schemes.scheme import Challenge, Proof, SettingError
from parley.server.security.schemes.token_claims import LEEWAY_SECONDS, ClaimRules


class JwtIssuer:
    """Accepts the JWTs of one issuer that are meant for `audience`, this server.

    `flows` says in the card how a caller gets a token; without it the card only says that one is needed. Who the caller
    is, what it may do and whose tenant it is in are taken from `subject_claim`, `scope_claims` and `tenant_claim`.
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
        """Raises SettingError if the URL is not safe, the audience empty, or an algorithm not one for signatures."""
        self._jwks_url = check_url("jwks_url", jwks_url)
        rules = ClaimRules(
            issuer=issuer,
            audience=check_audience(audience),
            subject_claim=subject_claim,
            scope_claims=tuple(scope_claims),
            tenant_claim=tenant_claim,
            leeway_seconds=leeway_seconds,
        )
        self._card = bearer_card(flows, metadata_url, description, "JWT")
        self._now = now
        self._server = AuthorizationServer()
        keys = KeySet(lambda: self._server.get(self._jwks_url), clock=clock)
        self._jwts = JwtVerifier(rules, keys, check_algorithms(algorithms))

    @property
    def card(self) -> SecurityScheme:
        """OAuth2 if flows are given, else HTTP authentication with the scheme Bearer."""
        return self._card

    @property
    def challenge(self) -> Challenge:
        """`Bearer`."""
        return Challenge("Bearer")

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Whom the issuer vouches for; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        return None if token is None else await self._jwts.verify(token, credentials, self._now())

    async def close(self) -> None:
        """Close the connection to the issuer."""
        await self._server.close()


def bearer_card(
    flows: OAuthFlows | None, metadata_url: str | None, description: str | None, bearer_format: str | None
) -> SecurityScheme:
    """How the card declares a scheme whose tokens come from an authorization server."""
    if flows is None:
        return HttpAuthScheme("Bearer", bearer_format, description)
    return OAuth2Scheme(flows, metadata_url, description)


def check_audience(audience: str | Sequence[str]) -> tuple[str, ...]:
    """The audiences as a tuple.

    Raises:
        SettingError: there is none, and every token of the issuer would be good here.
    """
    audiences = (audience,) if isinstance(audience, str) else tuple(audience)
    if not audiences or not all(audiences):
        raise SettingError("audience", "it is needed, or else a token for any other service would be good here")
    return audiences
