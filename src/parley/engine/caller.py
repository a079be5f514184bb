"""The caller as the engine knows it. Authentication is the server's concern."""

from __future__ import annotations

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject
from parley.protocol.versions import Version
from parley.stores.interface import Owner


class Caller(Struct, frozen=True):
    """A caller within a tenant, and the dialect it speaks.

    `name` owns the tasks it creates. The empty name stands for all callers of a server without authentication.
    """

    name: str = ""
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    claims: JsonObject = {}
    version: Version = Version.V1_0

    @property
    def owner(self) -> Owner:
        """Whose tasks this caller sees."""
        return Owner(self.tenant, self.name)


ANONYMOUS_CALLER = Caller()
