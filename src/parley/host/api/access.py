"""Access: the tokens, service accounts and roles of a tenant, its audit, and what the caller's own token allows.

A caller can give away only what its own token allows. The text of a token is shown once, in the reply that creates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from parley.host.access.scopes import Scope
from parley.host.api.query_parameters import LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.data.access_tokens import AccessToken
from parley.host.data.audit import DEFAULT_PAGE, MAX_PAGE, AuditEntry
from parley.host.data.roles import AccessRole, Grant
from parley.host.data.service_accounts import ServiceAccount
from parley.host.errors import PathNotFound
from parley.server.security.resource_metadata import RESOURCE_METADATA_PATH, ResourceMetadata

AUDIT_LIMIT = LimitParameter(default=DEFAULT_PAGE, most=MAX_PAGE)
AUDIT_BEFORE = NumberParameter("before_id", "Entries with smaller ids.")

_Scopes = Annotated[tuple[Scope, ...], Meta(max_length=len(Scope))]


class OwnAccessView(Struct, frozen=True):
    """The caller's own token."""

    principal: str
    tenant_id: int
    scopes: Sequence[Scope]


class NewAccessToken(Struct, frozen=True, kw_only=True):
    """A token to create: with a role, with scopes, or with what its service account may do."""

    name: str
    role: str = ""
    scopes: _Scopes = ()
    account: str = ""
    expires_in_seconds: int | None = None


class AccessTokenView(Struct, frozen=True, kw_only=True):
    """A token, without its text. Times are seconds since 1970."""

    id: str
    name: str
    role: str
    scopes: Sequence[Scope]
    """The scopes that it was given; those of a role and of an account are looked up when it is used."""
    account: str
    created_at: int
    created_by: str
    expires_at: int | None


class AccessTokenText(AccessTokenView, frozen=True, kw_only=True):
    """A token with its text, which is shown only once."""

    token: str


class AccessTokenList(Struct, frozen=True):
    """The tokens of the tenant, newest first."""

    tokens: Sequence[AccessTokenView]


class AccessTokenRotation(Struct, frozen=True):
    """How a token is replaced."""

    overlap_seconds: int = 0
    """How long the token before stays valid."""


class RoleInput(Struct, frozen=True):
    """What a role allows."""

    scopes: _Scopes


class RoleList(Struct, frozen=True):
    """The built-in roles, then those of the tenant."""

    roles: Sequence[AccessRole]


class AccountInput(Struct, frozen=True, kw_only=True):
    """A service account: what it may do."""

    role: str = ""
    scopes: _Scopes = ()
    description: str = ""
    disabled: bool = False


class AccountList(Struct, frozen=True):
    """The service accounts of the tenant."""

    accounts: Sequence[ServiceAccount]


class AccessDeleted(Struct, frozen=True):
    """What a deletion answers."""

    deleted: bool = True


class TenantAuditPage(Struct, frozen=True):
    """Entries of the tenant, newest first. `next_before_id` is where to go on; null: there are no more."""

    entries: Sequence[AuditEntry]
    next_before_id: int | None


# --- the caller -------------------------------------------------------------------------------------------------------


async def show_caller(call: ApiCall[None]) -> Answer:
    """What the caller's token allows."""
    return Answer(OwnAccessView(call.actor, int(call.tenant.id), sorted(call.principal.scopes)))


async def show_audit(call: ApiCall[None]) -> Answer:
    """The audit of the tenant."""
    entries, following = await call.host.audit.list_of(
        call.tenant.id, call.query(AUDIT_BEFORE), call.query(AUDIT_LIMIT)
    )
    return Answer(TenantAuditPage(entries, following))


async def show_resource_metadata(call: ApiCall[None]) -> Answer:
    """Where people get tokens for this host: protected resource metadata of RFC 9728."""
    people = call.host.people
    if people is None:
        raise PathNotFound
    return Answer(ResourceMetadata(call.request.base_url, people.issuers, scopes_supported=tuple(Scope)))


# --- tokens -----------------------------------------------------------------------------------------------------------


async def list_tokens(call: ApiCall[None]) -> Answer:
    """The tokens of the tenant."""
    return Answer(AccessTokenList([_view(token) for token in await call.host.access_tokens.list(call.tenant.id)]))


async def create_token(call: ApiCall[NewAccessToken]) -> Answer:
    """Create a token."""
    body = call.body
    grant = Grant(body.role, body.scopes) if body.role or body.scopes or not body.account else None
    token, text = await call.host.access_tokens.create(
        body.name, grant, by=call.principal, account=body.account, lifetime_seconds=body.expires_in_seconds
    )
    return Answer(_with_text(token, text), 201)


async def rotate_access_token(call: ApiCall[AccessTokenRotation]) -> Answer:
    """Replace a token."""
    token, text = await call.host.access_tokens.rotate(call.path["id"], call.body.overlap_seconds, by=call.principal)
    return Answer(_with_text(token, text), 201)


