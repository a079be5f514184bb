"""What one process of a host asks of the one that works on a task: another priority, or to make room for a message.

A request is a record until it was handled. It may be handled by any process that holds the task by then, and one for a
task that has ended is deleted by the process that made it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.epoch import milliseconds
from parley.host.data.keys import RUN_REQUESTS
from parley.host.data.paging import each_record_of_all
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, Records


class RunRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that is asked about a run of a tenant."""

    id: str = ""
    tenant: str = ""
    task_id: str
    kind: Literal["priority", "interrupt"]
    priority: int = 0
    by: str = ""
    """The principal that changes the priority, or the task that interrupts."""


class RunRequests:
    """The requests of all processes that were not handled yet."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def post(self, request: RunRequest) -> RunRequest:
        """Leave a request. Returns it with its id. Raises StoreError."""
        posted = structs.replace(request, id=f"{request.task_id}/{secrets.token_hex(8)}")
        value = to_builtins(structs.replace(posted, tenant="", id=""))
        await self._records.write(PutRecord(_key(posted), value, milliseconds(self._clock.now()), expected=0))
        return posted

    async def is_open(self, request: RunRequest) -> bool:
        """Whether a request was not handled yet. Raises StoreError."""
        return await self._records.get(_key(request)) is not None

    async def list(self) -> Sequence[RunRequest]:
        """Requests that were not handled yet, without those that only a newer release knows. Raises StoreError."""
        found: list[RunRequest] = []
        async for record in each_record_of_all(self._records, RUN_REQUESTS):
            with suppress(msgspec.ValidationError):
                request = msgspec.convert(record.value, RunRequest)
                found.append(structs.replace(request, id=record.key.id, tenant=record.key.tenant))
        return found

    async def close(self, request: RunRequest) -> None:
        """Delete a request that was handled, or is not needed any more. Raises StoreError."""
        await self._records.write(DeleteRecord(_key(request)))


def _key(request: RunRequest) -> RecordKey:
    return RecordKey(RUN_REQUESTS, request.tenant, request.id)
