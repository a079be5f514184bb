"""The arguments of `/mcp` as typed values. Whether there is such a server or tool is for the code that runs it."""

from __future__ import annotations

from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from parley.host.commands.argument_checks import first_word, misuse, unknown_subcommand
from parley.host.commands.syntax import Command
from parley.protocol.jsonvalue import JsonObject

MAX_ARGUMENT_BYTES = 256 * 1024
"""Of the arguments of one call: more than a model can write."""


class ListMcpTools(Struct, frozen=True):
    """`/mcp tools`; an empty name for all servers."""

    server: str = ""


class CallMcpTool(Struct, frozen=True):
    """`/mcp call`."""

    server: str
    tool: str
    arguments: JsonObject


McpCommand: TypeAlias = ListMcpTools | CallMcpTool


def parse_mcp(command: Command) -> McpCommand:
    """What `/mcp` asks for.

    Raises:
        CommandSyntaxError: the subcommand is unknown, or its arguments are missing, too many or not JSON.
    """
    subcommand, rest = first_word(command.args)
    server, rest = first_word(rest)
    match subcommand:
        case "tools" if not rest:
            return ListMcpTools(server)
        case "tools":
            raise misuse("mcp tools", "Only the name of one server may follow.")
        case "call":
            tool, text = first_word(rest)
            if not tool:
                raise misuse("mcp call", "The server and the tool are required.")
            return CallMcpTool(server, tool, _arguments(text))
        case _:
            raise unknown_subcommand(command)


def _arguments(text: str) -> JsonObject:
    if len(text.encode(errors="replace")) > MAX_ARGUMENT_BYTES:
        raise misuse("mcp call", f"The arguments may have {MAX_ARGUMENT_BYTES} bytes.")
    try:
        value: object = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise misuse("mcp call", f"The arguments are not JSON on one line: {error}.") from None
    if not isinstance(value, dict):
        raise misuse("mcp call", "The arguments must be a JSON object.")
    return cast("JsonObject", value)
