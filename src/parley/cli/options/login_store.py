"""Where `parley login` stores credentials, for the other commands to use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from parley.client.credentials.token_store import FileLogins


def login_store() -> FileLogins:
    """The logins of the current user, in the system's directory for settings."""
    from parley.client.credentials.token_store import FileLogins

    return FileLogins(Path(typer.get_app_dir("parley")) / "logins")
