"""Pages whose stream another process serves: requests to open and close channels reach it through the store.

A balancer may send the requests of one page to any replica. A process that gets such a request for a page that it does
not have writes it into the store, encrypted with the key of the session, and hints at it; the process with the page
looks when there is a hint, and at intervals without one. A store that one process has to itself needs none of this.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal

import msgspec
from msgspec import Struct

from parley.cluster.hints import AnyHint, LookHint, RecordsHint
from parley.console.api.errors import ConsoleError
from parley.console.sealing import seal, unseal
from parley.console.sessions import Session
from parley.engine.store_errors import translated
from parley.protocol.jsonvalue import JsonValue
from parley.server.app import App
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, StoreError

PAGES = "console-pages"
"""The open pages of all processes: a record for each, with the id of its session."""

REQUESTS = "console-page-requests"
"""What a page has asked other processes for. The page's id is in the place of the tenant."""

POLL_SECONDS = 0.5
HINTED_POLL_SECONDS = 5.0
"""How often a process looks without hints, and with them."""

FORGOTTEN_SECONDS = 86_400
"""After a day, a page of a process that has died is removed. A page that lives on is told to connect again."""

AT_ONCE = 50

logger = logging.getLogger(__name__)


class PageRequest(Struct, frozen=True, omit_defaults=True):
    """A request to open or close a channel."""

    action: Literal["open", "close"]
    channel: str
    kind: str = ""
    parameters: dict[str, JsonValue] = {}


class PagesElsewhere:
    """Sends requests to pages of other processes, and receives those for pages of this one."""

    def __init__(self, app: App, follow: Callable[[str, PageRequest], None]) -> None:
        """`follow` is called with a page's id and what it has asked for."""
        self._app = app
        self._follow = follow
        self._waiting: dict[str, asyncio.Event] = {}
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        """Listen for hints."""
        hints = self._app.local_engine.hints
        if hints is not None:
            self._stop_listening = hints.listen(self._hear)

    def stop(self) -> None:
        """Listen no longer."""
        if self._stop_listening is not None:
            self._stop_listening()

    async def send(self, page_id: str, session: Session, request: PageRequest) -> None:
        """Pass a request on to the process that has the page.

        Raises:
            ConsoleError: no process has it, or it belongs to another session.
        """
        records = self._app.store.records
        if not self._app.store.is_shared or session.secret is None or len(page_id) > 100:
            raise _not_open()
        with translated:
            page = await records.get(RecordKey(PAGES, "", page_id))
            if page is None or page.value.get("session") != session.id:
                raise _not_open()
            number = self._now()
            key = RecordKey(REQUESTS, page_id, f"{number}-{secrets.token_hex(8)}")
            sealed = seal(session.secret, msgspec.json.encode(request), name=key.id)
            await records.write(PutRecord(key, {"sealed": sealed}, number))
        hints = self._app.local_engine.hints
        if hints is not None:
            hints.publish(RecordsHint(REQUESTS, page_id))

    @asynccontextmanager
    async def following(self, page_id: str, session: Session) -> AsyncGenerator[None]:
        """A block in which requests for a page of this process are followed."""
        if not self._app.store.is_shared or session.secret is None:
            yield
            return
        records, key = self._app.store.records, RecordKey(PAGES, "", page_id)
        with translated:
            await self._remove_forgotten()
            await records.write(PutRecord(key, {"session": session.id}, self._now()))
        self._waiting[page_id] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._keep_following(page_id, session))
        try:
            yield
        finally:
            del self._waiting[page_id]
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            with suppress(StoreError):
                left = await records.list(REQUESTS, page_id, limit=AT_ONCE)
                await records.write(DeleteRecord(key), *[DeleteRecord(one.key) for one in left])

    async def _keep_following(self, page_id: str, session: Session) -> None:
        waiting, engine = self._waiting[page_id], self._app.local_engine
        while True:
            do_hints_flow = engine.hints is not None and engine.hints.problem() is None
            with suppress(TimeoutError):
                async with asyncio.timeout(HINTED_POLL_SECONDS if do_hints_flow else POLL_SECONDS):
                    await waiting.wait()
            waiting.clear()
            try:
                await self._take(page_id, session)
            except StoreError as error:
                logger.warning("Requests for a page cannot be read now: %s", error)

    async def _take(self, page_id: str, session: Session) -> None:
        records = self._app.store.records
        assert session.secret is not None
        found = await records.list(REQUESTS, page_id, limit=AT_ONCE, newest_first=False)
        if not found:
            return
        await records.write(*[DeleteRecord(record.key) for record in found])
        for record in found:
            raw = unseal(session.secret, record.value.get("sealed"), name=record.key.id)
            if raw is not None:
                self._follow(page_id, msgspec.json.decode(raw, type=PageRequest))

    async def _remove_forgotten(self) -> None:
        records = self._app.store.records
        oldest = await records.list(PAGES, "", limit=AT_ONCE, newest_first=False)
        limit = self._now() - FORGOTTEN_SECONDS * 1_000_000
        gone = [record for record in oldest if record.sort < limit]
        for record in gone:
            left = await records.list(REQUESTS, record.key.id, limit=AT_ONCE)
            await records.write(DeleteRecord(record.key), *[DeleteRecord(one.key) for one in left])

    def _hear(self, hint: AnyHint) -> None:
        match hint:
            case RecordsHint(collection=collection, tenant=page_id) if collection == REQUESTS:
                waiting = self._waiting.get(page_id)
                if waiting is not None:
                    waiting.set()
            case LookHint():
                for waiting in self._waiting.values():
                    waiting.set()
            case _:
                pass

    def _now(self) -> int:
        return int(self._app.local_engine.clock.now().timestamp() * 1_000_000)


def _not_open() -> ConsoleError:
    return ConsoleError("not_found", "This page is not open; connect again")
