"""`parley token`: a new bearer token for its holder, and the line that lets it in."""

from __future__ import annotations

from typing import Annotated

import typer


def token(
    name: Annotated[str, typer.Argument(help="Who holds it: the caller's name in tasks, logs and the audit trail.")],
    scope: Annotated[list[str] | None, typer.Option(help="A scope it has. May be repeated.")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant it belongs to.")] = None,
) -> None:
    """Make a token, and show what to write into the file for `parley serve --auth`.

    The token is shown once; the file holds its hash only.

    Example: `parley token ci --scope write`
    """
    from parley.server.auth_file import new_token

    secret, entry = new_token(name, scopes=tuple(scope or ()), tenant=tenant)
    typer.echo(
        f"""The token, for its holder. It is not stored anywhere:

  {secret}

The file for `parley serve --auth`; add further tokens to the list:

  [schemes.token]
  type = "bearer"
  tokens = [
    {entry},
  ]

Whoever calls sends: Authorization: Bearer {secret}"""
    )
