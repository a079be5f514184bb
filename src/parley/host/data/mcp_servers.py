"""The MCP servers that tenants have added, each with its headers, which may hold secrets.

A change is written together with its entry in the audit, which names headers and never shows their values. Nothing here
calls a server, and what a URL may be is for the caller to check.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit
from parley.host.data.epoch import milliseconds, seconds
from parley.host.data.errors import InvalidValueError, LimitReachedError, NotFoundError, StaleRevisionError
from parley.host.data.keys import MCP_SERVERS
from parley.host.data.transactions import Decision, TenantTransactions
from parley.network.urls import parse_url
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records

MAX_MCP_SERVERS = 20
"""Of one tenant. The tools of all of them are offered to models, which can choose between few."""


class McpServerNotFoundError(NotFoundError):
    """There is no such MCP server for this tenant."""


class TooManyMcpServersError(LimitReachedError):
    """The tenant has as many MCP servers as it may have; delete one."""


class McpServerDefinition(Struct, frozen=True, kw_only=True):
    """A server as a tenant describes it."""

    url: str
    headers: dict[str, str | None] = {}
    """By their names. `${NAME}` in a value stands for a secret of the tenant in the host's environment. In a change,
    None keeps the value that is stored."""
    description: str = ""
    timeout_seconds: float | None = None
    max_result_bytes: int | None = None
    tools: tuple[str, ...] = ()
    identity: bool = False


class StoredMcpServer(Struct, frozen=True):
    """A server of a tenant. Times are seconds since 1970."""

    tenant: str
    name: str
    definition: McpServerDefinition
    created_at: int
    updated_at: int
    revision: int
    """Counts the writes of the server, from 1 on."""
    problem: str = ""
    """Why the values of its headers cannot be read; they are empty then, and the server must not be called."""


class KeptMcpServer(Struct, frozen=True):
    """A server, as it is stored."""

    definition: McpServerDefinition
    created_at: int
    updated_at: int


class StoredMcpServers:
    """The servers of all tenants. `max_servers` is how many one tenant may have."""

    def __init__(self, records: Records, clock: Clock, *, max_servers: int = MAX_MCP_SERVERS) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)
        self._max_servers = max_servers

    async def get(self, tenant: str, name: str) -> StoredMcpServer:
        """One server. Raises McpServerNotFoundError."""
        found = await self._find(tenant, name)
        if found is None:
            raise McpServerNotFoundError(f"no MCP server '{name}' for this tenant")
        return found

    async def list(self, tenant: str) -> Sequence[StoredMcpServer]:
        """All servers of a tenant, by their names."""
        found = await self._records.list(MCP_SERVERS, tenant, limit=2 * self._max_servers)
        return sorted(map(_decode, found), key=lambda server: server.name)

    async def _find(self, tenant: str, name: str) -> StoredMcpServer | None:
        """One server, from the list: so one whose headers cannot be read is shown, replaced and deleted, too."""
        return next((server for server in await self.list(tenant) if server.name == name), None)

    async def put(
        self, tenant: str, name: str, definition: McpServerDefinition, *, actor: str, revision: int | None = None
    ) -> StoredMcpServer:
        """Add a server or replace it. `revision` is the one that the caller has seen; None: any.

        Raises:
            StaleRevisionError: the server has another revision.
            TooManyMcpServersError: the tenant has too many servers.
            InvalidValueError: a header without a value is not stored yet.
        """

        async def decide() -> Decision[StoredMcpServer]:
            before = await self._find(tenant, name)
            _check_revision(name, before, revision)
            # Other processes may add servers at the same time: the bound is exact within one process.
            if before is None and await self._records.count(MCP_SERVERS, tenant) >= self._max_servers:
                raise TooManyMcpServersError(f"a tenant may have {self._max_servers} MCP servers; delete one first")
            now = seconds(self._clock.now())
            complete = _with_kept_headers(definition, before)
            kept = KeptMcpServer(complete, before.created_at if before else now, now)
            number = before.revision if before else 0
            put = PutRecord(_key(tenant, name), to_builtins(kept), milliseconds(self._clock.now()), expected=number)
            entry = await self._audit.entry(
                "put_mcp_server",
                f"{tenant}/{name}",
                actor=actor,
                kind="mcp_server",
                before=_audited(before.definition, number) if before else None,
                after=_audited(complete, number + 1),
            )
            return _decode(Record(put.key, put.value, put.sort, number + 1)), [put, entry]

        return await self._transactions.run(tenant, decide)

    async def delete(self, tenant: str, name: str, *, actor: str) -> None:
        """Remove a server. Raises McpServerNotFoundError."""

        async def decide() -> Decision[None]:
            before = await self.get(tenant, name)
            entry = await self._audit.entry(
                "delete_mcp_server",
                f"{tenant}/{name}",
                actor=actor,
                kind="mcp_server",
                before=_audited(before.definition, before.revision),
            )
            return None, [DeleteRecord(_key(tenant, name), before.revision), entry]

        await self._transactions.run(tenant, decide)


def _with_kept_headers(definition: McpServerDefinition, before: StoredMcpServer | None) -> McpServerDefinition:
    """The definition with stored values for the headers that have none. Raises InvalidValueError.

    Another URL does not get them: a caller who may not read a secret could have it sent to a server of its own.
    """
    is_same_server = before is not None and before.definition.url == definition.url
    stored = {name.lower(): value for name, value in before.definition.headers.items()} if before else {}
    complete: dict[str, str | None] = {}
    for name, value in definition.headers.items():
        if value is None and not (is_same_server and stored.get(name.lower())):
            raise InvalidValueError("has no value that could be kept for this url; give one", f"$.headers.{name}")
        complete[name] = stored[name.lower()] if value is None else value
    return structs.replace(definition, headers=complete)


def _audited(definition: McpServerDefinition, revision: int) -> JsonObject:
    origin = parse_url(definition.url).origin  # the rest of a URL may hold a key
    return {"revision": revision, "server": origin, "headers": [*sorted(definition.headers)]}


def _check_revision(name: str, before: StoredMcpServer | None, revision: int | None) -> None:
    found = before.revision if before else 0
    if revision not in (None, found):
        raise StaleRevisionError(f"MCP server '{name}' has changed since revision {revision}; read it again")


def _key(tenant: str, name: str) -> RecordKey:
    return RecordKey(MCP_SERVERS, tenant, name)


def _decode(record: Record) -> StoredMcpServer:
    kept = msgspec.convert(record.value, KeptMcpServer)
    return StoredMcpServer(
        record.key.tenant,
        record.key.id,
        kept.definition,
        kept.created_at,
        kept.updated_at,
        record.revision,
        record.problem,
    )
