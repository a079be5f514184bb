"""Schemes and requirements, declared once for the card and for authentication.

Requirements are alternatives, as in OpenAPI: a request must meet one of them, and that needs all its schemes. The first
one that is met names the caller: `scheme:subject`, joined with `+` if there are several schemes. Scheme names contain
no colon and subjects no bare `+`, so two callers never share a name. An empty requirement admits callers without
credentials; invalid credentials are refused even then. If no requirement is met and some credentials could not be
checked, the error is "unavailable". This module is independent of bindings and of specific schemes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote

from parley.protocol.cards import SecurityRequirement, SecurityScheme
from parley.protocol.errors import A2AError, PermissionDeniedError, UnauthenticatedError, UnavailableError
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.credentials import ANONYMOUS, Identity, PresentedCredentials
from parley.server.security.resource_metadata import issuers_of
from parley.server.security.schemes.scheme import MAX_SUBJECT, Challenge, Proof, Refused, Scheme

# The characters that OpenAPI allows in the name of a scheme, and a length that suits logs and keys of a store.
_SCHEME_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Keeps mail addresses, URIs and distinguished names readable. `+`, `%` and all others are quoted.
_SAFE = "@/:=,|!*'()"

_Result: TypeAlias = Proof | Refused | UnavailableError | None


class Security:
    """The schemes that a server accepts, and the requirements.

    `requirements` are alternatives. Each maps scheme names to the scopes that the scheme must prove. By default any one
    of the schemes is sufficient. `{}` among them allows callers without credentials.

    Example: `Security({"token": tokens, "company": issuer}, [{"token": ()}, {"company": ("agent:call",)}])`
    """

    def __init__(
        self,
        schemes: Mapping[str, Scheme],
        requirements: Sequence[Mapping[str, Sequence[str]]] | None = None,
        *,
        realm: str = "parley",
    ) -> None:
        """Raises ValueError if a scheme name is invalid, or a requirement names a scheme that is not declared."""
        self._schemes = dict(schemes)
        self._realm = realm
        chosen = [{name: ()} for name in schemes] if requirements is None else requirements
        self._requirements: tuple[SecurityRequirement, ...] = tuple(
            {name: tuple(scopes) for name, scopes in requirement.items()} for requirement in chosen
        )
        _check_names(self._schemes, self._requirements)
        self._nonempty = tuple(requirement for requirement in self._requirements if requirement)
        self._admits_anonymous = {} in self._requirements

    def __repr__(self) -> str:
        return f"Security({sorted(self._schemes)}, {list(self._requirements)})"

    @property
    def schemes(self) -> dict[str, SecurityScheme]:
        """The schemes as the card shows them."""
        return {name: scheme.card for name, scheme in self._schemes.items()}

    @property
    def requirements(self) -> tuple[SecurityRequirement, ...]:
        """The requirements as the card shows them."""
        return self._requirements

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers whose tokens are accepted: the authorization servers in the protected resource metadata."""
        return tuple(dict.fromkeys(issuer for scheme in self._schemes.values() for issuer in issuers_of(scheme)))

    def requirements_for(self, scopes: Iterable[str]) -> tuple[SecurityRequirement, ...]:
        """The requirements with these scopes added, as the card shows them for a skill that needs scopes.

        They are added to the first scheme of each requirement, although any of its schemes may grant them.
        """
        extra = tuple(scopes)
        added = list[SecurityRequirement]()
        for requirement in self._nonempty:
            (first, own), *others = requirement.items()
            added.append({first: (*own, *(scope for scope in extra if scope not in own)), **dict(others)})
        return tuple(added)

    async def close(self) -> None:
        """Close all schemes."""
        for scheme in self._schemes.values():
            await scheme.close()

    async def authenticate(self, credentials: PresentedCredentials) -> Identity:
        """Identify the caller.

        Raises:
            UnauthenticatedError: the credentials are missing or invalid; see `challenges_of`, `was_refused`.
            PermissionDeniedError: they are valid, but lack a scope, or belong to different tenants.
            UnavailableError: they cannot be checked now.
        """
        results = dict[str, _Result]()
        missing_scopes: frozenset[str] | None = None
        for requirement in self._nonempty:
            proofs = await self._prove(requirement, credentials, results)
            if proofs is None:
                continue
            missing = _missing_scopes(requirement, proofs)
            if not missing:
                return _identify(proofs)
            missing_scopes = missing_scopes or missing
        return self._refuse_or_anonymous(results, missing_scopes)

    def authentication_required(self) -> UnauthenticatedError:
        """The error for an anonymous caller of an operation that always needs credentials."""
        return self._unauthenticated({})

    async def _prove(
        self, requirement: SecurityRequirement, credentials: PresentedCredentials, results: dict[str, _Result]
    ) -> dict[str, Proof] | None:
        """The proofs of all schemes of a requirement, or None if one is missing. No scheme verifies twice."""
        proofs = dict[str, Proof]()
        for name in requirement:
            if name not in results:
                results[name] = await _verify(self._schemes[name], credentials)
            result = results[name]
            if not isinstance(result, Proof):
                return None
            proofs[name] = result
        return proofs

    def _refuse_or_anonymous(self, results: Mapping[str, _Result], missing_scopes: frozenset[str] | None) -> Identity:
        """Handle a request that met no requirement: anonymous if that is allowed and no credentials were invalid."""
        for result in results.values():
            if isinstance(result, UnavailableError):
                raise result
        if missing_scopes:
            raise self._insufficient(missing_scopes)
        if self._admits_anonymous and not any(isinstance(result, Refused) for result in results.values()):
            return ANONYMOUS
        raise self._unauthenticated(results)

    def _unauthenticated(self, results: Mapping[str, _Result]) -> UnauthenticatedError:
        """The error with a challenge for each missing scheme; schemes with the same name, such as Bearer, share one."""
        parameters = dict[str, dict[str, str]]()
        for name in dict.fromkeys(name for requirement in self._nonempty for name in requirement):
            result = results.get(name)
            if isinstance(result, Proof):
                continue
            challenge = self._schemes[name].challenge
            merged = parameters.setdefault(challenge.scheme, {"realm": self._realm})
            if isinstance(result, Refused) and challenge.scheme == "Bearer":  # RFC 6750 section 3.1
                merged["error"] = "invalid_token"
                if not result.foreign or "error_description" not in merged:
                    merged["error_description"] = result.reason
            for key, value in challenge.parameters.items():
                merged.setdefault(key, value)
        refused = any(isinstance(result, Refused) for result in results.values())
        error = UnauthenticatedError("The credentials are not valid" if refused else None)
        challenges = tuple(str(Challenge(word, merged)) for word, merged in parameters.items())
        vars(error).update(challenges=challenges, refused=refused)
        return error

    def _insufficient(self, missing: frozenset[str]) -> PermissionDeniedError:
        scope = " ".join(sorted(missing))
        error = PermissionDeniedError(f"The caller lacks the scope: {scope}", details={"scope": scope})
        words = {self._schemes[name].challenge.scheme for requirement in self._nonempty for name in requirement}
        if "Bearer" in words:  # the only scheme that has a parameter for it: RFC 6750 section 3.1
            parameters = {"realm": self._realm, "error": "insufficient_scope", "scope": scope}
            vars(error).update(challenges=(str(Challenge("Bearer", parameters)),))
        return error


