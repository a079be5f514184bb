"""Commands about the work of a tenant: its queue, approvals and MCP servers, and what it costs."""

from __future__ import annotations

from parley.cli.admin.command import WHOLE_BODY, AdminArgument, AdminCommand, AdminOption, Target

LIMIT = AdminOption("limit", "How many.", int, "N", target=Target.QUERY)
PERIOD = (
    AdminOption("from", "The first day: 2026-11-01.", metavar="DATE", target=Target.QUERY),
    AdminOption("to", "The last day; today if there is none.", metavar="DATE", target=Target.QUERY),
)
GROUP_BY = AdminOption(
    "group-by",
    "What a row stands for, with commas: day, agent, caller, model, conversation; of all tenants also tenant.",
    metavar="NAMES",
    target=Target.QUERY,
)
REPORT = (*PERIOD, GROUP_BY, LIMIT, AdminOption("offset", "Skip so many rows.", int, "N", target=Target.QUERY))
SUMS = ("day", "agent", "caller", "model", "calls", "input_tokens", "output_tokens", "cost")
TENANT = AdminArgument("id", "The tenant's id.")
SERVER = AdminArgument("id", "The server's name.")
APPROVAL = AdminArgument("id", "The approval's id, as approvals list shows it.")
BUDGETS = AdminArgument("budgets", "JSON, or @ and a file with it.", WHOLE_BODY, is_json=True)

