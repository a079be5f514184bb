"""People who log in with OpenID Connect: which issuers a host trusts, and what their users may do in which tenant.

The operator writes it in a TOML file, which docs/access.md shows: tables `[[issuers]]` with the URL of the issuer, the
audience and the claims to read; in each, tables `[[issuers.grants]]` with a tenant, a role and a group. A grant without
a group is for all users of the issuer. A person with grants in several tenants names one in the header `Parley-Tenant`.
The settings can be replaced while the host runs; a request that is being authenticated keeps those it began with.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Container, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from parley.host.access.principal import PRINCIPAL
from parley.host.access.scopes import Scope
from parley.host.data.roles import Grant, TenantRoles
from parley.host.origin import EXTERNAL
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.openid import OpenIdConnect
from parley.server.security.schemes.scheme import Proof, Refused

TENANT_HEADER = "parley-tenant"
MAX_NAME = 200
KEPT_SECONDS = 60.0
"""How long a removed issuer stays open for the requests that ask it: longer than it may take to answer."""


class PeopleSettingError(ParleyError):
    """The file with the issuers cannot be used."""


class PersonGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """What some users of an issuer may do in one tenant."""

    tenant: str
    role: str
    group: str | None = None


class TrustedIssuer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An issuer whose users may log in."""

    issuer: str
    audience: str
    name_claim: str = "sub"
    groups_claim: str = "groups"
    grants: tuple[PersonGrant, ...] = ()


class PeopleSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """All issuers that a host trusts."""

    issuers: tuple[TrustedIssuer, ...] = ()


def read_people_settings(file: Path) -> PeopleSettings:
    """The issuers in a TOML file. Raises PeopleSettingError."""
    try:
        settings = msgspec.convert(tomllib.loads(file.read_text("utf-8")), PeopleSettings)
    except OSError as error:
        raise PeopleSettingError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise PeopleSettingError(f"{file} is not valid: {error}") from error
    for number, issuer in enumerate(settings.issuers):
        if not issuer.grants:
            raise PeopleSettingError(f"{file}: $.issuers[{number}] has no grants, so that its users may do nothing")
    return settings


class People:
    """Identifies people by their tokens."""

    def __init__(self, settings: PeopleSettings, roles: TenantRoles) -> None:
        """Raises SettingError if an issuer is not an https URL."""
        self._roles = roles
        self._issuers: Sequence[tuple[TrustedIssuer, OpenIdConnect]] = ()
        self._closing: set[asyncio.Task[None]] = set()
        self._retired: list[OpenIdConnect] = []
        self.use(settings)

    def use(self, settings: PeopleSettings) -> None:
        """Trust these issuers from now on, in place of those before. Raises as the constructor does."""
        known = {(issuer.issuer, issuer.audience): scheme for issuer, scheme in self._issuers}
        before = [scheme for _, scheme in self._issuers]
        issuers: list[tuple[TrustedIssuer, OpenIdConnect]] = []
        for issuer in settings.issuers:
            kept = known.get((issuer.issuer, issuer.audience))  # with the keys that it has fetched
            issuers.append((issuer, kept or OpenIdConnect(issuer.issuer, issuer.audience)))
        self._issuers = tuple(issuers)
        used = [scheme for _, scheme in issuers]
        for scheme in before:
            if scheme not in used:
                self._retired.append(scheme)
                asyncio.get_running_loop().call_later(KEPT_SECONDS, self._close_retired, scheme)

    def _close_retired(self, scheme: OpenIdConnect) -> None:
        if scheme in self._retired:
            self._retired.remove(scheme)
            closing = asyncio.create_task(scheme.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    @property
    def issuers(self) -> tuple[str, ...]:
        """The URLs of the issuers."""
        return tuple([issuer.issuer for issuer, _ in self._issuers])

    async def useless_grants(self, tenants: Container[str]) -> Sequence[str]:
        """What is wrong with grants that give nothing: their tenant or their role is unknown."""
        found: list[str] = []
        for issuer, _ in self._issuers:
            for grant in issuer.grants:
                if grant.tenant not in tenants:
                    found.append(f"a grant of {issuer.issuer} names the tenant {grant.tenant!r}, which is unknown")
                elif not await self._roles.scopes_of(grant.tenant, Grant(role=grant.role)):
                    found.append(f"a grant of {issuer.issuer} names the role {grant.role!r}, which is unknown")
        return found

    async def verify(self, credentials: PresentedCredentials) -> Proof:
        """What a JWT proves.

        Raises:
            Refused: no issuer has issued it for this host, or its owner has no grant.
            UnavailableError: the issuer cannot be asked for its keys now.
        """
        refusal = Refused("The token is not valid")
        issuers = self._issuers
        for issuer, scheme in issuers:
            try:
                proof = await scheme.verify(credentials)
            except Refused as error:
                refusal = refusal if error.foreign else error
                continue
            if proof is not None:
                wanted = credentials.headers.get(TENANT_HEADER)
                return await self._admit(issuer, proof.claims, wanted, is_one_of_several=len(issuers) > 1)
        raise refusal

    async def _admit(
        self, issuer: TrustedIssuer, claims: JsonObject, wanted: str | None, *, is_one_of_several: bool
    ) -> Proof:
        groups = _groups(claims.get(issuer.groups_claim))
        grants = [grant for grant in issuer.grants if grant.group is None or grant.group in groups]
        tenants = list(dict.fromkeys([grant.tenant for grant in grants]))
        if wanted is not None:
            tenants = [tenant for tenant in tenants if tenant == wanted]
        if not tenants:
            raise Refused("The owner of this token has no access to this tenant")
        if len(tenants) > 1:
            raise Refused("The owner of this token has access to several tenants: name one in the header Parley-Tenant")
        (tenant,) = tenants
        scopes: frozenset[Scope] = frozenset()
        for grant in grants:
            if grant.tenant == tenant:
                scopes |= await self._roles.scopes_of(tenant, Grant(role=grant.role))
        name = _name(issuer, claims)
        if is_one_of_several:  # two issuers may call two people the same
            name = f"{name} ({urlsplit(issuer.issuer).netloc})"
        name = f"person:{tenant}/{name}"
        return Proof(tenant, frozenset(scopes), {EXTERNAL: True, PRINCIPAL: name}, tenant)

    async def close(self) -> None:
        """Close the connections to the issuers."""
        retired, self._retired = self._retired, []
        for scheme in dict.fromkeys([*retired, *(scheme for _, scheme in self._issuers)]):
            await scheme.close()


def _groups(value: JsonValue) -> frozenset[str]:
    values = [value] if isinstance(value, str) else value
    return frozenset([group for group in values if isinstance(group, str)] if isinstance(values, list) else [])


def _name(issuer: TrustedIssuer, claims: JsonObject) -> str:
    """The name of a person: an address that the issuer has not verified is not one."""
    name = claims.get(issuer.name_claim)
    is_unverified = issuer.name_claim == "email" and claims.get("email_verified") is False
    if not isinstance(name, str) or not name or is_unverified or not name.isprintable():
        name = quote(str(claims.get("sub")), safe="@/:|!*'()=,+ ")
    return name[:MAX_NAME]
