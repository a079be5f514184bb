"""The checks on the claims of an access token, the same for JWTs and for introspection.

Times are checked with a small leeway, because clocks differ. A token that is bound to a certificate (RFC 8705) is valid
only on a connection with that certificate. A token with another kind of binding is refused.
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
"""How much the issuer's clock may differ. RFC 7519 allows a few minutes at most; clocks are better now."""


class ClaimRules(Struct, frozen=True, kw_only=True):
    """What claims must contain, and the names of the claims that are read.

    `audience` lists the names of this server, of which the token must have one; if it is empty, it is not checked.
    Scopes come from all `scope_claims`: strings separated by spaces, or lists. `tenant_claim` is the claim with the
    tenant; a token without it is then refused.
    """

    issuer: str | None = None
    audience: tuple[str, ...] = ()
    subject_claim: str = "sub"
    scope_claims: tuple[str, ...] = ("scope", "scp")
    tenant_claim: str | None = None
    leeway_seconds: float = LEEWAY_SECONDS
    needs_expiry: bool = True


def prove_claims(claims: JsonObject, rules: ClaimRules, credentials: PresentedCredentials, now: float) -> Proof:
    """Check claims that come from the issuer.

    Raises:
        Refused: the audience, the times or the certificate do not match.
    """
    # Introspection may leave the issuer out (RFC 7662 section 2.2). For a JWT it is checked before.
    if rules.issuer is not None and claims.get("iss", rules.issuer) != rules.issuer:
        raise Refused("The token is from another issuer")
    if rules.audience and not set(rules.audience) & set(_strings(claims.get("aud"), split=False)):
        raise Refused("The token is for another audience")
    expires = _time(claims, "exp")
    if expires is None and rules.needs_expiry:
        raise Refused("The token has no expiry")
    if expires is not None and expires + rules.leeway_seconds <= now:
        raise Refused("The token has expired")
    if (_time(claims, "nbf") or 0) - rules.leeway_seconds > now:
        raise Refused("The token is not valid yet")
    _check_binding(claims, credentials)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject:
        raise Refused("The token has no subject")
    scopes = frozenset(scope for name in rules.scope_claims for scope in _strings(claims.get(name), split=True))
    return Proof(subject, scopes, claims, _tenant(claims, rules.tenant_claim))


def _tenant(claims: JsonObject, name: str | None) -> str | None:
    if name is None:
        return None
    tenant = claims.get(name)
    if not isinstance(tenant, str) or not tenant:
        raise Refused("The token has no tenant")
    return tenant


def _check_binding(claims: JsonObject, credentials: PresentedCredentials) -> None:
    confirmation = claims.get("cnf")
    if confirmation is None:
        return
    bound = confirmation.get("x5t#S256") if isinstance(confirmation, dict) else None
    if not isinstance(bound, str):
        raise Refused("The token is bound to a kind of proof that is not supported")
    certificate = credentials.certificate
    digest = urlsafe_b64encode(bytes.fromhex(certificate.fingerprint)).rstrip(b"=") if certificate else b""
    if not compare_digest(digest, bound.encode("utf-8", "surrogatepass")):
        raise Refused("The token is bound to another certificate")


def _time(claims: JsonObject, name: str) -> float | None:
    time = claims.get(name)
    if time is None:
        return None
    # bool is a subclass of int; NaN and infinity are not times.
    if isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time):
        raise Refused("The token's times are invalid")
    return time


def _strings(value: JsonValue, *, split: bool) -> list[str]:
    if isinstance(value, str):
        return value.split() if split else [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
