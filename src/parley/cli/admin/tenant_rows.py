"""Commands about tenants. They need the admin token."""

from __future__ import annotations

from parley.cli.admin.command import AdminArgument, AdminCommand, AdminOption, Target

TENANT = AdminArgument("id", "The tenant's id.")

COMMANDS = (
    AdminCommand(
        words=("tenants", "list"),
        help="List all tenants.",
        example="tenants list",
        method="GET",
        path="/v1/admin/tenants",
        rows="tenants",
        columns=("id", "name", "disabled", "created_at", "last_used_at"),
    ),
    AdminCommand(
        words=("tenants", "show"),
        help="Show a tenant with its quotas and settings.",
        example="tenants show 1",
        method="GET",
        path="/v1/admin/tenants/{id}",
        arguments=(TENANT,),
    ),
    AdminCommand(
        words=("tenants", "create"),
        help="Create a tenant. Its token is shown only now.",
        example="tenants create acme",
        method="POST",
        path="/v1/admin/tenants",
        arguments=(AdminArgument("name", "The name of the tenant.", member="name"),),
    ),
    AdminCommand(
        words=("tenants", "change"),
        help="Change a tenant. Disabling it stops its work at once.",
        example="tenants change 1 --tokens-per-day 1000000 --disabled",
        method="PATCH",
        path="/v1/admin/tenants/{id}",
        arguments=(TENANT,),
        options=(
            AdminOption("name", "Another name.", metavar="NAME"),
            AdminOption("disabled", "Refuse the tenant's requests, or take them again.", type=bool),
            AdminOption("requests-per-minute", "Quota: requests per minute.", int, "N", "quotas.requests_per_minute"),
            AdminOption(
                "concurrent-requests", "Quota: requests at the same time.", int, "N", "quotas.concurrent_requests"
            ),
            AdminOption("tokens-per-day", "Quota: tokens of models per day.", int, "N", "quotas.tokens_per_day"),
            AdminOption("storage-bytes", "Quota: bytes in files and memories.", int, "N", "quotas.storage_bytes"),
            AdminOption("schedules", "Quota: how many schedules.", int, "N", "quotas.schedules"),
            AdminOption(
                "schedule-interval-seconds",
                "Quota: the shortest time between two ticks of a schedule.",
                int,
                "N",
                "quotas.schedule_interval_seconds",
            ),
            AdminOption("file-parts", "Take files and data over A2A.", bool, member="settings.file_parts"),
            AdminOption("push-notifications", "Take webhooks.", bool, member="settings.push_notifications"),
            AdminOption("input-required", "Let agents ask questions.", bool, member="settings.input_required"),
            AdminOption("retention-days", "Delete finished tasks after N days.", int, "N", "settings.retention_days"),
        ),
    ),
    AdminCommand(
        words=("tenants", "rotate-token"),
        help="Give a tenant a new token, which is shown only now.",
        example="tenants rotate-token 1 --overlap-seconds 3600",
        method="POST",
        path="/v1/admin/tenants/{id}/rotate-token",
        arguments=(TENANT,),
        options=(AdminOption("overlap-seconds", "How long the token before stays valid.", int, "N"),),
    ),
    AdminCommand(
        words=("audit", "all"),
        help="Read the audit of all tenants, newest first.",
        example="audit all --limit 20",
        method="GET",
        path="/v1/admin/audit",
        options=(
            AdminOption("limit", "How many entries.", int, "N", target=Target.QUERY),
            AdminOption("before-id", "Entries with smaller ids.", int, "N", target=Target.QUERY),
        ),
        rows="entries",
        columns=("id", "ts", "actor", "action", "target_kind", "target_id"),
    ),
)
