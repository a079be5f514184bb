"""What the tests of the host's data share: a store that suspends, as one on a disk does, and time that stands still."""

from __future__ import annotations

from random import Random

from parley.stores.interface import Records
from tests.host.stores import MemoryStore
from tests.suspending import suspending

ACME, OTHER = "1", "2"
"""Two tenants."""


def suspending_records(seed: int) -> Records:
    """Records whose every call suspends, so that what is called at once really overlaps."""
    return suspending(MemoryStore(), Random(seed)).records
