"""Where `parley login` keeps what it gets, for the other commands to call agents with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from parley.client.credentials.token_store import FileLogins


def login_store() -> FileLogins:
    """The logins of whoever runs the command, in the directory that the system has for settings."""
    from parley.client.credentials.token_store import FileLogins

    return FileLogins(Path(typer.get_app_dir("parley")) / "logins")
