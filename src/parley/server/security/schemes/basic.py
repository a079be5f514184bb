"""Basic authentication, RFC 7617: user names and passwords, stored as scrypt hashes.

scrypt is slow on purpose, so it runs in threads of its own, a valid password is cached for a minute, and the queue is
bounded. An unknown user name takes as long to check as a known one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hmac import compare_digest

from msgspec import Struct

from parley.protocol.cards import HttpAuthScheme, SecurityScheme
from parley.protocol.errors import UnavailableError
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.authorization_header import read_authorization
from parley.server.security.schemes.check_cache import CheckCache
from parley.server.security.schemes.scheme import Challenge, Proof, Refused, SettingError

REMEMBERED_SECONDS = 60
"""How long a valid password is cached."""
REMEMBERED = 1_000
"""The most valid passwords that are cached."""
THREADS = 2
"""Each check uses a core and 16 MB for a fifth of a second; the other cores are for requests."""
WAITING = 32
"""Checks that may be queued: about three seconds of work."""
MAX_PASSWORD = 1_024

# One of the minimums in OWASP's password storage cheat sheet: n=2^14, r=8, p=5, which takes the least memory.
_LN, _R, _P = 14, 8, 5
_PHC = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{43})")
_DIGEST_BYTES = 32


class BasicUser(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user: the password as a hash of `hash_password`, the scopes and the tenant."""

    name: str
    password: str
    scopes: tuple[str, ...] = ()
    tenant: str | None = None

    def __repr__(self) -> str:
        return f"BasicUser(name={self.name!r})"


def hash_password(password: str) -> str:
    """The hash of a password with a new salt: `$scrypt$ln=14,r=8,p=5$salt$digest`."""
    return _Hash(_LN, _R, _P, os.urandom(16), b"").of(password).text()


class _Hash(Struct, frozen=True):
    """The hash of a password, with its salt and cost."""

    ln: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @classmethod
    def read(cls, text: str) -> _Hash:
        found = _PHC.fullmatch(text)
        if not found:
            raise ValueError("it is not a hash of `parley password`")
        ln, r, p = (int(found[group]) for group in (1, 2, 3))
        # Higher costs would take a gigabyte and seconds for each check; lower ones are not secure.
        if not (10 <= ln <= 18 and 1 <= r <= 16 and 1 <= p <= 16):
            raise ValueError("the cost of the hash is out of range")
        return cls(ln, r, p, *(b64decode(found[group] + "==") for group in (4, 5)))

    def of(self, password: str) -> _Hash:
        """The hash of a password with the same salt and cost."""
        n = 1 << self.ln
        digest = hashlib.scrypt(
            password.encode(), salt=self.salt, n=n, r=self.r, p=self.p, maxmem=256 * n * self.r, dklen=_DIGEST_BYTES
        )
        return _Hash(self.ln, self.r, self.p, self.salt, digest)

    def text(self) -> str:
        salt, digest = (b64encode(part).decode().rstrip("=") for part in (self.salt, self.digest))
        return f"$scrypt$ln={self.ln},r={self.r},p={self.p}${salt}${digest}"


class BasicUsers:
    """Accepts the users that are listed."""

    def __init__(self, users: Sequence[BasicUser], *, description: str | None = None) -> None:
        """Raises SettingError if a name is missing, repeated or has a colon, or a password is not hashed."""
        self._users: dict[str, tuple[BasicUser, _Hash]] = {}
        for index, user in enumerate(users):
            if not user.name or ":" in user.name:
                raise SettingError(f"users[{index}].name", "it must not be empty or contain a colon")
            if user.name in self._users:
                raise SettingError(f"users[{index}].name", f"{user.name!r} is repeated")
            try:
                self._users[user.name] = user, _Hash.read(user.password)
            except ValueError as exc:
                raise SettingError(f"users[{index}].password", str(exc)) from None
        # As slow as the hash of a known user, so that timing does not show which names exist.
        ln, r, p = max(((known.ln, known.r, known.p) for _, known in self._users.values()), default=(_LN, _R, _P))
        self._unknown_user = _Hash(ln, r, p, os.urandom(16), os.urandom(_DIGEST_BYTES))
        self.card: SecurityScheme = HttpAuthScheme("Basic", description=description)
        self.challenge = Challenge("Basic", {"charset": "UTF-8"})
        self._proofs = CheckCache[Proof](seconds=REMEMBERED_SECONDS, size=REMEMBERED)
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        """Identify the user; see `Scheme.verify`."""
        token = read_authorization(credentials, "basic")
        if token is None:
            return None
        name, password = _read_pair(token)
        return await self._proofs.get(token, lambda: self._check(name, password))

    async def _check(self, name: str, password: str) -> Proof:
        user, stored = self._users.get(name, (None, self._unknown_user))
        if self._waiting >= WAITING:
            raise UnavailableError("Too many passwords are being checked; try again later")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "parley-passwords")
        self._waiting += 1
        try:
            made = await asyncio.get_running_loop().run_in_executor(self._threads, stored.of, password)
        finally:
            self._waiting -= 1
        if not compare_digest(made.digest, stored.digest) or user is None:
            raise Refused("The user name or the password is wrong")
        return Proof(user.name, frozenset(user.scopes), tenant=user.tenant)

    async def close(self) -> None:
        """Clear the cache, and stop the threads."""
        await self._proofs.close()
        if self._threads:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _read_pair(token: str) -> tuple[str, str]:
    try:
        name, colon, password = b64decode(token, validate=True).decode().partition(":")
    except (Base64Error, UnicodeDecodeError):
        raise Refused("The Authorization header is malformed") from None
    if not colon or len(password) > MAX_PASSWORD:
        raise Refused("The Authorization header is malformed")
    return name, password
