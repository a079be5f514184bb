"""The files of a key folder: one JWK per key, which its owner alone can read.

A file is created whole or not at all: it is written under another name, synced, and renamed. It is refused if it is a
link, belongs to another user, can be read by others, or is not what `parley keys` writes; the error names the file and
what to do. Names that begin with a dot are the folder's own: its lock, and files that are being written.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from parley.file_lock import HAS_LOCKS, lock_file
from parley.keys.rotation import StoredKey
from parley.keys.signing_key import LocalKey
from parley.protocol.errors import LocalProtocolError
from parley.protocol.signing import load_key

SUFFIX = ".json"
MAX_BYTES = 65_536
"""The size of a file. An RSA key of 16,384 bits has 13 KB."""

LOCK = ".lock"
LOCK_SECONDS = 10.0
"""How long a change waits for that of another process, which takes milliseconds."""

KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
"""Ids that are also names of files, and arguments of commands."""

_HAS_MODES = os.name == "posix"
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a named pipe must not wait for its writer


class KeyFolderError(LocalProtocolError):
    """The folder of keys, or a file in it, cannot be used."""


class _KeyTimes(Struct, forbid_unknown_fields=True):
    created: datetime
    active_from: datetime
    overlap_seconds: float


class _KeyFile(Struct):
    kid: str
    parley: _KeyTimes


def check_key_id(key_id: str) -> str:
    """The id, if a file can have it as its name.

    Raises:
        KeyFolderError: it cannot.
    """
    if not KEY_ID.fullmatch(key_id):
        raise KeyFolderError(
            f"Invalid key id: {key_id!r}. It must begin with a letter or digit, and have up to 100 letters, digits, "
            "dots, hyphens and underscores"
        )
    return key_id


# --- reading ----------------------------------------------------------------------------------------------------------


def check_folder(folder: Path) -> list[str]:
    """Warnings about who can list the folder.

    Raises:
        KeyFolderError: it is not a folder, belongs to another user, or others can replace its files.
    """
    try:
        found = folder.stat()
    except OSError as error:
        raise KeyFolderError(f"{folder} cannot be read: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise KeyFolderError(f"{folder} is not a folder")
    if not _HAS_MODES:
        return []
    _check_owner(folder, found)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022:
        raise KeyFolderError(f"Others can replace the keys in {folder} (mode {mode:04o}): chmod 700 {folder}")
    return [f"Others can list the keys in {folder} (mode {mode:04o}): chmod 700 {folder}"] if mode & 0o055 else []


def _check_owner(path: Path, found: os.stat_result) -> None:
    user = os.geteuid()
    if found.st_uid not in (user, 0) and user != 0:
        raise KeyFolderError(f"{path} belongs to another user (id {found.st_uid}), who can change it")


Fingerprint = tuple[tuple[str, int, int, int, int], ...]
"""What changes with every change of a folder: for each file its name, inode, size, time of change, and mode."""


def read_fingerprint(folder: Path) -> Fingerprint:
    """The fingerprint of the keys in a folder.

    Raises:
        KeyFolderError: the folder cannot be listed.
    """
    seen: list[tuple[str, int, int, int, int]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                    with suppress(FileNotFoundError):  # it was deleted since
                        found = entry.stat(follow_symlinks=False)
                        seen.append((entry.name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode))
    except OSError as error:
        raise KeyFolderError(f"{folder} cannot be read: {error.strerror}") from error
    return tuple(sorted(seen))


def read_stored_key(path: Path) -> StoredKey:
    """The key in a file of a key folder.

    Raises:
        KeyFolderError: it cannot be used; the message names the file.
    """
    text = _read(path)
    try:
        file = msgspec.json.decode(text, type=_KeyFile)
        jwk = msgspec.json.decode(text, type=dict[str, Any])
        times = file.parley
        if times.created.tzinfo is None or times.active_from.tzinfo is None:
            raise KeyFolderError("a time has no time zone")
        if not 0 <= times.overlap_seconds < 1e10:
            raise KeyFolderError("the overlap is not a number of seconds")
        key = load_key({name: value for name, value in jwk.items() if name != "parley"})
        stored = StoredKey(
            LocalKey(key, check_key_id(file.kid)),
            times.created,
            times.active_from,
            timedelta(seconds=times.overlap_seconds),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, LocalProtocolError, RecursionError) as error:
        raise KeyFolderError(f"{path} is not a key that parley keys has written: {error}") from error
    if path.name != f"{file.kid}{SUFFIX}":
        raise KeyFolderError(f"{path} holds the key {file.kid}, whose file is {file.kid}{SUFFIX}. Move it out")
    return stored


def _read(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _NO_FOLLOW | _NO_WAIT)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise KeyFolderError(f"{path} is a symbolic link. A key must be a file of its own") from error
        raise KeyFolderError(f"{path} cannot be read: {error.strerror}") from error
    try:
        _check_file(path, os.fstat(handle))
        text = _read_bytes(handle)
    except OSError as error:
        raise KeyFolderError(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(handle)
    if len(text) > MAX_BYTES:
        raise KeyFolderError(f"{path} has more than {MAX_BYTES} bytes, so it is not a key")
    return text


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeyFolderError(f"{path} is not a regular file")
    if not _HAS_MODES:
        return
    _check_owner(path, found)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise KeyFolderError(
            f"Others can read the private key {path} (mode {mode:04o}): chmod 600 {path}. If they may have read it, "
            f"use parley keys rotate {path.parent} --now to replace it then"
        )


def _read_bytes(handle: int) -> bytes:
    text = b""
    while len(text) <= MAX_BYTES and (chunk := os.read(handle, MAX_BYTES + 1)):
        text += chunk
    return text


# --- writing ----------------------------------------------------------------------------------------------------------


def create_folder(folder: Path) -> None:
    """Create a folder that its owner alone can use, unless it is there. Raises OSError."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)


