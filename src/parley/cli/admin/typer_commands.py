"""Commands of `parley admin` as Typer runs them, made of their descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import msgspec
import typer

from parley.cli.admin.command import WHOLE_BODY, AdminArgument, AdminCommand, AdminOption, Target
from parley.cli.admin.host_connection import HostConnection, NotAHostError, WithHostConnection, value_of
from parley.cli.admin.reply_text import show_members, show_table
from parley.cli.options.groups import with_option_groups
from parley.cli.output.exit_codes import DONE
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.transcript import print_json
from parley.safe_text import printable, printable_line

if TYPE_CHECKING:
    import httpx2

AsJson = Annotated[bool, typer.Option("--json", help="Print the host's reply as it is, in JSON.")]

EXIT_CODES = """\b
Exit codes:
  0    success
  1    the host refused it
  2    invalid arguments
  3    the host does not answer
  130  interrupted by Ctrl+C
"""


def add_commands(
    app: typer.Typer, commands: Sequence[AdminCommand], groups: Mapping[str, str]
) -> dict[str, typer.Typer]:
    """Add commands to an app, in groups with these help texts. Returns the groups."""
    made = {name: typer.Typer(cls=ParleyGroup, help=text, rich_markup_mode=None) for name, text in groups.items()}
    for command in commands:
        group, name = command.words
        register = made[group].command(name, cls=ParleyCommand, help=_help(command), epilog=EXIT_CODES)
        register(with_option_groups(_function(command)))
    for name, group in made.items():
        app.add_typer(group, name=name)
    return made


def _help(command: AdminCommand) -> str:
    return f"{command.help}\n\n\b\nExample:\n  parley admin {command.example}"


def _function(command: AdminCommand) -> Callable[..., Coroutine[Any, Any, int]]:
    """A function with the parameters that a command has."""

    async def call(**given: Any) -> int:
        return await _run(command, given)

    parameters = [
        *[_argument(argument) for argument in command.arguments],
        *[_option(option) for option in command.options],
        inspect.Parameter("options", inspect.Parameter.KEYWORD_ONLY, annotation=WithHostConnection),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=AsJson, default=False),
    ]
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__name__ = "_".join(command.words)
    return call


def _argument(argument: AdminArgument) -> inspect.Parameter:
    annotation = Annotated[str, typer.Argument(metavar=argument.name.upper(), help=argument.help)]
    return inspect.Parameter(argument.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)


def _option(option: AdminOption) -> inspect.Parameter:
    if option.type is bool:
        info = typer.Option(f"--{option.name}/--no-{option.name}", help=option.help, show_default=False)
    else:
        info = typer.Option(f"--{option.name}", metavar=option.metavar, help=option.help, show_default=False)
    annotation: Any = Annotated[option.type if option.is_required else option.type | None, info]
    default = inspect.Parameter.empty if option.is_required else None
    name = _parameter_name(option)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _parameter_name(option: AdminOption) -> str:
    """The name of an option in Python, where `from` is a keyword."""
    return f"option_{option.name.replace('-', '_')}"


# --- a call -----------------------------------------------------------------------------------------------------------


async def _run(command: AdminCommand, given: Mapping[str, Any]) -> int:
    connection: HostConnection = given["options"]
    path, body = command.path, dict[str, Any]()
    query, headers = dict[str, str](), dict[str, str]()
    for argument in command.arguments:
        value = given[argument.name]
        if argument.member:
            _put(body, argument.member.split("."), _json(value, argument.name.upper()) if argument.is_json else value)
        else:
            path = path.replace(f"{{{argument.name}}}", path_segment(value, argument.name.upper()))
    for option in command.options:
        value = given[_parameter_name(option)]
        if value is None:
            continue
        if option.is_json:
            value = _json(value, f"--{option.name}")
        elif option.is_word_or_number and value.isdecimal():
            value = int(value)
        match option.target:
            case Target.BODY:
                _put(body, option.path, value)
            case Target.QUERY:
                query[option.path[0]] = str(value).lower() if isinstance(value, bool) else str(value)
            case Target.IF_MATCH:
                headers["If-Match"] = f'"{value}"'
    sent: Any = body if command.method in ("POST", "PUT", "PATCH") else None
    if WHOLE_BODY in body:
        whole = body.pop(WHOLE_BODY)
        sent = {**cast("dict[str, Any]", whole), **body} if isinstance(whole, dict) else whole
    reply = await connection.call(command.method, path, body=sent, query=query, headers=headers)
    show_reply(command, reply, as_json=given["as_json"])
    return DONE


def _put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, name = path
    for parent in parents:
        body = body.setdefault(parent, {})
    body[name] = value


def path_segment(value: str, name: str) -> str:
    """An argument as one segment of a path. Raises BadParameter for what would lead to another path."""
    if value in ("", ".", ".."):
        raise typer.BadParameter(f"Invalid id: {value!r}.", param_hint=name)
    return quote(value, safe="")


def _json(text: str, name: str) -> Any:
    """JSON on the command line, or in a file whose name follows an `@`. Raises BadParameter."""
    try:
        raw = Path(text[1:]).expanduser().read_bytes() if text.startswith("@") else text.encode()
        return msgspec.json.decode(raw)
    except OSError as error:
        raise typer.BadParameter(f"{text[1:]} cannot be read: {error.strerror}", param_hint=name) from error
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"Invalid JSON: {error}. Write JSON, or @ and a file.", param_hint=name) from error


def show_reply(command: AdminCommand, reply: httpx2.Response, *, as_json: bool) -> None:
    """Print a reply. Raises NotAHostError if it is not what the command expects."""
    if command.is_text:
        typer.echo(printable(reply.text), nl=False)
        return
    if as_json or not reply.content:
        print_json(reply.content or b"{}")
        return
    value = value_of(reply)
    if command.columns:
        rows = value.get(command.rows)
        if not isinstance(rows, list):
            raise NotAHostError
        show_table(cast("list[Any]", rows), command.columns)
        for name in ("next_cursor", "next_before_id"):
            if value.get(name) is not None:
                typer.echo(f"There are more: {name} is {printable_line(str(value[name]))}.", err=True)
    else:
        show_members(value)