async def revoke_token(call: ApiCall[None]) -> Answer:
    """Revoke a token."""
    await call.host.access_tokens.revoke(call.path["id"], by=call.principal)
    return Answer(AccessDeleted())


def _view(token: AccessToken) -> AccessTokenView:
    grant = token.grant or Grant()
    return AccessTokenView(
        id=token.id,
        name=token.name,
        role=grant.role,
        scopes=grant.scopes,
        account=token.account,
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
    )


def _with_text(token: AccessToken, text: str) -> AccessTokenText:
    view = _view(token)
    return AccessTokenText(**{name: getattr(view, name) for name in AccessTokenView.__struct_fields__}, token=text)


# --- roles and accounts -----------------------------------------------------------------------------------------------


async def list_roles(call: ApiCall[None]) -> Answer:
    """The roles that tokens and accounts can have."""
    return Answer(RoleList(await call.host.roles.list(call.tenant.id)))


async def put_role(call: ApiCall[RoleInput]) -> Answer:
    """Define a role, or change it."""
    role = await call.host.roles.put(call.path["id"], call.body.scopes, by=call.principal)
    call.host.access_tokens.forget()
    return Answer(role)


async def delete_role(call: ApiCall[None]) -> Answer:
    """Delete a role."""
    await call.host.roles.delete(call.path["id"], by=call.principal)
    call.host.access_tokens.forget()
    return Answer(AccessDeleted())


async def list_accounts(call: ApiCall[None]) -> Answer:
    """The service accounts of the tenant."""
    return Answer(AccountList(await call.host.accounts.list(call.tenant.id)))


async def put_account(call: ApiCall[AccountInput]) -> Answer:
    """Create a service account, or change it."""
    body = call.body
    account = await call.host.accounts.put(
        call.path["id"],
        Grant(body.role, body.scopes),
        by=call.principal,
        description=body.description,
        disabled=body.disabled,
    )
    call.host.access_tokens.forget()
    return Answer(account)


async def delete_account(call: ApiCall[None]) -> Answer:
    """Delete a service account and refuse its tokens."""
    await call.host.accounts.delete(call.path["id"], by=call.principal)
    call.host.access_tokens.forget()
    return Answer(AccessDeleted())


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/access/me",
        handler=show_caller,
        needs_scope=False,
        summary="Read what the caller's token allows",
        replies=[ApiReply(OwnAccessView)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/access/tokens",
        handler=list_tokens,
        scope=Scope.MANAGE,
        summary="List the tokens",
        replies=[ApiReply(AccessTokenList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/access/tokens",
        handler=create_token,
        summary="Create a token",
        description="With a role, with scopes, or for a service account. Its text is shown only in this reply.",
        body=BodyReader(NewAccessToken),
        replies=[ApiReply(AccessTokenText, 201)],
        errors=[400, 403, 404, 409],
    ),
    ApiRoute(
        method="POST",
        path="/v1/access/tokens/{id}/rotate",
        handler=rotate_access_token,
        summary="Replace a token",
        description="The new token allows the same. The one before stays valid for the overlap.",
        body=BodyReader(AccessTokenRotation, is_optional=True),
        replies=[ApiReply(AccessTokenText, 201)],
        errors=[400, 403, 404],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/access/tokens/{id}",
        handler=revoke_token,
        summary="Revoke a token",
        replies=[ApiReply(AccessDeleted)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/access/roles",
        handler=list_roles,
        summary="List the roles",
        replies=[ApiReply(RoleList)],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/access/roles/{id}",
        handler=put_role,
        summary="Define a role",
        body=BodyReader(RoleInput),
        replies=[ApiReply(AccessRole)],
        errors=[400, 403, 409],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/access/roles/{id}",
        handler=delete_role,
        summary="Delete a role",
        replies=[ApiReply(AccessDeleted)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/access/accounts",
        handler=list_accounts,
        scope=Scope.MANAGE,
        summary="List the service accounts",
        replies=[ApiReply(AccountList)],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/access/accounts/{id}",
        handler=put_account,
        summary="Create or change a service account",
        body=BodyReader(AccountInput),
        replies=[ApiReply(ServiceAccount)],
        errors=[400, 403, 409],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/access/accounts/{id}",
        handler=delete_account,
        summary="Delete a service account",
        replies=[ApiReply(AccessDeleted)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/audit",
        handler=show_audit,
        scope=Scope.AUDIT,
        summary="Read the tenant's audit",
        query=[AUDIT_BEFORE, AUDIT_LIMIT],
        replies=[ApiReply(TenantAuditPage)],
        errors=[400],
    ),
    ApiRoute(
        method="GET",
        path=RESOURCE_METADATA_PATH,
        handler=show_resource_metadata,
        auth=Auth.NONE,
        summary="Read where people get tokens",
        replies=[ApiReply(ResourceMetadata)],
        errors=[404],
    ),
)
