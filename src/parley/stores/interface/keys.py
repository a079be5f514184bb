"""Keys: a task belongs to an owner, and the owner is part of every key and every query.

What belongs to another owner does not exist.
"""

from __future__ import annotations

from msgspec import Struct


class Owner(Struct, frozen=True, gc=False):
    """Whose tasks: a tenant, and a caller within it."""

    tenant: str
    name: str


class TaskKey(Struct, frozen=True, gc=False):
    """One task of one owner."""

    owner: Owner
    task_id: str
