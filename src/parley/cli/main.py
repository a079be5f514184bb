"""The `parley` command: what it can do, and how it ends.

Exit codes: 0 it did what was asked, 1 it could not, 2 it was asked wrongly; those of commands that call agents are in
`ending`. Mistakes are told in a sentence with the cure, never with a traceback; a traceback is a mistake of ours.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from parley import __version__
from parley.cli.commands import card, chat, check, login, proxy, push, send, serve, store, tasks, token
from parley.cli.output.exit_codes import EXIT_CODES
from parley.cli.output.help_text import PlainCommand, PlainGroup

app = typer.Typer(
    name="parley",
    cls=PlainGroup,
    help="Agents that every A2A peer can call.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables leave a third of 80 columns for what the options do
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve", cls=PlainCommand)(serve.serve)
app.command("proxy", cls=PlainCommand, epilog=proxy.EXIT_CODES)(proxy.proxy)
app.command("token", cls=PlainCommand)(token.token)
app.command("password", cls=PlainCommand)(token.password)
app.command("login", cls=PlainCommand, epilog=EXIT_CODES)(login.login)
app.command("card", cls=PlainCommand, epilog=EXIT_CODES)(card.card)
app.command("send", cls=PlainCommand, epilog=EXIT_CODES)(send.send)
app.command("chat", cls=PlainCommand, epilog=EXIT_CODES)(chat.chat)
app.command("check", cls=PlainCommand)(check.check)
app.add_typer(tasks.app, name="tasks")
app.add_typer(push.app, name="push")
app.add_typer(store.app, name="store")


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
    # A shell can close it, with <&-; to Python it is None then, to a command it is empty.
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())
    # What a terminal cannot show, or nobody can read, is no reason to fail in the middle of an answer.
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    app()


if __name__ == "__main__":
    main()
