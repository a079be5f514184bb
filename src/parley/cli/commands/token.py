"""`parley token` and `parley password`: create credentials, and the file that makes a server accept them.

The file goes to standard output, so that it can be piped; notes go to standard error. Neither command stores anything,
and the file contains only hashes. If standard error is a file or a pipe, a token is all that is written there.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from parley.cli.options.durations import read_duration

Name = Annotated[str, typer.Argument(metavar="NAME", help="The caller's name in tasks, logs and the audit log.")]
Scopes = Annotated[
    list[str] | None, typer.Option("--scope", metavar="SCOPE", help="A scope of the caller; repeatable.")
]
Tenant = Annotated[str | None, typer.Option(metavar="TENANT", help="The tenant of the caller.")]


def token(
    name: Name,
    scope: Scopes = None,
    tenant: Tenant = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long the token is valid, such as 90d.", show_default="for ever"),
    ] = None,
) -> None:
    """Create a bearer token, and the file for parley serve --auth.

    The token is shown once, on standard error. The file goes to standard output and contains only a hash of the token.
    If standard error is redirected, it gets the token and nothing else.

    \b
    Examples:
      parley token ci --scope write --expires 90d > auth.toml
      parley token ci > auth.toml 2> token.txt
      parley serve currency:agent --auth auth.toml
    """
    _check(name, scope, tenant)
    until = (
        datetime.now(UTC).replace(microsecond=0) + read_duration(expires, "--expires") if expires is not None else None
    )
    from parley.server.security.auth_file import new_token

    secret, entry = new_token(name, scopes=tuple(scope or ()), tenant=tenant, expires=until)
    note = f"""The token, which is shown only now:

  {secret}

Callers send the header Authorization: Bearer {secret}

Standard output has the file for parley serve --auth. For another token, run this again and add its line in braces to
the list in that file."""
    typer.echo(note if _is_shown_to_a_person() else secret, err=True)
    typer.echo(f'[schemes.token]\ntype = "bearer"\ntokens = [\n  {entry},\n]')


def password(name: Name, scope: Scopes = None, tenant: Tenant = None) -> None:
    """Hash a password, and create the file for parley serve --auth.

    The password is for Basic authentication. It is entered at a prompt, or read from standard input.

    \b
    Example:
      parley password ada > auth.toml
    """
    _check(name, scope, tenant)
    if ":" in name:
        raise typer.BadParameter("A name for Basic authentication must not contain a colon.", param_hint="NAME")
    if _is_interactive():
        secret: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    from parley.server.security.auth_file import new_user
    from parley.server.security.schemes.basic import MAX_PASSWORD

    if not 0 < len(secret) <= MAX_PASSWORD:
        raise typer.BadParameter(f"A password has 1 to {MAX_PASSWORD:,} characters.", param_hint="The password")
    entry = new_user(name, secret, scopes=tuple(scope or ()), tenant=tenant)
    typer.echo(
        "Standard output has the file for parley serve --auth. For another user, run this again and add its line in "
        "braces to the list in that file.",
        err=True,
    )
    typer.echo(f'[schemes.people]\ntype = "basic"\nusers = [\n  {entry},\n]')


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _is_shown_to_a_person() -> bool:
    return sys.stderr.isatty()


def _check(name: str, scopes: list[str] | None, tenant: str | None) -> None:
    if not name.strip():
        raise typer.BadParameter("The name must not be empty.", param_hint="NAME")
    for scope in scopes or ():
        if not scope or scope.split() != [scope]:
            raise typer.BadParameter(f"Invalid scope: {scope!r}. It must be one word.", param_hint="--scope")
    if tenant is not None and not tenant.strip():
        raise typer.BadParameter("The tenant must not be empty.", param_hint="--tenant")
