"""The arguments of commands as typed values, checked. Those of `/mem` are in `memory_arguments`.

Whether the agent, file or address exists is for the code that runs the command to find out; here only the form counts.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from parley.host.commands.argument_checks import (
    first_word,
    id_of,
    misuse,
    number_in_range,
    require_closed_block,
    require_nothing,
    unknown_subcommand,
)
from parley.host.commands.syntax import Command
from parley.host.commands.usage import DEFAULT_SEARCH_RESULTS, MAX_CHILDREN, MAX_SEARCH_RESULTS
from parley.protocol.errors import quoted

_VIA_MEMORY = "via=mem:"


class SubAgentCall(Struct, frozen=True):
    """`/agent`, or one line of `/parallel`."""

    agent_id: str
    message: str


class SearchQuery(Struct, frozen=True):
    """`/search`."""

    query: str
    max_results: int = DEFAULT_SEARCH_RESULTS


class FileToWrite(Struct, frozen=True):
    """`/write`."""

    path: str
    content: str
    is_persistent: bool = False


class FileToRead(Struct, frozen=True):
    """`/read` of a path in the same conversation."""

    path: str


class ArtifactToRead(Struct, frozen=True):
    """`/read` of an artifact by its id; the memory entry grants access to one of another conversation."""

    artifact_id: str
    memory_entry_id: str | None = None


class ListRemoteAgents(Struct, frozen=True):
    """`/a2a list`."""


class ShowRemoteCard(Struct, frozen=True):
    """`/a2a card`."""

    name: str


class CallRemoteAgent(Struct, frozen=True):
    """`/a2a call`."""

    name: str
    message: str


RemoteAgentCommand: TypeAlias = ListRemoteAgents | ShowRemoteCard | CallRemoteAgent


def parse_agent(command: Command) -> SubAgentCall:
    """The call of `/agent`.

    Raises:
        CommandSyntaxError: the agent's id or the message is missing.
    """
    agent_id, message = first_word(command.args)
    if not message:
        raise misuse("agent", "The agent id and the message are required.")
    return SubAgentCall(agent_id, message)


def parse_parallel(command: Command) -> tuple[SubAgentCall, ...]:
    """The calls of a `/parallel` block, in their order; lines that are not `/agent` are ignored.

    Raises:
        CommandSyntaxError: the block is not closed, or has no call, too many, or one without a message.
    """
    require_closed_block(command, "parallel", "/endparallel")
    lines = [line.rstrip() for line in command.body.split("\n")]
    calls = [line for line in lines if line == "/agent" or line.startswith(("/agent ", "/agent\t"))]
    if not calls:
        raise misuse("parallel", "The block has no line '/agent <agent id> <message>'.")
    if len(calls) > MAX_CHILDREN:
        raise misuse("parallel", f"The block has {len(calls)} /agent lines; at most {MAX_CHILDREN} are allowed.")
    return tuple(parse_agent(Command("agent", line.removeprefix("/agent").strip())) for line in calls)


def parse_a2a(command: Command) -> RemoteAgentCommand:
    """What `/a2a` asks for.

    Raises:
        CommandSyntaxError: the subcommand is unknown, or its arguments are missing or too many.
    """
    subcommand, rest = first_word(command.args)
    name, message = first_word(rest)
    match subcommand:
        case "list":
            require_nothing(rest, "a2a list")
            return ListRemoteAgents()
        case "card" if name and not message:
            return ShowRemoteCard(name)
        case "call" if message:
            return CallRemoteAgent(name, message)
        case "card":
            raise misuse("a2a card", "Exactly one name is required.")
        case "call":
            raise misuse("a2a call", "The name and the message are required.")
        case _:
            raise unknown_subcommand(command)


def parse_search(command: Command) -> SearchQuery:
    """The query of `/search`. Only the last word can be `top=N`.

    Raises:
        CommandSyntaxError: the query is empty, or N is not a number in range.
    """
    words = command.args.split()
    max_results = DEFAULT_SEARCH_RESULTS
    if words and words[-1].startswith("top="):
        count = words.pop().removeprefix("top=")
        max_results = number_in_range(count, MAX_SEARCH_RESULTS)
        if max_results is None:
            raise misuse("search", f"Invalid number: top={quoted(count)}.")
    if not words:
        raise misuse("search", "The query is required.")
    return SearchQuery(" ".join(words), max_results)


def parse_fetch(command: Command) -> str:
    """The URL of `/fetch`.

    Raises:
        CommandSyntaxError: it is missing, or not an HTTP URL.
    """
    url = command.args
    if not url.lower().startswith(("http://", "https://")) or len(url.split()) != 1:
        raise misuse("fetch", f"Invalid URL: '{quoted(url)}'. It must start with http:// or https://.")
    return url


def parse_write(command: Command) -> FileToWrite:
    """The file of `/write`.

    Raises:
        CommandSyntaxError: the block is not closed, the path is missing, or an option is unknown or misplaced.
    """
    require_closed_block(command, "write", "/endwrite")
    word, rest = first_word(command.args)
    is_persistent = word == "--persist"
    path = rest if is_persistent else command.args
    if not path:
        raise misuse("write", "The path is required.")
    if any(part.startswith("--") for part in path.split()):
        raise misuse("write", "Invalid option: the only one is --persist, before the path.")
    return FileToWrite(path, command.body, is_persistent)


def parse_read(command: Command) -> FileToRead | ArtifactToRead:
    """The file of `/read`.

    Raises:
        CommandSyntaxError: it is missing, or an id or option is invalid.
    """
    if not command.args.startswith("#"):
        if not command.args or _VIA_MEMORY in command.args:
            raise misuse("read", "A path, or an artifact id after '#', is required.")
        return FileToRead(command.args)
    artifact, option = first_word(command.args)
    artifact_id = id_of(artifact, "read")
    if not option:
        return ArtifactToRead(artifact_id)
    if not option.startswith(_VIA_MEMORY):
        raise misuse("read", f"Invalid option: '{quoted(option)}'.")
    return ArtifactToRead(artifact_id, id_of(option.removeprefix(_VIA_MEMORY), "read"))


def parse_advise(command: Command) -> str:
    """The question of `/advise`.

    Raises:
        CommandSyntaxError: it is missing.
    """
    if not command.args:
        raise misuse("advise", "The question is required.")
    return command.args


def parse_help(command: Command) -> str:
    """The command that `/help` is asked about, without its slash; empty for all of them."""
    return first_word(command.args)[0].removeprefix("/").lower()
