"""Security declared once: the schemes and requirements of the card are the ones that are enforced.

Requirements combine as OpenAPI's do: any one of them lets a request in, and all schemes of one are needed together. The
first that is met names the caller: `scheme:subject`, joined with `+` where several schemes were needed. Scheme names
have no colon and subjects no bare `+`, so two callers never share a name. An empty requirement lets everybody in who
brings nothing; credentials that are bad are refused even then. If nothing is met and something could not be checked,
the answer is "unavailable", never "come in". This module knows no binding and no scheme in particular.
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
from parley.server.security.schemes.scheme import MAX_SUBJECT, Challenge, Proof, Refused, Scheme

# The characters OpenAPI allows in the name of a scheme, less what would not survive in a log or a store's key.
_SCHEME_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
# What stays readable in a subject: mail addresses, URIs, distinguished names. `+`, `%` and all others are quoted.
_SAFE = "@/:=,|!*'()"

_Finding: TypeAlias = Proof | Refused | UnavailableError | None


class Security:
    """The schemes a server accepts and how they combine.

    `requirements` are alternatives, each a mapping of scheme names to the scopes that scheme must prove; left out, any
    one of the schemes will do. `{}` among them allows callers without credentials.

    Example: `Security({"token": tokens, "company": issuer}, [{"token": ()}, {"company": ("agent:call",)}])`
    """

    def __init__(
        self,
        schemes: Mapping[str, Scheme],
        requirements: Sequence[Mapping[str, Sequence[str]]] | None = None,
        *,
        realm: str = "parley",
    ) -> None:
        """Raises ValueError if a name is not fit, or a requirement names a scheme that is not declared."""
        self._schemes = dict(schemes)
        self._realm = realm
        chosen = [{name: ()} for name in schemes] if requirements is None else requirements
        self._requirements: tuple[SecurityRequirement, ...] = tuple(
            {name: tuple(scopes) for name, scopes in requirement.items()} for requirement in chosen
        )
        _check_names(self._schemes, self._requirements)
        self._demanding = tuple(requirement for requirement in self._requirements if requirement)
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

    def requirements_for(self, scopes: Iterable[str]) -> tuple[SecurityRequirement, ...]:
        """The requirements with these scopes added, as the card shows them for a skill that demands scopes.

        They stand at the first scheme of each requirement, though any scheme of it may grant them.
        """
        extra = tuple(scopes)
        added = list[SecurityRequirement]()
        for requirement in self._demanding:
            (first, own), *others = requirement.items()
            added.append({first: (*own, *(scope for scope in extra if scope not in own)), **dict(others)})
        return tuple(added)

    async def close(self) -> None:
        """Let go of what the schemes hold."""
        for scheme in self._schemes.values():
            await scheme.close()

    async def authenticate(self, credentials: PresentedCredentials) -> Identity:
        """Who the request comes from.

        Raises:
            UnauthenticatedError: the credentials are missing or bad; see `challenges_of`, `was_refused`.
            PermissionDeniedError: they are good, but lack a scope, or belong to different tenants.
            UnavailableError: they cannot be checked now.
        """
        findings = dict[str, _Finding]()
        lacking: frozenset[str] | None = None
        for requirement in self._demanding:
            proofs = await self._prove(requirement, credentials, findings)
            if proofs is None:
                continue
            missing = _missing_scopes(requirement, proofs)
            if not missing:
                return _identify(proofs)
            lacking = lacking or missing
        return self._turn_away(findings, lacking)

    def authentication_required(self) -> UnauthenticatedError:
        """The error for somebody without credentials who asks for what is never given to strangers."""
        return self._unauthenticated({})

    async def _prove(
        self, requirement: SecurityRequirement, credentials: PresentedCredentials, findings: dict[str, _Finding]
    ) -> dict[str, Proof] | None:
        """What every scheme of the requirement proved, or None if one did not; no scheme is asked twice."""
        proofs = dict[str, Proof]()
        for name in requirement:
            if name not in findings:
                findings[name] = await _verify(self._schemes[name], credentials)
            finding = findings[name]
            if not isinstance(finding, Proof):
                return None
            proofs[name] = finding
        return proofs

    def _turn_away(self, findings: Mapping[str, _Finding], lacking: frozenset[str] | None) -> Identity:
        """The error for a request that met no requirement; anonymous where that is allowed and nothing was wrong."""
        for finding in findings.values():
            if isinstance(finding, UnavailableError):
                raise finding
        if lacking:
            raise self._insufficient(lacking)
        if self._admits_anonymous and not any(isinstance(finding, Refused) for finding in findings.values()):
            return ANONYMOUS
        raise self._unauthenticated(findings)

    def _unauthenticated(self, findings: Mapping[str, _Finding]) -> UnauthenticatedError:
        """The 401 with a challenge for each scheme that could help, one for all that share a word such as Bearer."""
        parameters = dict[str, dict[str, str]]()
        for name in dict.fromkeys(name for requirement in self._demanding for name in requirement):
            finding = findings.get(name)
            if isinstance(finding, Proof):
                continue
            challenge = self._schemes[name].challenge
            merged = parameters.setdefault(challenge.scheme, {"realm": self._realm})
            if isinstance(finding, Refused) and challenge.scheme == "Bearer":  # RFC 6750 section 3.1
                merged["error"] = "invalid_token"
                if not finding.foreign or "error_description" not in merged:
                    merged["error_description"] = finding.reason
            for key, value in challenge.parameters.items():
                merged.setdefault(key, value)
        refused = any(isinstance(finding, Refused) for finding in findings.values())
        error = UnauthenticatedError("The credentials are not valid" if refused else None)
        challenges = tuple(str(Challenge(word, merged)) for word, merged in parameters.items())
        vars(error).update(challenges=challenges, refused=refused)
        return error

    def _insufficient(self, missing: frozenset[str]) -> PermissionDeniedError:
        scope = " ".join(sorted(missing))
        error = PermissionDeniedError(f"The caller lacks the scope: {scope}", details={"scope": scope})
        words = {self._schemes[name].challenge.scheme for requirement in self._demanding for name in requirement}
        if "Bearer" in words:  # the only scheme that has a word for it: RFC 6750 section 3.1
            parameters = {"realm": self._realm, "error": "insufficient_scope", "scope": scope}
            vars(error).update(challenges=(str(Challenge("Bearer", parameters)),))
        return error


# The dialects look an error up by its exact class, so these facts cannot live in a subclass of it.
def challenges_of(error: A2AError) -> tuple[str, ...]:
    """The `WWW-Authenticate` values that go with an error; none for errors that have nothing to do with security."""
    return vars(error).get("challenges", ())


def was_refused(error: A2AError) -> bool:
    """Whether the request brought credentials and they were bad, which is what somebody who guesses looks like."""
    return vars(error).get("refused", False)


def _check_names(schemes: Mapping[str, Scheme], requirements: Sequence[SecurityRequirement]) -> None:
    if not schemes:
        raise ValueError("Security needs at least one scheme; a server without any takes no Security at all")
    for name in schemes:
        if not _SCHEME_NAME.fullmatch(name):
            raise ValueError(f"The scheme name {name!r} may only have letters, digits, '.', '_' and '-'")
    if not requirements:
        raise ValueError("Without requirements nobody gets in; leave them out to accept any scheme, or add {}")
    for requirement in requirements:
        for name in requirement:
            if name not in schemes:
                raise ValueError(f"A requirement names the scheme {name!r}, which is not declared")


async def _verify(scheme: Scheme, credentials: PresentedCredentials) -> _Finding:
    """What the scheme found, with its errors as values: they count only if no requirement is met."""
    try:
        proof = await scheme.verify(credentials)
    except (Refused, UnavailableError) as finding:
        return finding
    if proof and not 0 < len(proof.subject) <= MAX_SUBJECT:
        return Refused("The subject is missing or too long")
    return proof


def _missing_scopes(requirement: SecurityRequirement, proofs: Mapping[str, Proof]) -> frozenset[str]:
    return frozenset(
        scope for name, scopes in requirement.items() for scope in scopes if scope not in proofs[name].scopes
    )


def _identify(proofs: Mapping[str, Proof]) -> Identity:
    """The caller that these proofs name together: all their scopes, one tenant, and of equal claims the first."""
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
