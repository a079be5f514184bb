"""Logins of a person: tokens, keys and passwords by origin and scheme, kept until they are removed.

Each login is a file that only its owner can read. It is replaced atomically, so that no process sees half of one. A
lock file beside it keeps two processes from using one refresh token, which makes many servers end the login (RFC 9700
section 4.14.2). On systems without file locks, two processes may renew a login at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from parley.client.errors import CredentialsError
from parley.file_lock import lock_file

LOCK_SECONDS = 40.0
"""How long to wait for another process that renews a login: longer than a renewal takes."""
LOCK_PAUSE = 0.05
"""Between two attempts to get a lock."""


class Tokens(Struct, frozen=True, omit_defaults=True):
    """Tokens of an authorization server. Times are seconds since 1970."""

    access_token: str
    expires_at: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] = ()
    issued_at: float | None = None

    def __repr__(self) -> str:
        return f"Tokens(expires_at={self.expires_at}, scopes={self.scopes})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("expires_at", self.expires_at), ("scopes", self.scopes)]


class Login(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What satisfies one scheme of one agent: `secret`, or `tokens` with what is needed to renew them."""

    origin: str
    scheme: str
    kind: str
    secret: str | None = None
    tokens: Tokens | None = None
    token_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    secret_in_body: bool = False
    resource: str | None = None

    def __repr__(self) -> str:
        return f"Login(origin={self.origin!r}, scheme={self.scheme!r}, kind={self.kind!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("origin", self.origin), ("scheme", self.scheme), ("kind", self.kind)]


class LoginStore(Protocol):
    """Where logins are kept."""

    def get(self, origin: str, scheme: str) -> Login | None:
        """The login for a scheme of the agents at an origin."""
        ...

    def put(self, login: Login) -> None:
        """Save a login, replacing the one for its origin and scheme."""
        ...

    def forget(self, origin: str, scheme: str | None = None) -> int:
        """Remove the logins for an origin, or for one scheme of it, and return how many there were."""
        ...

    def all(self) -> list[Login]:
        """Every login, by origin and scheme."""
        ...

    def exclusive(self, origin: str, scheme: str) -> AbstractAsyncContextManager[None]:
        """Within the block, no other task or process renews this login; others wait."""
        ...


class MemoryLogins:
    """Logins that end with the process."""

    def __init__(self) -> None:
        self._logins: dict[tuple[str, str], Login] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def get(self, origin: str, scheme: str) -> Login | None:
        """See `LoginStore`."""
        return self._logins.get((origin, scheme))

    def put(self, login: Login) -> None:
        """See `LoginStore`."""
        self._logins[login.origin, login.scheme] = login

    def forget(self, origin: str, scheme: str | None = None) -> int:
        """See `LoginStore`."""
        gone = [key for key in self._logins if key[0] == origin and scheme in (None, key[1])]
        for key in gone:
            del self._logins[key]
        return len(gone)

    def all(self) -> list[Login]:
        """See `LoginStore`."""
        return [self._logins[key] for key in sorted(self._logins)]

    @asynccontextmanager
    async def exclusive(self, origin: str, scheme: str) -> AsyncGenerator[None]:
        """See `LoginStore`."""
        lock = self._locks.get((origin, scheme))
        if lock is None:
            lock = self._locks[origin, scheme] = asyncio.Lock()
        async with lock:
            yield


class FileLogins:
    """Logins in a directory, one file each, readable by their owner only."""

    def __init__(self, directory: Path | str) -> None:
        """Nothing is read or created yet."""
        self._directory = Path(directory)

    def __repr__(self) -> str:
        return f"FileLogins({str(self._directory)!r})"

    def get(self, origin: str, scheme: str) -> Login | None:
        """See `LoginStore`. Raises CredentialsError if the file is open to others, or damaged."""
        login = self._read(self._file(origin, scheme))
        return login if login and (login.origin, login.scheme) == (origin, scheme) else None

    def put(self, login: Login) -> None:
        """See `LoginStore`. Raises CredentialsError if it cannot be written."""
        file = self._file(login.origin, login.scheme)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp creates files with mode 0600, so that others can never open it.
            handle, name = tempfile.mkstemp(dir=self._directory, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as writing:
                    writing.write(msgspec.json.encode(login))
                    writing.flush()
                    os.fsync(writing.fileno())
                os.replace(name, file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise CredentialsError(f"The login cannot be saved in {self._directory}: {error.strerror}") from error

    def forget(self, origin: str, scheme: str | None = None) -> int:
        """See `LoginStore`. Files that cannot be read are left as they are."""
        count = 0
        for file in self._files():
            with suppress(CredentialsError):
                login = self._read(file, is_private=False)
                if login is not None and login.origin == origin and scheme in (None, login.scheme):
                    file.unlink(missing_ok=True)
                    self._lock_file(login.origin, login.scheme).unlink(missing_ok=True)
                    count += 1
        return count

    def all(self) -> list[Login]:
        """See `LoginStore`. Raises as `get` does."""
        found = [login for file in self._files() if (login := self._read(file))]
        return sorted(found, key=lambda login: (login.origin, login.scheme))

    @asynccontextmanager
    async def exclusive(self, origin: str, scheme: str) -> AsyncGenerator[None]:
        """See `LoginStore`. Without file locks, or after `LOCK_SECONDS`, the block is entered anyway."""
        handle = await _lock(self._lock_file(origin, scheme))
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def _files(self) -> list[Path]:
        return list(self._directory.glob("*.json"))

    def _file(self, origin: str, scheme: str) -> Path:
        # Scheme names come from foreign cards: a digest cannot point outside the directory.
        name = hashlib.sha256(f"{origin}\n{scheme}".encode()).hexdigest()[:40]
        return self._directory / f"{name}.json"

    def _lock_file(self, origin: str, scheme: str) -> Path:
        # Not the login's own file, which is replaced while others wait for the lock.
        return self._file(origin, scheme).with_suffix(".lock")

    def _read(self, file: Path, *, is_private: bool = True) -> Login | None:
        try:
            with file.open("rb") as reading:
                if is_private and os.name == "posix" and os.fstat(reading.fileno()).st_mode & 0o077:
                    raise CredentialsError(f"{file} can be read by others; run: chmod 600 {file}")
                return msgspec.json.decode(reading.read(), type=Login)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CredentialsError(f"{file} cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Without the cause, which may quote the file.
            raise CredentialsError(f"{file} is damaged; remove it and log in again") from None


async def _lock(file: Path) -> int | None:
    """An exclusive handle on the file, to be closed; None if it cannot be locked."""
    try:
        handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)  # not inherited by child processes: PEP 446
    except OSError:
        return None
    try:
        async with asyncio.timeout(LOCK_SECONDS):
            while not lock_file(handle):
                await asyncio.sleep(LOCK_PAUSE)
    except OSError:  # no file locks, or TimeoutError
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle
