"""What a command is to the rules for approvals: a command, a delegation to agents, a tool of an MCP server.

Only what a command would really do counts: it is parsed as the code that runs it does. A command that cannot be parsed
needs no approval, because it does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.host.approval_rules import ApprovalRule, Demand, RuleKind, all_demands, demand_for_step
from parley.host.commands.argument_checks import CommandSyntaxError
from parley.host.commands.arguments import CallRemoteAgent, parse_a2a, parse_agent, parse_parallel
from parley.host.commands.mcp_arguments import CallMcpTool, parse_mcp
from parley.host.commands.syntax import Command

REMOTE = "remote:"
"""What stands before the names of remote agents."""


def demand_for_command(
    rules: Sequence[ApprovalRule], command: Command
) -> tuple[RuleKind, tuple[str, ...], Demand] | None:
    """What rules demand of a command, as what, and for which names; None if it needs no approval."""
    if not rules:
        return None
    try:
        kind, names = _subject(command)
    except CommandSyntaxError:
        return None
    demand = all_demands(
        demand_for_step(rules, "command", (command.name,)),
        demand_for_step(rules, kind, names) if kind != "command" else None,
    )
    return None if demand is None else (kind, names, demand)


def _subject(command: Command) -> tuple[RuleKind, tuple[str, ...]]:
    """The kind and the names of a command. Raises CommandSyntaxError."""
    match command.name:
        case "agent":
            return "delegate", (parse_agent(command).agent_id,)
        case "parallel":
            return "delegate", tuple([call.agent_id for call in parse_parallel(command)])
        case "a2a":
            wanted = parse_a2a(command)
            if isinstance(wanted, CallRemoteAgent):
                return "delegate", (REMOTE + wanted.name,)
        case "mcp":
            called = parse_mcp(command)
            if isinstance(called, CallMcpTool):
                return "tool", (f"{called.server}/{called.tool}",)
        case _:
            pass
    return "command", (command.name,)
