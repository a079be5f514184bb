"""Commands about the tokens, accounts, roles and the audit of one tenant."""

from __future__ import annotations

from parley.cli.admin.command import AdminArgument, AdminCommand, AdminOption, Target

NAME = AdminArgument("id", "The name.")
TOKEN = AdminArgument("id", "The token's id, as tokens list shows it.")
ROLE = AdminOption("role", "What it may do: a role, as roles list shows them.", metavar="ROLE")
SCOPES = AdminOption(
    "scope", "What it may do: call, read, manage, approve or audit; repeatable.", list[str], "SCOPE", "scopes"
)

COMMANDS = (
    AdminCommand(
        words=("tokens", "me"),
        help="Show who the token belongs to and what it allows.",
        example="tokens me",
        method="GET",
        path="/v1/access/me",
    ),
    AdminCommand(
        words=("tokens", "list"),
        help="List the access tokens of a tenant.",
        example="tokens list --tenant 1",
        method="GET",
        path="/v1/access/tokens",
        rows="tokens",
        columns=("id", "name", "role", "scopes", "account", "created_by", "expires_at"),
    ),
    AdminCommand(
        words=("tokens", "create"),
        help="Create an access token. Its text is shown only now.",
        example="tokens create 'nightly tests' --role caller --expires-in-seconds 86400 --tenant 1",
        method="POST",
        path="/v1/access/tokens",
        arguments=(AdminArgument("name", "What it is for.", member="name"),),
        options=(
            ROLE,
            SCOPES,
            AdminOption("account", "The service account that it belongs to.", metavar="NAME"),
            AdminOption("expires-in-seconds", "When it expires.", int, "N"),
        ),
    ),
    AdminCommand(
        words=("tokens", "rotate"),
        help="Replace a token by a new one that allows the same.",
        example="tokens rotate k3x9p2ab7q1z --overlap-seconds 3600 --tenant 1",
        method="POST",
        path="/v1/access/tokens/{id}/rotate",
        arguments=(TOKEN,),
        options=(AdminOption("overlap-seconds", "How long the token before stays valid.", int, "N"),),
    ),
    AdminCommand(
        words=("tokens", "revoke"),
        help="Revoke a token at once.",
        example="tokens revoke k3x9p2ab7q1z --tenant 1",
        method="DELETE",
        path="/v1/access/tokens/{id}",
        arguments=(TOKEN,),
    ),
    AdminCommand(
        words=("accounts", "list"),
        help="List the service accounts of a tenant.",
        example="accounts list --tenant 1",
        method="GET",
        path="/v1/access/accounts",
        rows="accounts",
        columns=("name", "grant.role", "grant.scopes", "disabled", "created_by", "description"),
    ),
    AdminCommand(
        words=("accounts", "set"),
        help="Create a service account, or change it.",
        example="accounts set ci --role developer --tenant 1",
        method="PUT",
        path="/v1/access/accounts/{id}",
        arguments=(NAME,),
        options=(
            ROLE,
            SCOPES,
            AdminOption("description", "What it is."),
            AdminOption("disabled", "Refuse its tokens, or take them again.", type=bool),
        ),
    ),
    AdminCommand(
        words=("accounts", "delete"),
        help="Delete a service account. Its tokens are refused.",
        example="accounts delete ci --tenant 1",
        method="DELETE",
        path="/v1/access/accounts/{id}",
        arguments=(NAME,),
    ),
    AdminCommand(
        words=("roles", "list"),
        help="List the built-in roles and those of a tenant.",
        example="roles list --tenant 1",
        method="GET",
        path="/v1/access/roles",
        rows="roles",
        columns=("name", "scopes", "is_built_in"),
    ),
    AdminCommand(
        words=("roles", "set"),
        help="Define a role, or change it for all that have it.",
        example="roles set operator --scope read --scope manage --tenant 1",
        method="PUT",
        path="/v1/access/roles/{id}",
        arguments=(NAME,),
        options=(SCOPES,),
    ),
    AdminCommand(
        words=("roles", "delete"),
        help="Delete a role. What has it is allowed nothing any more.",
        example="roles delete operator --tenant 1",
        method="DELETE",
        path="/v1/access/roles/{id}",
        arguments=(NAME,),
    ),
    AdminCommand(
        words=("audit", "list"),
        help="Read the audit of a tenant, newest first.",
        example="audit list --tenant 1",
        method="GET",
        path="/v1/audit",
        options=(
            AdminOption("limit", "How many entries.", int, "N", target=Target.QUERY),
            AdminOption("before-id", "Entries with smaller ids.", int, "N", target=Target.QUERY),
        ),
        rows="entries",
        columns=("id", "ts", "actor", "action", "target_kind", "target_id"),
    ),
)
