"""Runs the commands of a model's reply, one after the other, within the limits of a turn.

Each command that reads or changes something is a step, so that a run that begins again repeats none of them. What goes
wrong is a result for the model and never the end of the turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from parley.host.commands.argument_checks import CommandSyntaxError
from parley.host.commands.arguments import (
    CallRemoteAgent,
    ListRemoteAgents,
    ShowRemoteCard,
    parse_a2a,
    parse_advise,
    parse_agent,
    parse_fetch,
    parse_help,
    parse_parallel,
    parse_search,
)
from parley.host.commands.capabilities import is_allowed
from parley.host.commands.framing import ChildResult, ResultBlock, ResultStatus
from parley.host.commands.help_text import help_text
from parley.host.commands.syntax import Command
from parley.host.commands.usage import MOST_COMMANDS, PER_TURN
from parley.host.commands.web_search import hits_text
from parley.host.orchestration.advisor import consult
from parley.host.orchestration.approval import refusal_of_command
from parley.host.orchestration.file_tools import list_files, read_file, write_file
from parley.host.orchestration.mcp_tools import run_mcp_command
from parley.host.orchestration.memory_tools import run_memory_command
from parley.host.orchestration.sub_agents import call_agent, call_agents, call_remote
from parley.host.orchestration.turn_context import ToolResult, TurnContext
from parley.host.remote.card_text import describe_card
from parley.host.remote.roster import UnknownRemoteAgentError

Handle: TypeAlias = Callable[[TurnContext, Command, str], Awaitable[ResultBlock]]
"""Runs a command; the text is the name of its step."""

DELEGATIONS = ("agent", "parallel")
"""Their readers see the answers of the agents, so these are not reported as tool calls."""


async def run_command(context: TurnContext, command: Command, step: str) -> ResultBlock:
    """Run one command, and report it to the readers of the run."""
    block = await _run(context, command, step)
    if command.name not in DELEGATIONS:
        await context.narration.tool_call(_label(command), ok=block.status is ResultStatus.OK)
    return block


async def _run(context: TurnContext, command: Command, step: str) -> ResultBlock:
    handle = HANDLERS.get(command.name)
    if handle is None:
        return ResultBlock(command, f"/{command.name} is not available on this host.", ResultStatus.ERROR)
    if not is_allowed(context.constitution.capabilities, command.name):
        text = f"/{command.name} is not among the capabilities of this agent."
        return ResultBlock(command, text, ResultStatus.ERROR)
    context.commands += 1
    if context.commands > MOST_COMMANDS:
        text = f"A turn may have {MOST_COMMANDS} commands."
        return ResultBlock(command, text, ResultStatus.SKIPPED)
    most = PER_TURN.get(command.name)
    if most is not None:
        context.used[command.name] += 1
        if context.used[command.name] > most:
            text = f"/{command.name} may be used {most} times in a turn."
            return ResultBlock(command, text, ResultStatus.SKIPPED)
    refusal = await refusal_of_command(context, command, step)
    if refusal is not None:
        return ResultBlock(command, refusal, ResultStatus.ERROR)
    try:
        return await handle(context, command, step)
    except CommandSyntaxError as error:
        return ResultBlock(command, error.message, ResultStatus.ERROR)


def _label(command: Command) -> str:
    """What readers see of a command: its name, and what it is about."""
    words = command.args.split()
    if command.name in ("mem", "a2a"):
        return f"{command.name}:{words[0]}" if words else command.name
    if command.name == "mcp":  # the arguments of a tool are left out
        return f"mcp:{' '.join(words[:3])[:100]}"
    about = words[-1] if command.name == "write" and words else command.args
    return f"{command.name}:{about[:100]}" if about else command.name


def as_block(command: Command, result: ToolResult) -> ResultBlock:
    """The result of a step as the result of its command."""
    return ResultBlock(command, result.body, ResultStatus.OK if result.ok else ResultStatus.ERROR)


# --- one function for each command ------------------------------------------------------------------------------------


async def _agent(context: TurnContext, command: Command, step: str) -> ResultBlock:
    answer = await call_agent(context, parse_agent(command), step)
    return ResultBlock(command, answer.body, answer.status)


async def _parallel(context: TurnContext, command: Command, step: str) -> ResultBlock:
    calls = parse_parallel(command)
    context.commands += len(calls) - 1
    if context.commands > MOST_COMMANDS:
        text = f"A turn may have {MOST_COMMANDS} commands, and each agent of /parallel counts as one."
        return ResultBlock(command, text, ResultStatus.SKIPPED)
    answers = await call_agents(context, calls, step)
    children = tuple([ChildResult(answer.agent_id, answer.body, answer.status) for answer in answers])
    failed = [child for child in children if child.status is not ResultStatus.OK]
    status = ResultStatus.OK if len(failed) < len(children) else failed[0].status
    return ResultBlock(command, status=status, children=children)


async def _a2a(context: TurnContext, command: Command, step: str) -> ResultBlock:
    remote, tenant = context.services.remote, context.tenant
    match parse_a2a(command):
        case CallRemoteAgent(name=name, message=message):
            try:
                answer = await call_remote(context, name, message, step)
            except UnknownRemoteAgentError as error:
                return ResultBlock(command, error.message, ResultStatus.ERROR)
            return ResultBlock(command, answer.body, answer.status)
        case ShowRemoteCard(name=name):

            async def show() -> str:
                return describe_card(await remote.card(tenant, name))

            return as_block(command, await context.step(step, show))
        case ListRemoteAgents():

            async def list_all() -> str:
                entries = await remote.entries(tenant)
                return "\n".join([f"{entry.id} — {entry.description}" for entry in entries]) or "(none)"

            return as_block(command, await context.step(step, list_all))


async def _mcp(context: TurnContext, command: Command, step: str) -> ResultBlock:
    return as_block(command, await run_mcp_command(context, command, step))


async def _fetch(context: TurnContext, command: Command, step: str) -> ResultBlock:
    url = parse_fetch(command)

    async def fetch() -> str:
        return (await context.services.fetcher.fetch(url)).text

    return as_block(command, await context.step(step, fetch))


async def _search(context: TurnContext, command: Command, step: str) -> ResultBlock:
    wanted, provider = parse_search(command), context.services.search
    if provider is None:
        text = "No search provider is configured; the operator sets one with `parley up --search`."
        return ResultBlock(command, text, ResultStatus.ERROR)

    async def search() -> str:
        return hits_text(await provider.search(wanted.query, wanted.max_results))

    return as_block(command, await context.step(step, search))


async def _advise(context: TurnContext, command: Command, step: str) -> ResultBlock:
    question = parse_advise(command)
    return as_block(command, await consult(context, question, step))


async def _help(context: TurnContext, command: Command, step: str) -> ResultBlock:
    return ResultBlock(command, help_text(parse_help(command), context.constitution.capabilities))


async def _memory(context: TurnContext, command: Command, step: str) -> ResultBlock:
    return as_block(command, await run_memory_command(context, command, step))


async def _write(context: TurnContext, command: Command, step: str) -> ResultBlock:
    return as_block(command, await write_file(context, command, step))


async def _read(context: TurnContext, command: Command, step: str) -> ResultBlock:
    return as_block(command, await read_file(context, command, step))


async def _list(context: TurnContext, command: Command, step: str) -> ResultBlock:
    return as_block(command, await list_files(context, step))


HANDLERS: Mapping[str, Handle] = {
    "agent": _agent,
    "parallel": _parallel,
    "a2a": _a2a,
    "mcp": _mcp,
    "fetch": _fetch,
    "search": _search,
    "advise": _advise,
    "help": _help,
    "mem": _memory,
    "write": _write,
    "read": _read,
    "list": _list,
}
