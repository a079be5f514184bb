"""The commands that work in this host: syntax, purpose and an example of each form, and the limits of a turn.

The prompt, `/help` and the errors about arguments all quote this table, so they cannot disagree. It holds no commands
that are only answered with an error.
"""

from __future__ import annotations

from msgspec import Struct

PER_TURN = {"fetch": 3, "search": 4, "advise": 2, "mcp": 16}
"""How often an agent may use a command in one turn. Further uses are skipped."""

MOST_COMMANDS = 64
"""How many commands an agent may use in one turn, agents of `/parallel` included. Further ones are skipped."""

MAX_WRITTEN_BYTES = 10 * 1024 * 1024
"""How much all files of one reply may hold."""

MAX_CHILDREN = 16
"""How many agents one `/parallel` may call."""

DEFAULT_SEARCH_RESULTS = 10
MAX_SEARCH_RESULTS = 20

MAX_EXPAND_DEPTH = 2

ENTRY_TYPES = ("user", "feedback", "project", "reference", "learning", "context")
"""The types of memory entries."""

RELATIONS = ("relates_to", "refines", "contradicts", "supersedes", "supports")
"""How one memory entry may relate to another."""


class CommandForm(Struct, frozen=True):
    """One way to use a command."""

    syntax: str
    purpose: str
    """What it does, as a sentence without its full stop."""
    example: str


FORMS: dict[str, CommandForm] = {
    "agent": CommandForm(
        "/agent <agent id> <message>",
        "Ask another agent; the message is one line and must say everything that the agent needs",
        "/agent currency Convert 100 USD to EUR",
    ),
    "parallel": CommandForm(
        "/parallel … /endparallel",
        f"Ask up to {MAX_CHILDREN} agents at the same time, with one /agent line each",
        "/parallel\n/agent currency Convert 100 USD to EUR\n/agent dates Days until 2030-01-01\n/endparallel",
    ),
    "a2a list": CommandForm("/a2a list", "List the remote agents", "/a2a list"),
    "a2a card": CommandForm("/a2a card <name>", "Show the card of a remote agent", "/a2a card travel"),
    "a2a call": CommandForm(
        "/a2a call <name> <message>",
        "Ask a remote agent; it sees nothing but this one-line message",
        "/a2a call travel Trains from Berlin to Prague on Friday",
    ),
    "mcp tools": CommandForm(
        "/mcp tools [<server>]", "List the tools of all MCP servers, or of one, with what they take", "/mcp tools time"
    ),
    "mcp call": CommandForm(
        "/mcp call <server> <tool> [<arguments>]",
        "Call a tool of an MCP server; its arguments are one JSON object on the same line",
        '/mcp call time get_current_time {"timezone": "Europe/Berlin"}',
    ),
    "search": CommandForm(
        "/search <query> [top=N]",
        f"Search the web for N results (1 to {MAX_SEARCH_RESULTS}, by default {DEFAULT_SEARCH_RESULTS})",
        "/search agent2agent protocol specification top=5",
    ),
    "fetch": CommandForm("/fetch <url>", "Get the text of a web page", "/fetch https://example.com/"),
    "write": CommandForm(
        "/write [--persist] <path> … /endwrite",
        "Write a file for the user; --persist also keeps it in the conversation",
        "/write --persist notes/plan.md\n# Plan\n1. Ask the user.\n/endwrite",
    ),
    "read": CommandForm(
        "/read <path> | /read #<artifact id> [via=mem:<entry id>]",
        "Read a kept file; via= reads one of another conversation that a memory entry names",
        "/read notes/plan.md",
    ),
    "list": CommandForm("/list", "List the kept files of the conversation", "/list"),
    "mem read": CommandForm("/mem read", "Show your scratchpad", "/mem read"),
    "mem show": CommandForm("/mem show", "The same as /mem read", "/mem show"),
    "mem write": CommandForm(
        "/mem write <text>", "Add a line to your scratchpad", "/mem write The user prefers short answers"
    ),
    "mem clear": CommandForm("/mem clear", "Empty your scratchpad", "/mem clear"),
    "mem shared": CommandForm(
        "/mem shared read | /mem shared write <text> | /mem shared clear",
        "Use the scratchpad that all agents share",
        "/mem shared write The budget is 500 EUR",
    ),
    "mem entries": CommandForm(
        "/mem entries [<type>,<type>…] [tag=<tag>]",
        f"List memory entries; types: {', '.join(ENTRY_TYPES)}",
        "/mem entries project,reference tag=pricing",
    ),
    "mem entry": CommandForm("/mem entry <id>", "Show one memory entry", "/mem entry 42"),
    "mem search": CommandForm(
        "/mem search <query> [--rerank]",
        "Search the memory entries; --rerank lets the advisor model order the results",
        "/mem search hosting prices",
    ),
    "mem expand": CommandForm(
        "/mem expand <id> [depth=N]",
        f"Show the entries that are linked to one, N links away (1 to {MAX_EXPAND_DEPTH}, by default 1)",
        "/mem expand 42 depth=2",
    ),
    "mem density": CommandForm("/mem density <id>", "Count the links around an entry", "/mem density 42"),
    "mem add entry": CommandForm(
        "/mem add entry <type> <title> [--artifact #<id>] [--supersedes #<id>,#<id>…] … /endmem",
        "Remember a fact; the lines up to /endmem are its content and are required",
        "/mem add entry reference Hosting prices\nThe small plan costs 5 EUR a month.\n/endmem",
    ),
    "mem add link": CommandForm(
        "/mem add link <id> <relation> <id>",
        f"Link two entries; relations: {', '.join(RELATIONS)}",
        "/mem add link 42 supports 17",
    ),
    "mem invalidate": CommandForm("/mem invalidate <id>", "Mark an entry as no longer true", "/mem invalidate 42"),
    "advise": CommandForm(
        "/advise <question>",
        "Ask the advisor model; it sees nothing but the question",
        "/advise Is it safe to retry a payment that timed out?",
    ),
    "help": CommandForm("/help [<command>]", "Explain the commands, or one of them", "/help mem"),
}
"""The forms of all commands in the order of the prompt, by their leading words without the slash."""