@contextmanager
def locked(folder: Path, *, seconds: float = LOCK_SECONDS) -> Generator[None]:
    """Keep other processes from changing the folder, and remove what one that was killed has left behind.

    Raises:
        KeyFolderError: another process is changing it, or it cannot be written.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NO_FOLLOW, 0o600)
    except OSError as error:
        raise KeyFolderError(f"{folder} cannot be changed: {error.strerror}") from error
    try:
        deadline = time.monotonic() + seconds
        while HAS_LOCKS and not _lock(handle, folder):
            if time.monotonic() > deadline:
                raise KeyFolderError(f"Another process is changing the keys in {folder}. Try again")
            time.sleep(0.02)
        for left in folder.glob(".*.tmp"):
            left.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> bool:
    try:
        return lock_file(handle)
    except OSError as error:
        raise KeyFolderError(f"{folder} cannot be locked: {error.strerror}") from error


def write_stored_key(folder: Path, stored: StoredKey) -> None:
    """Create the file of a key, or replace it. The folder is locked.

    Raises:
        OSError: it cannot be written; then nothing has changed.
    """
    times = _KeyTimes(stored.created, stored.active_from, stored.overlap.total_seconds())
    content = {**stored.key.private_jwk(), "parley": msgspec.to_builtins(times)}
    write_private(folder / f"{stored.key_id}{SUFFIX}", msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def write_private(path: Path, content: bytes, *, replaces: bool = True) -> None:
    """Write a file that its owner alone can read, whole or not at all.

    Raises:
        FileExistsError: it exists, and must not be replaced.
        OSError: it cannot be written.
    """
    written = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | _NO_FOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            _give_to_owner_of(path.parent, handle)
            file.write(content)
            file.flush()
            os.fsync(handle)
        if replaces:
            written.replace(path)
        else:
            os.link(written, path)
            written.unlink()
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _give_to_owner_of(folder: Path, handle: int) -> None:
    """What root creates in the folder of a service must be readable for that service."""
    if _HAS_MODES and os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable. Some systems cannot sync folders; there a crash of the machine may undo it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
