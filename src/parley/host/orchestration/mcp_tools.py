"""`/mcp`: the tools of MCP servers, listed and called for an agent, and offered to models that can call functions.

A call is a step, so that a run that begins again does not repeat it once it was recorded. Files in its result go to the
caller, as those of `/write` do. What servers say is data for the model, in the frame of every result.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

import msgspec

from parley.host.commands.capabilities import is_allowed
from parley.host.commands.mcp_arguments import CallMcpTool, ListMcpTools, parse_mcp
from parley.host.commands.mcp_listing import tools_text
from parley.host.commands.syntax import Command
from parley.host.commands.usage import MAX_WRITTEN_BYTES
from parley.host.mcp.allowance import ToolAllowance
from parley.host.mcp.errors import McpToolError
from parley.host.mcp.results import ToolOutput
from parley.host.mcp.roster import ToolCaller
from parley.host.mcp.tools import McpTool, compact_schema
from parley.host.models.model import ModelTool
from parley.host.orchestration.turn_context import ToolResult, TurnContext

logger = logging.getLogger(__name__)

MAX_MODEL_TOOLS = 64
"""Tools that a model is offered as functions. Providers allow 128, and models choose worse between many."""

MAX_MODEL_TOOL_BYTES = 48 * 1024
"""Of all of them as JSON: every call of the model pays for them."""

MAX_TAKES = 400
"""Characters that a list shows of what a tool takes."""

_NOT_IN_FUNCTION_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_FUNCTION_NAME = 64


@dataclass(frozen=True, slots=True)
class _ToolLine:
    server: str
    name: str
    description: str
    takes: str


async def run_mcp_command(context: TurnContext, command: Command, step: str) -> ToolResult:
    """Run `/mcp`. Raises CommandSyntaxError."""
    match parse_mcp(command):
        case ListMcpTools(server=server):
            return await _list(context, server, step)
        case CallMcpTool() as call:
            return await _call(context, call, step)


async def _list(context: TurnContext, server: str, step: str) -> ToolResult:
    roster, allowance = context.services.mcp, _allowance(context)

    async def tools_of(name: str) -> tuple[Sequence[McpTool], str]:
        try:
            return await roster.tools(context.tenant, allowance, name), ""
        except McpToolError as error:
            if server:
                raise
            return (), error.message

    async def list_tools() -> str:
        names = [server] if server else [
            name for name in await roster.server_names(context.tenant) if allowance.has_server(name)
        ]  # fmt: skip
        found = await asyncio.gather(*map(tools_of, names))  # at once: each may take as long as its timeout
        text = await asyncio.to_thread(_listed, [tool for tools, _ in found for tool in tools])
        return "\n".join(filter(None, [text, *[problem for _, problem in found]])) or "(none)"

    return await context.step(step, list_tools)


def _listed(tools: Sequence[McpTool]) -> str:
    return tools_text(
        [
            _ToolLine(tool.server, tool.name, tool.description, compact_schema(tool.input_schema, MAX_TAKES))
            for tool in tools
        ]
    )


async def _call(context: TurnContext, call: CallMcpTool, step: str) -> ToolResult:
    caller = ToolCaller(context.tenant, context.lineage.principal)

    async def do():  # without annotations, which would be evaluated for every step
        try:
            output = await context.services.mcp.call(
                caller, _allowance(context), call.server, call.tool, call.arguments
            )
        except McpToolError as error:
            output = ToolOutput(error.message, ok=False)
        except Exception:  # here a command ends
            logger.exception("Task %s: the command %s failed", context.turn.task_id, step)
            output = ToolOutput("The command failed; the host's log says why.", ok=False)
        return msgspec.to_builtins(output)

    output = msgspec.convert(await context.turn.step(step, do), ToolOutput)
    return ToolResult(output.text + await _give_files(context, output), output.ok)


async def _give_files(context: TurnContext, output: ToolOutput) -> str:
    """Give the files of a result to the caller, as far as a turn may have files. What is to be said of it."""
    left_out: list[str] = []
    for file in output.files:
        if context.narration.files_bytes + len(file.data) > MAX_WRITTEN_BYTES:
            left_out.append(file.name)
        else:
            await context.narration.file(file.name, file.data, file.media_type)
    if not left_out:
        return ""
    return (
        f"\n[not given to the user, because a turn may have {MAX_WRITTEN_BYTES} bytes of files: {', '.join(left_out)}]"
    )


def _allowance(context: TurnContext) -> ToolAllowance:
    return ToolAllowance(context.constitution.mcp)


# --- as functions of models -------------------------------------------------------------------------------------------


async def model_tools(context: TurnContext) -> tuple[ModelTool, ...]:
    """The tools that the agent's model may call as functions, as far as they are known within a short time."""
    if not is_allowed(context.constitution.capabilities, "mcp"):
        return ()
    tools = await context.services.mcp.ready_tools(context.tenant, _allowance(context))
    return await asyncio.to_thread(as_functions, tools)  # to check that schemas are valid takes seconds at worst


def as_functions(tools: Sequence[McpTool]) -> tuple[ModelTool, ...]:
    """Tools as functions with names of their own, as many as a model may have."""
    functions: dict[str, ModelTool] = {}
    room = MAX_MODEL_TOOL_BYTES
    for tool in tools:
        if len(functions) == MAX_MODEL_TOOLS:
            break
        name = _function_name(f"{tool.server}__{tool.name}", functions.keys())
        function = ModelTool(name, tool.description, tool.input_schema, f"/mcp call {tool.server} {tool.name}")
        size = len(msgspec.json.encode(function))
        if size <= room and tool.arguments.is_valid():  # a provider would refuse the whole call
            functions[name] = function
            room -= size
    return tuple(functions.values())


def _function_name(wanted: str, taken: Container[str]) -> str:
    name = _NOT_IN_FUNCTION_NAMES.sub("_", wanted)[:_LONGEST_FUNCTION_NAME]
    number = 2
    while name in taken:
        suffix = f"_{number}"
        name = f"{name[: _LONGEST_FUNCTION_NAME - len(suffix)]}{suffix}"
        number += 1
    return name
