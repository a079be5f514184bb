"""`parley admin`: manages a host over its native API."""

from __future__ import annotations

import typer

from parley.cli.admin.table import COMMANDS, GROUPS
from parley.cli.admin.transfer import add_transfer
from parley.cli.admin.typer_commands import add_commands
from parley.cli.output.help_text import ParleyGroup

HELP = """Manage a host: tenants, tokens, agents, and everything that they use.

\b
The host is at --host or PARLEY_HOST_URL, the token in PARLEY_ADMIN_TOKEN or --token-file. With the admin token, name
the tenant that a command is about: --tenant 1, or PARLEY_TENANT. A tenant's own token needs no tenant.

\b
Examples:
  export PARLEY_ADMIN_TOKEN=$(cat parley.db.admin-token)
  parley admin tenants list
  parley admin tokens create 'nightly tests' --role caller --tenant 1
"""

app = typer.Typer(cls=ParleyGroup, help=HELP, rich_markup_mode=None)
add_transfer(add_commands(app, COMMANDS, GROUPS)["tenants"])
