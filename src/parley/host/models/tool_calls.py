"""Function calls of a model as the commands that mean the same, so that a reply stays text whatever the model can do.

get_time({"zone": "UTC"})  →  /mcp call time get_time {"zone":"UTC"}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from parley.host.models.model import ModelTool

_FENCES = ("```", "~~~")


def command_lines(said: str, calls: Iterable[tuple[str, object]], tools: Sequence[ModelTool]) -> str:
    """The text that follows what a model has said: a line for each call, given by the function's name and arguments.

    Commands count only at the beginning of a line and outside of fences, so an open fence is closed first.
    """
    commands = {tool.name: tool.command for tool in tools}
    lines = [_command(commands, name, arguments) for name, arguments in calls]
    if not lines:
        return ""
    if fence := _open_fence(said):
        lines.insert(0, fence)
    before = "" if not said or said.endswith("\n") else "\n"
    return before + "".join([f"{line}\n" for line in lines])


def _command(commands: dict[str, str], name: str, arguments: object) -> str:
    # One that the model has made up becomes a command that fails, so that the model hears of it.
    command = commands.get(name) or f"/mcp call unknown {''.join(name.split())[:64] or 'unknown'}"
    return f"{command} {_compact(arguments)}"


def _compact(arguments: object) -> str:
    if not isinstance(arguments, str):
        try:
            return msgspec.json.encode(arguments if arguments is not None else {}).decode()
        except UnicodeEncodeError:
            return json.dumps(arguments)  # with half a character, which running the command refuses
    try:
        value: object = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return " ".join(arguments.split())  # running the command says what is wrong with it
    return msgspec.json.encode(value).decode()


def _open_fence(text: str) -> str:
    """The fence that is open at the end of a text; empty if there is none."""
    fence = ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line.startswith(fence) else fence
        elif line.startswith(_FENCES):
            fence = line[:3]
    return fence
