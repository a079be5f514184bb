"""A host as `parley doctor` sees it: replies as JSON, and refusals as findings instead of errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec

from parley.cli.admin.host_connection import HostConnection


class ExaminedHost:
    """The host at the end of a connection."""

    def __init__(self, connection: HostConnection) -> None:
        self.connection = connection

    async def read(self, path: str, *, tenant: str | None = None) -> tuple[int, dict[str, Any]]:
        """The status of a reply, 0 if there is none, and the object in it, which is empty if there is none."""
        import httpx2

        connection = self.connection if tenant is None else replace(self.connection, tenant=tenant)
        async with connection.client() as client:
            try:
                reply = await client.get(path)
            except httpx2.HTTPError:
                return 0, {}
        try:
            return reply.status_code, msgspec.json.decode(reply.content, type=dict[str, Any])
        except msgspec.DecodeError:
            return reply.status_code, {}

    async def rows(self, path: str, member: str, *, tenant: str) -> list[dict[str, Any]]:
        """The rows of a list of a tenant; none if the host does not have the route."""
        status, value = await self.read(path, tenant=tenant)
        rows = value.get(member) if status == 200 else None
        return cast("list[dict[str, Any]]", rows) if isinstance(rows, list) else []
