"""Which messages were certainly not sent lately: known without reading the file.

Nearly every message is new, and each must be looked for. So the process that owns a file keeps one table of moments: a
message has a slot in it by its hash, and the slot holds the latest moment at which any message of that slot was
sent. A message whose slot says "before the window" is new. If the slot says otherwise, the file must be read; so it
must for messages from before the opening of the file, if they were too many to be read then.
"""

from __future__ import annotations

import sqlite3
from array import array

from parley.stores.interface import Owner, SendKey

SLOTS = 2**19
"""Four megabytes, whatever comes. Of 50,000 messages within the window, nine new ones in a hundred are looked for."""

READ_AT_OPENING = 50_000
"""Messages that are read when a file is opened, the latest first: within a tenth of a second."""


class RecentSends:
    """When messages were sent, as far as it takes to say that one was not."""

    def __init__(self, reader: sqlite3.Connection) -> None:
        """Knows what the file holds."""
        self._latest = array("q", bytes(8 * SLOTS))
        self._unknown_until = -1
        rows = reader.execute(
            "SELECT sent_at, tenant, owner, message_id, digest FROM sends ORDER BY sent_at DESC LIMIT ?",
            (READ_AT_OPENING,),
        ).fetchall()
        for sent_at, tenant, owner, message_id, digest in rows:
            self.note(Owner(tenant, owner), SendKey(message_id, digest), sent_at)
        if len(rows) == READ_AT_OPENING:
            self._unknown_until = rows[-1][0]

    def note(self, owner: Owner, send: SendKey, sent_at: int) -> None:
        """Note that a message is sent at a moment; to be called before it is written."""
        slot = self._slot(owner, send)
        self._latest[slot] = max(self._latest[slot], sent_at)

    def is_new(self, owner: Owner, send: SendKey, since: int) -> bool:
        """Whether a message was certainly not sent at or after a moment."""
        return since > self._unknown_until and self._latest[self._slot(owner, send)] < since

    def _slot(self, owner: Owner, send: SendKey) -> int:
        # Python's hashes of texts differ from process to process: no sender can choose messages that share a slot.
        return hash((owner.tenant, owner.name, send.message_id, send.digest)) % SLOTS