# The dialects look errors up by their exact class, so these cannot be attributes of a subclass.
def challenges_of(error: A2AError) -> tuple[str, ...]:
    """The `WWW-Authenticate` values of an error; empty for errors that are not about authentication."""
    return vars(error).get("challenges", ())


def was_refused(error: A2AError) -> bool:
    """Whether the request had invalid credentials, which may be an attempt to guess them."""
    return vars(error).get("refused", False)


def _check_names(schemes: Mapping[str, Scheme], requirements: Sequence[SecurityRequirement]) -> None:
    if not schemes:
        raise ValueError("Security needs at least one scheme; leave Security out for a server without authentication")
    for name in schemes:
        if not _SCHEME_NAME.fullmatch(name):
            raise ValueError(f"Invalid scheme name: {name!r}. Use up to 64 letters, digits, '.', '_' and '-'.")
    if not requirements:
        raise ValueError("The requirements are empty, so no caller could be admitted. Leave them out, or add {}.")
    for requirement in requirements:
        for name in requirement:
            if name not in schemes:
                raise ValueError(f"A requirement names the scheme {name!r}, which is not declared")


async def _verify(scheme: Scheme, credentials: PresentedCredentials) -> _Result:
    """The result of a scheme. Errors are values here: they matter only if no requirement is met."""
    try:
        proof = await scheme.verify(credentials)
    except (Refused, UnavailableError) as result:
        return result
    if proof and not 0 < len(proof.subject) <= MAX_SUBJECT:
        return Refused("The subject is missing or too long")
    return proof


def _missing_scopes(requirement: SecurityRequirement, proofs: Mapping[str, Proof]) -> frozenset[str]:
    return frozenset(
        scope for name, scopes in requirement.items() for scope in scopes if scope not in proofs[name].scopes
    )


def _identify(proofs: Mapping[str, Proof]) -> Identity:
    """The identity that the proofs form together: all scopes, one tenant, and the first of equal claims."""
    tenants = {proof.tenant for proof in proofs.values() if proof.tenant is not None}
    if len(tenants) > 1:
        raise PermissionDeniedError("The credentials belong to different tenants")
    claims: JsonObject = {}
    for proof in proofs.values():
        claims = {**proof.claims, **claims}
    return Identity(
        name="+".join(f"{name}:{quote(proof.subject, safe=_SAFE)}" for name, proof in proofs.items()),
        scopes=frozenset(scope for proof in proofs.values() for scope in proof.scopes),
        claims=claims,
        tenant=next(iter(tenants), None),
    )
