"""OAuth2 token introspection, RFC 7662: the authorization server says whether a token is active.

Active tokens are cached for a short time, so a revoked token works that much longer. Inactive tokens are not cached;
`throttle` stops callers that send many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from parley.protocol.cards import OAuthFlows
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.authorization_server import AuthorizationServerClient, check_url
from parley.server.security.schemes.check_cache import CheckCache
from parley.server.security.schemes.jwt_issuer import bearer_card
from parley.server.security.schemes.scheme import Challenge, Proof, Refused
from parley.server.security.schemes.token_claims import LEEWAY_SECONDS, ClaimRules, prove_claims

REMEMBERED_SECONDS = 30.0
"""How long an active token is cached; RFC 7662 section 4 leaves the choice to the server."""
REMEMBERED = 10_000
"""The most active tokens that are cached, about a kilobyte each."""


class Introspection:
    """Accepts the tokens that an authorization server reports as active.

    This server authenticates there with `client_id` and `client_secret`. `issuer` and `audience` are checked if they
    are given. If the replies for machine clients have no `sub`, set `subject_claim="client_id"`.
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        issuer: str | None = None,
        audience: str | Sequence[str] = (),
        subject_claim: str = "sub",
        scope_claims: Sequence[str] = ("scope", "scp"),
        tenant_claim: str | None = None,
        remembered_seconds: float = REMEMBERED_SECONDS,
        leeway_seconds: float = LEEWAY_SECONDS,
        flows: OAuthFlows | None = None,
        metadata_url: str | None = None,
        description: str | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises SettingError if the URL is not safe."""
        self._url = check_url("url", url)
        self._client_id = client_id
        self._client_secret = client_secret
        self._rules = ClaimRules(
            issuer=issuer,
            audience=(audience,) if isinstance(audience, str) else tuple(audience),
            subject_claim=subject_claim,
            scope_claims=tuple(scope_claims),
            tenant_claim=tenant_claim,
            leeway_seconds=leeway_seconds,
            needs_expiry=False,  # the server has reported it as active
        )
        self.card = bearer_card(flows, metadata_url, description, None)
        self.challenge = Challenge("Bearer")
        self.issuers = () if issuer is None else (issuer,)
        self._now = now
        self._server = AuthorizationServerClient()
        self._answers = CheckCache[bytes](seconds=remembered_seconds, size=REMEMBERED, clock=clock)

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Identify the holder of the token; see `Scheme.verify`."""
        token = read_authorization(credentials, "bearer")
        if token is None:
            return None
        answer = await self._answers.get(token, lambda: self._ask(token))
        # The reply may come from the cache, so its times and its binding to a certificate are checked each time. The
        # claims are decoded each time, so that requests do not share a mutable object.
        return prove_claims(msgspec.json.decode(answer, type=JsonObject), self._rules, credentials, self._now())

    async def _ask(self, token: str) -> bytes:
        form = {"token": token, "token_type_hint": "access_token"}
        claims = await self._server.post(self._url, form, client_id=self._client_id, client_secret=self._client_secret)
        if claims.get("active") is not True:
            raise Refused("The token is not active")
        return msgspec.json.encode(claims)

    async def close(self) -> None:
        """Clear the cache, and close the connections."""
        await self._answers.close()
        await self._server.close()
