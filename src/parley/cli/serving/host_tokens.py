"""The tokens of a host at its start: the admin's, and the first tenant's if a file is to keep it.

Neither is ever logged. A file that holds anything else than a token is not overwritten.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from parley.cli.options.server import UsageError
from parley.host.data.admin_token import PREFIX as ADMIN_PREFIX
from parley.host.data.admin_token import VARIABLE as ADMIN_VARIABLE
from parley.host.data.admin_token import load_admin_token
from parley.host.data.tenant_tokens import PREFIX as TENANT_PREFIX
from parley.stores.urls import is_postgres, sqlite_path

MAX_READ = 1_000
"""Characters of a token file; a token has 68."""


@dataclass(frozen=True, slots=True)
class AdminToken:
    """The admin token, and where it comes from."""

    token: str = field(repr=False)
    file: Path | None
    """None if it is in the variable, or was made for this process only."""
    is_new: bool
    """Whether it was made just now, so that the operator has not seen it."""

    @property
    def is_for_this_process(self) -> bool:
        """Whether it is nowhere but in memory."""
        return self.is_new and self.file is None


def find_admin_token(file: Path | None, store: str, environ: Mapping[str, str]) -> AdminToken:
    """The admin token in the environment, else in the file, else a new one, which is written to the file.

    Without a file it is beside the store, for PostgreSQL in the working directory, and for a store in memory nowhere.

    Raises:
        AdminTokenError: the file cannot be read or written, or its token must not be used.
        StoreError: it is not the URL of a store.
    """
    file = _beside(store) if file is None else file.expanduser()
    is_in_environment = bool(environ.get(ADMIN_VARIABLE, "").strip())
    if file is None and not is_in_environment:
        return AdminToken(ADMIN_PREFIX + secrets.token_hex(32), None, is_new=True)
    token, is_new = load_admin_token(file or Path(), environ)
    return AdminToken(token, None if is_in_environment else file, is_new)


def _beside(store: str) -> Path | None:
    if store == "memory:":
        return None
    return Path("parley.admin-token" if is_postgres(store) else f"{sqlite_path(store)}.admin-token")


class TenantTokenFile:
    """A file with the token of the first tenant."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    def read(self) -> str | None:
        """The token in the file; None if there is no file, or it is empty.

        Raises:
            UsageError: the file holds something else, or cannot be read.
        """
        try:
            with self.path.open(encoding="utf-8", errors="replace") as reading:
                token = reading.read(MAX_READ).strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}.") from error
        if token and not re.fullmatch(rf"{TENANT_PREFIX}[0-9a-f]{{64}}", token):
            raise UsageError(f"{self.path} does not hold a tenant's token. Name another file: --tenant-token-file")
        return token or None

    @contextmanager
    def opened(self) -> Generator[TextIO]:
        """The file, to write a token to; only its owner can read it.

        Raises:
            OSError: it cannot be written.
        """
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
            os.chmod(self.path, 0o600)  # it may have been there before
            yield writing
