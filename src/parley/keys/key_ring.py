"""The keys in a folder, as a server uses them: it follows changes of the folder while it runs.

The folder is looked at when a key is used, at most once a second, so `parley keys rotate` needs no signal. If it cannot
be read, the keys that were read last stay in use, and the reason is logged. It writes nothing: `KeyFolder` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Literal, TypeAlias

from parley.keys.key_folder import KeyFolder, utc_now
from parley.keys.rotation import Rotation, StoredKey
from parley.keys.signing_key import CountedKey, SigningKey, encode_key_set, encode_token
from parley.keys.stored_keys import Fingerprint, KeyFolderError, check_folder, read_fingerprint
from parley.protocol.jsonvalue import JsonValue

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""The least time between two looks at the folder, so that a busy server does not look for every signature."""

KeyChange: TypeAlias = Literal["key-published", "key-current", "key-withdrawn"]
"""What happened to a key, as this process has seen it."""


class KeyRing:
    """The keys in a folder: `App(agent, signer=KeyRing("keys"))`. Threads may share it."""

    def __init__(
        self,
        folder: str | Path,
        *,
        on_change: Callable[[KeyChange, str], None] | None = None,
        now: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` gets the id of each key that is published, signs, or is withdrawn, from now on.

        Raises:
            KeyFolderError: the folder or a file in it cannot be used, or it has no key.
        """
        self.folder = Path(folder)
        self.on_change = on_change
        self._now = now
        self._monotonic = monotonic
        self._lock = RLock()
        self._counted: dict[str, CountedKey] = {}
        self._seen: Fingerprint = ()
        self._failed: Fingerprint | None = None
        self._rotation = Rotation(())
        self._known: tuple[str, ...] = ()
        """The ids that were published at the last look, the current one first."""
        self._page: tuple[tuple[str, ...], bytes] = ((), b"")
        self._next_look = 0.0
        for warning in check_folder(self.folder):
            logger.warning(warning)
        self.reload()

    def __repr__(self) -> str:
        return f"KeyRing({str(self.folder)!r})"

    # --- what a server uses -------------------------------------------------------------------------------------------

    @property
    def current(self) -> SigningKey:
        """See `SigningKeys`."""
        return self._counted[self._current().key_id]

    @property
    def current_since(self) -> datetime | None:
        """See `SigningKeys`."""
        return self._current().active_from

    @property
    def jku(self) -> str | None:
        """See `SigningKeys`."""
        return None

    @property
    def signatures(self) -> Mapping[str, int]:
        """See `SigningKeys`."""
        with self._lock:
            return {key_id: key.count for key_id, key in self._counted.items()}

    def published(self) -> bytes:
        """See `SigningKeys`."""
        keys = self._looked_at().published(self._now())
        ids = tuple(one.key_id for one in keys)
        known, page = self._page
        if ids != known:
            page = encode_key_set(one.key for one in keys)
            self._page = (ids, page)
        return page

    def sign_token(self, claims: Mapping[str, JsonValue]) -> str:
        """See `SigningKeys`."""
        return encode_token(self.current, claims)

    # --- changes of the folder ----------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the folder now.

        Raises:
            KeyFolderError: the folder or a file in it cannot be used, or it has no key. The old keys stay in use.
        """
        with self._lock:
            self._next_look = self._monotonic() + LOOK_SECONDS
            self._read(read_fingerprint(self.folder))
            self._report()

    def _current(self) -> StoredKey:
        return self._looked_at().current(self._now())

    def _looked_at(self) -> Rotation:
        """The keys, read again if the folder has changed since the last look."""
        if self._monotonic() < self._next_look:
            return self._rotation
        with self._lock:
            if self._monotonic() >= self._next_look:
                self._next_look = self._monotonic() + LOOK_SECONDS
                self._look()
                self._report()
        return self._rotation

    def _look(self) -> None:
        found: Fingerprint | None = None
        try:
            found = read_fingerprint(self.folder)
            if found != self._seen and found != self._failed:
                self._read(found)
                logger.info("The keys in %s were read again", self.folder)
        except KeyFolderError as error:
            # The same problem is not logged each second. `()` stands for a folder that cannot be listed.
            if self._failed != (found or ()):
                logger.error("The keys in %s cannot be read again; the old ones stay in use: %s", self.folder, error)
            self._failed = found or ()

    def _read(self, found: Fingerprint) -> None:
        # The fingerprint is older than what is read: a change in between has another one, and is read at the next look.
        rotation = KeyFolder(self.folder).read()
        if not rotation.keys:
            raise KeyFolderError(f"{self.folder} has no key. Create one with parley keys new {self.folder}")
        for one in rotation.keys:
            known = self._counted.get(one.key_id)
            if known is None or known.public_jwk != one.key.public_jwk:
                self._counted[one.key_id] = CountedKey(one.key)
        self._rotation, self._seen, self._failed = rotation, found, None
        self._page = ((), b"")

    def _report(self) -> None:
        """Tell `on_change` what is different from the last look."""
        before, self._known = self._known, tuple(one.key_id for one in self._rotation.published(self._now()))
        if self.on_change is None or not before or before == self._known:
            return
        for key_id in self._known:
            if key_id not in before:
                self.on_change("key-published", key_id)
        if self._known[0] != before[0]:
            self.on_change("key-current", self._known[0])
        for key_id in before:
            if key_id not in self._known:
                self.on_change("key-withdrawn", key_id)
