"""Where the keys of a store come from: a file, or a variable of the environment.

A file is written so that it is whole or not there, for its owner only, however many processes start at the same time.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

from parley.sealed.errors import SecretError
from parley.sealed.keys import StoreKey, decode_keys, encode_key, new_key

VARIABLE = "env:"
"""How the name of a variable begins where a file can be named, too: `env:STORE_KEYS`."""

_HEADER = """\
# Keys for the secrets in a Parley store, one per line: the first one encrypts, all of them decrypt.
# Without this file the secrets are lost. Keep a copy, but not beside the copies of the store.
"""


class KeySource(Protocol):
    """Where keys are read. `name` says where, for people."""

    name: str

    def read(self) -> tuple[StoreKey, ...] | None:
        """The keys, the one that encrypts first; None if the source does not exist. Raises SecretError."""
        ...


class KeyVariable:
    """Keys in a variable of the environment."""

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self.name = f"The variable {variable}"

    def read(self) -> tuple[StoreKey, ...] | None:
        """The keys; None if the variable is not set. Raises SecretError."""
        text = os.environ.get(self._variable)
        return None if text is None else decode_keys(text, source=self.name)


class KeyFile:
    """Keys in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def read(self) -> tuple[StoreKey, ...] | None:
        """The keys; None if there is no such file. Raises SecretError."""
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(f"{self.path} cannot be read: {_reason(error)}.") from error
        return decode_keys(text, source=self.name)

    @property
    def is_exposed(self) -> bool:
        """Whether other users of this machine can read the file."""
        try:
            return os.name == "posix" and bool(self.path.stat().st_mode & stat.S_IROTH)
        except OSError:
            return False

    def make(self) -> bool:
        """Write a file with a new key, for its owner only; False if there is one already, made by whichever process.

        Raises:
            SecretError: it cannot be written.
        """
        if self.path.exists():
            return False
        unfinished = self.path.with_name(f".{self.path.name}-{secrets.token_hex(8)}.part")
        try:
            try:
                with os.fdopen(_create(unfinished), "w", encoding="utf-8") as file:
                    _write(file, [new_key()])
                os.link(unfinished, self.path)  # fails if it exists: the first process wins, and all read its key
            except FileExistsError:
                return False
            finally:
                unfinished.unlink(missing_ok=True)
            _sync_directory(self.path.parent)
        except OSError as error:
            raise SecretError(
                f"{self.path} cannot be made: {_reason(error)}. Name another with --store-key."
            ) from error
        return True

    def add(self) -> StoreKey:
        """Put a new key in front of those that are there, in one step; it encrypts from now on.

        Raises:
            SecretError: there is no file, it cannot be written, or another process is changing it.
        """
        try:
            return self._add()
        except OSError as error:
            raise SecretError(f"{self.path} cannot be changed: {_reason(error)}.") from error

    def _add(self) -> StoreKey:
        path = self.path.resolve()  # a link stays one
        unfinished = path.with_name(f"{path.name}.new")
        try:
            descriptor = _create(unfinished)  # one process at a time: the name is taken until it becomes the file
        except FileExistsError:
            raise SecretError(
                f"{unfinished} exists: another process is changing the keys. If none is, delete that file."
            ) from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                keys = self.read()
                if keys is None:
                    raise SecretError(f"{self.path} does not exist.")
                added = new_key()
                _write(file, [added, *keys])
                _make_readable_as(path, file)
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
        return added


def key_file_beside(store: Path) -> Path:
    """The file with the keys of a store in a file: `parley.db.key` beside `parley.db`."""
    return store.with_name(f"{store.name}.key")


def key_source(text: str) -> KeySource:
    """The source that `--store-key` names: a file, or `env:` and a variable."""
    if text.startswith(VARIABLE):
        return KeyVariable(text.removeprefix(VARIABLE))
    return KeyFile(Path(text))


def _create(path: Path) -> int:
    """Create a file that its owner alone can read, and open it. Raises OSError."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)


def _write(file: TextIO, keys: Sequence[StoreKey]) -> None:
    file.write(_HEADER + "".join(f"{encode_key(key)}  # {key.id}\n" for key in keys))
    file.flush()
    os.fsync(file.fileno())


def _make_readable_as(path: Path, file: TextIO) -> None:
    """Give a file the owner and mode of the one that it replaces: it may be root who changes the key of a server."""
    if os.name == "posix":
        found = path.stat()
        with suppress(PermissionError):  # of a file of another user; then its owner alone can read the new one
            os.fchown(file.fileno(), found.st_uid, found.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))


def _sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk: a key that a power failure took would take the secrets with it."""
    with suppress(PermissionError):  # of Windows, which does not open directories
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not text"
