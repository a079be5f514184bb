"""The admin token, which may create tenants and see them all.

It comes from the environment, else from a file that only its owner can read, else it is made and written to that file.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path

from parley.protocol.errors import ParleyError

VARIABLE = "PARLEY_ADMIN_TOKEN"
PREFIX = "adm_"


class AdminTokenError(ParleyError):
    """The admin token cannot be read or written."""


def load_admin_token(file: Path, environ: Mapping[str, str]) -> tuple[str, bool]:
    """The admin token, and whether it was made just now.

    Raises:
        AdminTokenError: the file can be read by others, holds no token, or cannot be read or written.
    """
    if token := environ.get(VARIABLE, "").strip():
        return _checked(token, f"The variable {VARIABLE}"), False
    try:
        if not os.path.lexists(file):
            return _create(file), True
    except FileExistsError:
        pass  # another process has just written it
    except OSError as error:
        raise AdminTokenError(f"The admin token cannot be written to {file}: {error.strerror}") from error
    return _read(file), False


def is_admin_token(token: str, presented: str) -> bool:
    """Whether a caller presented the admin token. The time that this takes says nothing about the token."""
    return compare_digest(token.encode(), presented.encode("utf-8", "surrogatepass"))


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as reading:
            if os.name == "posix" and os.fstat(reading.fileno()).st_mode & 0o077:
                raise AdminTokenError(
                    f"{file} can be read by other users of this machine, so its admin token is not used; "
                    f"run: chmod 600 {file}, and replace the token if others may have read it"
                )
            return _checked(reading.read().strip(), str(file))
    except OSError as error:
        raise AdminTokenError(f"{file} cannot be read: {error.strerror}") from error


def _create(file: Path) -> str:
    token = PREFIX + secrets.token_hex(32)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as writing:
        writing.write(f"{token}\n")
        writing.flush()
        os.fsync(writing.fileno())
    return token


def _checked(token: str, source: str) -> str:
    """The token, if it can be sent in a header; the message does not quote it."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise AdminTokenError(f"{source} holds no valid admin token: it must be one word of printable ASCII characters")
    return token
