"""What an agent's capabilities let it do, and how a card shows them.

A capability is a command with its slash (`/fetch`), with or without arguments. Commands are granted in bundles: one
command of a bundle grants all of them. Other words (`research`) grant nothing; an agent
that has only such words has no commands.
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.host.commands.argument_checks import first_word

BUNDLES: dict[str, frozenset[str]] = {
    "web": frozenset({"fetch", "search", "browse"}),
    "exec": frozenset({"exec"}),
    "write": frozenset({"write"}),
    "read": frozenset({"read", "list", "map"}),
    "mem": frozenset({"mem"}),
    "delegation": frozenset({"agent", "parallel", "pane"}),
    "mcp": frozenset({"mcp"}),
    "a2a": frozenset({"a2a"}),
    "advise": frozenset({"advise"}),
    "todos": frozenset({"todo"}),
    "schedule": frozenset({"schedule"}),
    "lessons": frozenset({"lesson"}),
}
"""The commands that are granted together, by the name of the bundle."""

_SKILLS: dict[str, tuple[str, str]] = {
    "/fetch": ("fetch-url", "Fetches a URL and returns its text."),
    "/search": ("web-search", "Searches the web and returns ranked results."),
    "/browse": ("browse-page", "Opens a page in a browser and returns what it shows."),
    "/exec": ("shell-exec", "Runs a shell command in a sandbox."),
    "/write": ("write-file", "Creates or replaces a file."),
    "/read": ("read-file", "Reads a stored file."),
    "/list": ("list-files", "Lists the stored files."),
    "/map": ("workspace-map", "Shows the tree of the workspace."),
    "/mem": ("memory", "Reads and writes a memory that lasts across conversations."),
    "/mcp": ("mcp-tools", "Calls tools of MCP servers."),
    "/agent": ("delegate", "Delegates work to another agent."),
    "/parallel": ("parallel-fanout", "Delegates work to several agents at the same time."),
    "/advise": ("advisor-consult", "Asks an advisor model for a second opinion."),
    "/todo": ("todos", "Keeps track of work items."),
    "/schedule": ("schedule", "Runs work later or repeatedly."),
    "/lesson": ("lessons", "Remembers how past problems were solved."),
}


def is_allowed(capabilities: Sequence[str], command: str) -> bool:
    """Whether an agent with these capabilities may use a command, given without its slash.

    An agent without capabilities may use every command, and every agent may use `/help`.
    """
    if command == "help" or not capabilities:
        return True
    words = (first_word(capability)[0] for capability in capabilities)
    granted = {word[1:] for word in words if word.startswith("/")}
    return any(command in bundle and bundle & granted for bundle in BUNDLES.values())


def skill_of(capability: str) -> tuple[str, str]:
    """The id and the description of the skill by which a card shows a capability."""
    known = _SKILLS.get(first_word(capability)[0])
    return known or (capability.removeprefix("/").strip() or "capability", "A custom capability of this agent.")
