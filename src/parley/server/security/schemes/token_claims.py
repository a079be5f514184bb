"""What the claims of an access token must say, and what they prove: the same for JWTs and for introspected tokens.

Times are checked with a small leeway, because clocks differ. A token that is bound to a certificate (RFC 8705) is good
only on a connection with that certificate; one that is bound in another way cannot be checked here and is refused.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64encode
from hmac import compare_digest

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.scheme import Proof, Refused

LEEWAY_SECONDS = 30.0
"""How far the issuer's clock may be from ours. RFC 7519 speaks of a few minutes at most; clocks are better now."""


class ClaimRules(Struct, frozen=True, kw_only=True):
    """What is demanded of claims, and where in them the facts are.

    `audience` lists the names of this server, one of which the token must be for; empty checks none. Scopes are taken
    from all `scope_claims`: texts with spaces, or lists. `tenant_claim` names the claim that binds to a tenant; a token
    without it is then refused, for it would be in no tenant at all.
    """

    issuer: str | None = None
    audience: tuple[str, ...] = ()
    subject_claim: str = "sub"
    scope_claims: tuple[str, ...] = ("scope", "scp")
    tenant_claim: str | None = None
    leeway_seconds: float = LEEWAY_SECONDS
    needs_expiry: bool = True


def prove_claims(claims: JsonObject, rules: ClaimRules, credentials: PresentedCredentials, now: float) -> Proof:
    """What claims prove that come from the issuer itself.

    Raises:
        Refused: they are not for here, not for now, or not for this connection.
    """
    # Introspection may leave the issuer out (RFC 7662 section 2.2): it is who answers. No JWT gets here without it.
    if rules.issuer is not None and claims.get("iss", rules.issuer) != rules.issuer:
        raise Refused("The token is from another issuer")
    if rules.audience and not set(rules.audience) & set(_texts(claims.get("aud"), split=False)):
        raise Refused("The token is for another audience")
    expires = _moment(claims, "exp")
    if expires is None and rules.needs_expiry:
        raise Refused("The token has no expiry")
    if expires is not None and expires + rules.leeway_seconds <= now:
        raise Refused("The token has expired")
    if (_moment(claims, "nbf") or 0) - rules.leeway_seconds > now:
        raise Refused("The token is not valid yet")
    _check_binding(claims, credentials)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject:
        raise Refused("The token names no subject")
    scopes = frozenset(scope for name in rules.scope_claims for scope in _texts(claims.get(name), split=True))
    return Proof(subject, scopes, claims, _tenant(claims, rules.tenant_claim))


def _tenant(claims: JsonObject, name: str | None) -> str | None:
    if name is None:
        return None
    tenant = claims.get(name)
    if not isinstance(tenant, str) or not tenant:
        raise Refused("The token names no tenant")
    return tenant


def _check_binding(claims: JsonObject, credentials: PresentedCredentials) -> None:
    confirmation = claims.get("cnf")
    if confirmation is None:
        return
    bound = confirmation.get("x5t#S256") if isinstance(confirmation, dict) else None
    if not isinstance(bound, str):
        raise Refused("The token is bound to a proof that is not accepted here")
    certificate = credentials.certificate
    digest = urlsafe_b64encode(bytes.fromhex(certificate.fingerprint)).rstrip(b"=") if certificate else b""
    if not compare_digest(digest, bound.encode("utf-8", "surrogatepass")):
        raise Refused("The token is bound to another certificate")


def _moment(claims: JsonObject, name: str) -> float | None:
    moment = claims.get(name)
    if moment is None:
        return None
    # true would be 1; a number that is not finite compares with nothing.
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not math.isfinite(moment):
        raise Refused("The token's times are no times")
    return moment


def _texts(value: JsonValue, *, split: bool) -> list[str]:
    if isinstance(value, str):
        return value.split() if split else [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