COMMANDS = (
    AdminCommand(
        words=("queue", "list"),
        help="List the requests of a tenant that are at work or wait.",
        example="queue list --tenant 1",
        method="GET",
        path="/v1/queue",
        options=(LIMIT, AdminOption("after-position", "Those behind this one.", int, "N", target=Target.QUERY)),
        rows="entries",
        columns=("request_id", "agent_id", "state", "position", "priority", "principal", "created_at"),
    ),
    AdminCommand(
        words=("queue", "move"),
        help="Change the priority of a request that waits.",
        example="queue move 8f14e45fceea167a --priority high --tenant 1",
        method="PATCH",
        path="/v1/queue/{id}",
        arguments=(AdminArgument("id", "The request's id."),),
        options=(
            AdminOption(
                "priority",
                "low, normal, high, or a number from 0 to 9.",
                metavar="PRIORITY",
                is_required=True,
                is_word_or_number=True,
            ),
        ),
    ),
    AdminCommand(
        words=("queue", "all"),
        help="Count the requests of all tenants that are at work or wait.",
        example="queue all",
        method="GET",
        path="/v1/admin/queue",
        rows="tenants",
        columns=("tenant_id", "waiting", "running"),
    ),
    AdminCommand(
        words=("approvals", "list"),
        help="List what waits for approval, or was decided.",
        example="approvals list --state pending --tenant 1",
        method="GET",
        path="/v1/approvals",
        options=(
            AdminOption("state", "pending or decided.", metavar="STATE", target=Target.QUERY),
            AdminOption("agent", "Of this agent.", metavar="ID", target=Target.QUERY),
            LIMIT,
            AdminOption("cursor", "The next_cursor of the page before.", target=Target.QUERY),
        ),
        rows="approvals",
        columns=("id", "state", "agent", "on", "action", "requested_by", "expires_at"),
    ),
    AdminCommand(
        words=("approvals", "show"),
        help="Show what an approval is about.",
        example="approvals show 4f1c… --tenant 1",
        method="GET",
        path="/v1/approvals/{id}",
        arguments=(APPROVAL,),
    ),
    AdminCommand(
        words=("approvals", "decide"),
        help="Approve something, or deny it.",
        example="approvals decide 4f1c… approve --comment 'as agreed' --tenant 1",
        method="POST",
        path="/v1/approvals/{id}",
        arguments=(APPROVAL, AdminArgument("decision", "approve or deny.", "decision")),
        options=(AdminOption("comment", "Why."),),
    ),
    AdminCommand(
        words=("approvals", "rules"),
        help="Show the rules of a tenant, which all its agents have.",
        example="approvals rules --tenant 1",
        method="GET",
        path="/v1/approval_rules",
    ),
    AdminCommand(
        words=("approvals", "set-rules"),
        help="Replace the rules of a tenant.",
        example="""approvals set-rules '[{"on": "command", "match": ["write"]}]' --tenant 1""",
        method="PUT",
        path="/v1/approval_rules",
        arguments=(AdminArgument("rules", "JSON, or @ and a file with it.", "rules", is_json=True),),
    ),
    AdminCommand(
        words=("mcp", "list"),
        help="List the MCP servers of a tenant, with their state.",
        example="mcp list --tenant 1",
        method="GET",
        path="/v1/mcp/servers",
        rows="servers",
        columns=("name", "source", "transport", "status.state", "status.last_error", "url"),
    ),
    AdminCommand(
        words=("mcp", "show"),
        help="Show an MCP server with its tools.",
        example="mcp show time --tenant 1",
        method="GET",
        path="/v1/mcp/servers/{id}",
        arguments=(SERVER,),
    ),
    AdminCommand(
        words=("mcp", "set"),
        help="Add an MCP server, or change it.",
        example="mcp set search --url https://mcp.example.com/mcp --tool search --tenant 1",
        method="PUT",
        path="/v1/mcp/servers/{id}",
        arguments=(SERVER,),
        options=(
            AdminOption("url", "Its URL.", metavar="URL", is_required=True),
            AdminOption("headers", "Headers: JSON, or @ and a file with it.", metavar="JSON", is_json=True),
            AdminOption("description", "What it is for."),
            AdminOption("tool", "Offer this tool only; repeatable.", list[str], "NAME", "tools"),
            AdminOption("timeout-seconds", "How long a call may take.", float, "N"),
            AdminOption("max-result-bytes", "How long a result may be.", int, "N"),
            AdminOption("identity", "Tell the server who calls.", bool),
            AdminOption("revision", "Change nothing if it has another revision.", int, "N"),
        ),
    ),
    AdminCommand(
        words=("mcp", "delete"),
        help="Delete an MCP server.",
        example="mcp delete search --tenant 1",
        method="DELETE",
        path="/v1/mcp/servers/{id}",
        arguments=(SERVER,),
    ),
    AdminCommand(
        words=("budgets", "show"),
        help="Show the budgets of a tenant, and what is left of them.",
        example="budgets show --tenant 1",
        method="GET",
        path="/v1/budgets",
    ),
    AdminCommand(
        words=("budgets", "set"),
        help="Replace the budgets that a tenant sets itself.",
        example="budgets set @budgets.json --tenant 1",
        method="PUT",
        path="/v1/budgets",
        arguments=(BUDGETS,),
    ),
    AdminCommand(
        words=("tenants", "budgets"),
        help="Show the budgets of a tenant, and what is left of them.",
        example="tenants budgets 1",
        method="GET",
        path="/v1/admin/tenants/{id}/budgets",
        arguments=(TENANT,),
    ),
    AdminCommand(
        words=("tenants", "set-budgets"),
        help="Replace the budgets that the operator sets for a tenant.",
        example="tenants set-budgets 1 @budgets.json",
        method="PUT",
        path="/v1/admin/tenants/{id}/budgets",
        arguments=(TENANT, BUDGETS),
    ),
    AdminCommand(
        words=("usage", "report"),
        help="Report what a tenant has used.",
        example="usage report --from 2026-11-01 --group-by day,agent --tenant 1",
        method="GET",
        path="/v1/usage",
        options=REPORT,
        rows="rows",
        columns=SUMS,
    ),
    AdminCommand(
        words=("usage", "all"),
        help="Report what all tenants have used.",
        example="usage all --group-by tenant,model",
        method="GET",
        path="/v1/admin/usage",
        options=REPORT,
        rows="rows",
        columns=("tenant", *SUMS),
    ),
    AdminCommand(
        words=("tenants", "usage"),
        help="Report what a tenant has used, by agent and model.",
        example="tenants usage 1 --from 2026-11-01",
        method="GET",
        path="/v1/admin/tenants/{id}/usage",
        arguments=(TENANT,),
        options=PERIOD,
        rows="rows",
        columns=("agent", "model", "calls", "input_tokens", "output_tokens", "cost"),
    ),
)
