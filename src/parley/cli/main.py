"""The `parley` command: registers all commands.

Exit codes: 0 for success, 1 for failure, 2 for invalid arguments; `exit_codes` has those of commands that call agents.
An error is a sentence that says what to do about it, never a traceback; a traceback is a bug in Parley.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from parley import __version__
from parley.cli.commands import (
    admin,
    agents,
    card,
    chat,
    check,
    cluster,
    console,
    doctor,
    keys,
    login,
    mcp,
    new,
    proxy,
    push,
    send,
    serve,
    store,
    tasks,
    token,
    up,
)
from parley.cli.options.settings import ConfiguredCommand
from parley.cli.output.exit_codes import EXIT_CODES
from parley.cli.output.help_text import ParleyCommand, ParleyGroup

app = typer.Typer(
    name="parley",
    cls=ParleyGroup,
    help="Agents that every A2A peer can call.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables leave a third of 80 columns for what the options do
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("new", cls=ParleyCommand, epilog=new.EXIT_CODES)(new.new)
app.command("serve", cls=ConfiguredCommand)(serve.serve)
app.command("up", cls=ConfiguredCommand)(up.up)
app.command("proxy", cls=ConfiguredCommand, epilog=proxy.EXIT_CODES)(proxy.proxy)
app.command("console", cls=ConfiguredCommand)(console.console)
app.command("token", cls=ParleyCommand)(token.token)
app.command("password", cls=ParleyCommand)(token.password)
app.command("login", cls=ParleyCommand, epilog=EXIT_CODES)(login.login)
app.command("card", cls=ParleyCommand, epilog=EXIT_CODES)(card.card)
app.command("send", cls=ParleyCommand, epilog=EXIT_CODES)(send.send)
app.command("chat", cls=ParleyCommand, epilog=EXIT_CODES)(chat.chat)
app.command("check", cls=ParleyCommand)(check.check)
app.command("mcp", cls=ParleyCommand, epilog=mcp.EXIT_CODES)(mcp.mcp)
app.command("doctor", cls=ParleyCommand, epilog=doctor.EXIT_CODES)(doctor.doctor)
app.add_typer(agents.app, name="agents")
app.add_typer(tasks.app, name="tasks")
app.add_typer(push.app, name="push")
app.add_typer(keys.app, name="keys")
app.add_typer(store.app, name="store")
app.add_typer(cluster.app, name="cluster")
app.add_typer(admin.app, name="admin")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"parley {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Agents that every A2A peer can call."""


def main() -> None:
    """Run the command line of this process."""
    # A shell can close standard input, with <&-: Python has None then, and commands read it as empty.
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())
    # Characters that cannot be encoded or decoded must not end a command in the middle of an answer.
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    app()


if __name__ == "__main__":
    main()
