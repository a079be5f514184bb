"""The export and the import of a tenant, for operators. Both are streams: a tenant may be larger than memory."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec import structs

from parley.host.api.admin_views import TenantView, tenant_view
from parley.host.api.query_parameters import TextParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth
from parley.host.errors import BadRequest
from parley.server.bindings.failures import ClientDisconnected

logger = logging.getLogger(__name__)

NDJSON = b"application/x-ndjson"
CHUNK = 64 * 1024
MOST_DISCARDED = 64 * 2**20
"""Bytes of a refused file that are read, because many clients read the reply only when they have sent the whole
body."""

NAME = TextParameter("name", "The name of the new tenant; the one in the file if it is not given.")


class TenantImportReport(TenantView, frozen=True, kw_only=True):
    """The new tenant, its token, which is shown only now, and what the export could not hold."""

    token: str
    records: int
    tasks: int
    set_again: Sequence[str]
    """Secrets and other things that must be set again at this host."""


async def export_tenant(call: ApiCall[None]) -> None:
    """Everything that a tenant has, as lines of JSON."""
    export = await call.host.transfer.export(_tenant_id(call), actor=call.actor)
    name = f'attachment; filename="tenant-{export.tenant_id}.ndjson"'.encode()
    headers = [(b"content-type", NDJSON), (b"content-disposition", name), (b"cache-control", b"no-store")]
    await call.request.start_reply(200, headers)
    pending = bytearray()
    try:
        async for line in export.lines():
            pending += line
            if len(pending) >= CHUNK:
                await call.request.send_chunk(bytes(pending))
                pending.clear()
    except ClientDisconnected:
        raise
    except Exception:  # the reply has begun: only the file can say it
        logger.exception("The export of tenant %s failed", export.tenant_id)
        pending += export.failed("the log of the host says why")
    await call.request.send_chunk(bytes(pending), is_last=True)


async def import_tenant(call: ApiCall[None]) -> Answer:
    """Make a new tenant of an export."""
    chunks = call.request.body_chunks()
    try:
        imported = await call.host.transfer.import_file(chunks, name=call.query(NAME) or None, actor=call.actor)
    except ClientDisconnected:
        raise
    except Exception:
        await _discard(chunks)
        raise
    report = TenantImportReport(
        **structs.asdict(tenant_view(imported.tenant)),
        token=imported.token,
        records=imported.records,
        tasks=imported.tasks,
        set_again=imported.set_again,
    )
    return Answer(report, 201)


async def _discard(chunks: AsyncIterator[bytes]) -> None:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > MOST_DISCARDED:
            return


def _tenant_id(call: ApiCall[Any]) -> str:
    number = call.number("id")
    if not number:
        raise BadRequest("the id of a tenant is a number")
    return str(number)


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/admin/tenants/{id}/export",
        handler=export_tenant,
        auth=Auth.ADMIN,
        summary="Export a tenant",
        description="Everything but secrets, as lines of JSON. Disable the tenant before, so that nothing changes.",
        replies=[ApiReply(None, description="The lines.", content_type="application/x-ndjson")],
        errors=[400, 404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/admin/tenants/import",
        handler=import_tenant,
        auth=Auth.ADMIN,
        summary="Import a tenant",
        description="The body is a file that was exported. It becomes a new tenant, or nothing if it is not whole.",
        query=[NAME],
        replies=[ApiReply(TenantImportReport, 201)],
        errors=[409],
    ),
)
