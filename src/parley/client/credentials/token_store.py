"""What a person has logged in with, kept until it is forgotten: tokens, keys and passwords, by agent and scheme.

Each login is a file of its own that only its owner can read, replaced as a whole, so that two processes never see or
leave half of one; and a lock beside it, because a refresh token that two processes use makes many servers end the login
(RFC 9700 section 4.14.2); where a system has no locks, two processes may renew a login at once. Where the files are is
the caller's choice. A login belongs to one origin: see `credentials`.
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
"""How long another process is waited for that renews a login: longer than it may take."""
LOCK_PAUSE = 0.05
"""Between two looks at a lock."""


class Tokens(Struct, frozen=True, omit_defaults=True):
    """What an authorization server gave: times are seconds since 1970."""

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
    """One scheme of one agent, and what satisfies it: `secret`, or `tokens` with where and as whom they are renewed."""

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
        """Keep a login in place of what was there."""
        ...

    def forget(self, origin: str, scheme: str | None = None) -> int:
        """Remove the logins for an origin, or for one scheme of it; how many there were."""
        ...

    def all(self) -> list[Login]:
        """Every login, by origin and scheme."""
        ...

    def exclusive(self, origin: str, scheme: str) -> AbstractAsyncContextManager[None]:
        """Within the block, nobody else renews this login; whoever comes meanwhile waits."""
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
    """Logins in a directory, a file each, for their owner's eyes only."""

    def __init__(self, directory: Path | str) -> None:
        """Nothing is read or made yet."""
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
            # mkstemp makes files of mode 0600: there is no moment at which others could open it.
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
            raise CredentialsError(f"The login cannot be kept in {self._directory}: {error.strerror}") from error

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
        """See `LoginStore`. On systems and disks without locks, and after a while, nobody is waited for."""
        handle = await _lock(self._lock_file(origin, scheme))
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def _files(self) -> list[Path]:
        return list(self._directory.glob("*.json"))

    def _file(self, origin: str, scheme: str) -> Path:
        # Names of schemes come from foreign cards: a digest cannot leave the directory.
        name = hashlib.sha256(f"{origin}\n{scheme}".encode()).hexdigest()[:40]
        return self._directory / f"{name}.json"

    def _lock_file(self, origin: str, scheme: str) -> Path:
        # Not the login's own file, which is replaced while somebody waits for it.
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
            # Without the cause: it may quote what is in the file.
            raise CredentialsError(f"{file} is damaged; remove it and log in again") from None


async def _lock(file: Path) -> int | None:
    """A handle on the file that nobody else has, to be closed; None if there is none to be had."""
    try:
        handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)  # which no child inherits: PEP 446
    except OSError:
        return None
    try:
        async with asyncio.timeout(LOCK_SECONDS):
            while not lock_file(handle):
                await asyncio.sleep(LOCK_PAUSE)
    except OSError:  # no locks here, or TimeoutError
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle
