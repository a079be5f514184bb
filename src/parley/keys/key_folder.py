"""Creates, rotates and retires the keys in a folder. Several processes may do so at once, while servers use the keys.

Each change is one rename or one deletion, so a process that is killed has made it or not. The folder never loses its
current key: `retire` refuses that one, and a rotation only adds a key.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from parley.keys.rotation import LEAD, OVERLAP, KeyState, Rotation, StoredKey
from parley.keys.signing_key import LocalKey, generate_key
from parley.keys.stored_keys import (
    SUFFIX,
    KeyFolderError,
    check_folder,
    check_key_id,
    create_folder,
    locked,
    read_fingerprint,
    read_stored_key,
    sync_folder,
    write_stored_key,
)
from parley.protocol.signing import CardKey

ALGORITHM = "ES256"


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


class KeyFolder:
    """A folder of keys: `KeyFolder(Path("keys")).rotate()`."""

    def __init__(self, path: str | Path, *, now: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(path)
        self._now = now

    def read(self) -> Rotation:
        """All keys, which may be none.

        Raises:
            KeyFolderError: the folder or a file in it cannot be used.
        """
        check_folder(self.path)
        while True:
            found = read_fingerprint(self.path)
            try:
                return Rotation([read_stored_key(self.path / name) for name, *_ in found])
            except KeyFolderError:
                if read_fingerprint(self.path) == found:  # otherwise a file was deleted before it was read
                    raise

    def create(self, key: CardKey | None = None, *, algorithm: str = ALGORITHM, key_id: str | None = None) -> StoredKey:
        """Create the folder, if it is missing, and its first key: the given one, or a new one.

        Raises:
            KeyFolderError: the folder has keys already, or cannot be used.
        """
        new = self._new_key(key, algorithm, key_id)
        try:
            create_folder(self.path)
        except OSError as error:
            raise KeyFolderError(f"{self.path} cannot be created: {error.strerror}") from error
        with self._changing() as rotation:
            if rotation.keys:
                raise KeyFolderError(
                    f"{self.path} has keys already. Use parley keys rotate {self.path} to replace the current one"
                )
            now = self._now()
            return self._write(StoredKey(new, now, now, timedelta()))

    def rotate(
        self,
        key: CardKey | None = None,
        *,
        lead: timedelta = LEAD,
        overlap: timedelta = OVERLAP,
        algorithm: str | None = None,
        key_id: str | None = None,
    ) -> StoredKey:
        """Publish another key now, sign with it after `lead`, and publish the current one for `overlap` after that.

        With a `lead` of zero, a key that is published already signs at once, if there is one. Keys that have expired
        are deleted. The algorithm is that of the current key, unless it is given.

        Raises:
            KeyFolderError: there is no key yet, another rotation is under way, or the folder cannot be used.
        """
        if key_id is not None:
            check_key_id(key_id)
        with self._changing() as rotation:
            now = self._now()
            if not rotation.keys:
                raise KeyFolderError(
                    f"{self.path} has no key yet. Use parley keys new {self.path} to create the first one"
                )
            current, newest = rotation.current(now), rotation.keys[-1]
            # Keys are ordered by this moment, so two of them never have the same.
            begins = max(now + lead, current.active_from + timedelta(microseconds=1))
            if newest is not current:
                is_other = key is not None or key_id is not None or algorithm not in (None, newest.key.algorithm)
                if lead or is_other:
                    raise KeyFolderError(
                        f"A rotation is under way: {newest.key_id} signs from {newest.active_from:%Y-%m-%d %H:%M:%S} "
                        f"UTC on. Use parley keys rotate {self.path} --now to sign with it now"
                    )
                return self._write(replace(newest, active_from=begins, overlap=overlap))
            new = self._new_key(key, algorithm or current.key.algorithm, key_id)
            if rotation.find(new.key_id) is not None:
                raise KeyFolderError(f"{self.path} has a key with the id {new.key_id} already")
            made = self._write(StoredKey(new, now, begins, overlap))
            self._delete_expired(rotation, now)
            return made

    def retire(self, key_id: str, *, now: bool = False) -> StoredKey:
        """Delete a key, and those that have expired. Until its overlap has ended, that needs `now`: what it has signed
        would be rejected.

        Raises:
            KeyFolderError: there is no such key, it is the current one, or its signatures are still in use.
        """
        with self._changing() as rotation:
            moment = self._now()
            key = rotation.find(key_id)
            if key is None:
                known = ", ".join(one.key_id for one in rotation.keys) or "none"
                raise KeyFolderError(f"{self.path} has no key {key_id}. Its keys: {known}")
            state = rotation.state(key, moment)
            if state is KeyState.CURRENT:
                raise KeyFolderError(
                    f"{key_id} is the current key. Use parley keys rotate {self.path} to replace it first"
                )
            if state is KeyState.RETIRING and not now:
                until = rotation.published_until(key)
                raise KeyFolderError(
                    f"What {key_id} has signed must be accepted until {until:%Y-%m-%d %H:%M:%S} UTC. If the key is "
                    "compromised, delete it with --now"
                )
            self._delete_expired(rotation, moment)  # first: without the key after them they would be published again
            self._delete(key)
            return key

    # --- changes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Generator[Rotation]:
        """The keys as they are, while no other process can change them."""
        check_folder(self.path)
        with locked(self.path):
            yield self.read()

    def _new_key(self, key: CardKey | None, algorithm: str, key_id: str | None) -> LocalKey:
        key = key or generate_key(algorithm)
        return LocalKey(key, check_key_id(key_id or key.kid or self._new_id(key)))

    def _new_id(self, key: CardKey) -> str:
        """An id that people can tell apart: the day, and a part of the hash of the public key."""
        return f"{self._now():%Y-%m-%d}-{sha256(key.thumbprint().encode()).hexdigest()[:8]}"

    def _write(self, key: StoredKey) -> StoredKey:
        try:
            write_stored_key(self.path, key)
        except OSError as error:
            raise KeyFolderError(f"{self.path} cannot be changed: {error.strerror}") from error
        return key

    def _delete_expired(self, rotation: Rotation, now: datetime) -> None:
        for one in rotation.keys:  # the oldest first: how long a key is published depends on the one after it
            if rotation.state(one, now) is not KeyState.EXPIRED:
                break
            self._delete(one)

    def _delete(self, key: StoredKey) -> None:
        try:
            (self.path / f"{key.key_id}{SUFFIX}").unlink(missing_ok=True)
        except OSError as error:
            raise KeyFolderError(f"{self.path} cannot be changed: {error.strerror}") from error
        sync_folder(self.path)
