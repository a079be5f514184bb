"""`parley token` and `parley password`: new credentials, and the file that lets their holder in.

The file goes to standard output, so that it can be piped; what is for people goes to standard error. Neither command
stores anything, and the file holds hashes only.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from parley.cli.commands.serve import parse_duration

Name = Annotated[str, typer.Argument(metavar="NAME", help="Who it is: the caller's name in tasks, logs and audit.")]
Scopes = Annotated[list[str] | None, typer.Option("--scope", metavar="SCOPE", help="A scope it has; repeatable.")]
Tenant = Annotated[str | None, typer.Option(metavar="TENANT", help="The tenant it belongs to.")]


def token(
    name: Name,
    scope: Scopes = None,
    tenant: Tenant = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it is good, such as 90d. For ever if left out.")
    ] = None,
) -> None:
    """Make a bearer token, and the file for parley serve --auth.

    The token is shown once, on standard error. The file goes to standard output and holds the token's hash only.

    \b
    Example:
      parley token ci --scope write --expires 90d > auth.toml
      parley serve currency:agent --auth auth.toml
    """
    _check(name, scope, tenant)
    until = (
        datetime.now(UTC).replace(microsecond=0) + parse_duration(expires, "--expires") if expires is not None else None
    )
    from parley.server.security.auth_file import new_token

    secret, entry = new_token(name, scopes=tuple(scope or ()), tenant=tenant, expires=until)
    typer.echo(
        f"""The token, for its holder. It is not stored anywhere:

  {secret}

Whoever calls sends: Authorization: Bearer {secret}

Standard output has the file for parley serve --auth. For a further token, run this again and add its line in braces to
the list in that file.""",
        err=True,
    )
    typer.echo(f'[schemes.token]\ntype = "bearer"\ntokens = [\n  {entry},\n]')


def password(name: Name, scope: Scopes = None, tenant: Tenant = None) -> None:
    """Hash a password, and make the file for parley serve --auth.

    It is for Basic authentication. It is asked for, or read from standard input if that is no terminal.

    \b
    Example:
      parley password ada > auth.toml
    """
    _check(name, scope, tenant)
    if ":" in name:
        raise typer.BadParameter("Basic cannot carry a name with a colon.", param_hint="NAME")
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
        "Standard output has the file for parley serve --auth. For a further user, run this again and add its line in "
        "braces to the list in that file.",
        err=True,
    )
    typer.echo(f'[schemes.people]\ntype = "basic"\nusers = [\n  {entry},\n]')


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _check(name: str, scopes: list[str] | None, tenant: str | None) -> None:
    if not name.strip():
        raise typer.BadParameter("Its holder needs a name.", param_hint="NAME")
    for scope in scopes or ():
        if not scope or scope.split() != [scope]:
            raise typer.BadParameter(f"{scope!r} is no scope: it must be one word.", param_hint="--scope")
    if tenant is not None and not tenant.strip():
        raise typer.BadParameter("A tenant needs a name.", param_hint="--tenant")
