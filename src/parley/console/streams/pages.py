"""The open pages of this process, and requests for those of other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from parley.console.api.errors import ConsoleError
from parley.console.backend import ConsoleCaller
from parley.console.sessions import Session
from parley.console.streams.elsewhere import PageRequest, PagesElsewhere
from parley.console.streams.page import Page
from parley.console.streams.table import CHANNELS
from parley.protocol.jsonvalue import JsonValue
from parley.server.bindings.http import AsgiRequest

if TYPE_CHECKING:
    from parley.console.console import Console

RESTARTING = "The server is restarting; connect again in a moment"


class Pages:
    """All open pages of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pages: dict[str, Page] = {}
        self._is_draining = False
        self._elsewhere = PagesElsewhere(console.backend.app, self._follow)
        console.sessions.on_end(self._session_ended)

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def open_pages(self) -> Sequence[Page]:
        """The pages whose streams this process serves."""
        return tuple(self._pages.values())

    def start(self) -> None:
        """Listen for requests that other processes have received."""
        self._elsewhere.start()

    def stop(self) -> None:
        """Listen no longer."""
        self._elsewhere.stop()

    async def run(self, request: AsgiRequest, session: Session, caller: ConsoleCaller) -> None:
        """Send the stream of a new page until it ends.

        Raises:
            ConsoleError: there are too many pages, or the server is stopping.
        """
        settings = self._console.settings
        if self._is_draining:
            raise ConsoleError("unavailable", RESTARTING)
        pages, name = self._pages.values(), caller.identity.name
        of_session = [page for page in pages if session.id and page.belongs_to(session, caller)]
        of_caller = [page for page in pages if name and page.caller.identity.name == name]
        is_crowded = len(of_session) >= settings.pages_of_session or len(of_caller) > settings.pages // 4
        if len(pages) >= settings.pages or is_crowded:
            raise ConsoleError("rate_limited", "Too many pages of the console are open; close some")
        page = Page(self._console, request, session, caller, settings.channels)
        self._pages[page.id] = page
        try:
            async with self._elsewhere.following(page.id, session):
                await page.run()
        finally:
            del self._pages[page.id]

    async def open(
        self,
        page_id: str,
        channel: str,
        kind: str,
        parameters: Mapping[str, JsonValue],
        session: Session,
        caller: ConsoleCaller,
    ) -> None:
        """Open a channel of a page. Raises ConsoleError if the page is gone, or has this channel."""
        page = self._find(page_id, session, caller)
        if page is not None:
            page.open(channel, CHANNELS.get(kind), parameters)
        else:
            request = PageRequest("open", channel, kind, dict(parameters))
            await self._elsewhere.send(page_id, session, request)

    async def close(self, page_id: str, channel: str, session: Session, caller: ConsoleCaller) -> None:
        """Close a channel of a page. Raises ConsoleError if the page is gone."""
        page = self._find(page_id, session, caller)
        if page is not None:
            page.close(channel)
        else:
            await self._elsewhere.send(page_id, session, PageRequest("close", channel))

    def _find(self, page_id: str, session: Session, caller: ConsoleCaller) -> Page | None:
        page = self._pages.get(page_id)
        if page is not None and not page.belongs_to(session, caller):
            raise ConsoleError("not_found", "This page is not open")
        return page

    def _follow(self, page_id: str, request: PageRequest) -> None:
        """Do what a page has asked another process for."""
        page = self._pages.get(page_id)
        if page is None:
            return
        if request.action == "close":
            page.close(request.channel)
            return
        try:
            page.open(request.channel, CHANNELS.get(request.kind), request.parameters)
        except ConsoleError:  # the same request came twice
            return

    def _session_ended(self, session_id: str) -> None:
        for page in tuple(self._pages.values()):
            if page.session.id == session_id:
                page.end(ConsoleError("unauthenticated", "The session has ended"), is_discarding=True)

    def drain(self) -> None:
        """End all streams, and tell the pages to come back."""
        self._is_draining = True
        for page in tuple(self._pages.values()):
            page.end(ConsoleError("unavailable", RESTARTING))
