"""`/fetch <url>`: the text of a page, bounded in every way.

Public hosts may be called over http and https, and so may hosts that the operator lists, whatever their addresses. What
comes back is text for a model; a document of another type is an error that names the type.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from parley.client.guard import Guard
from parley.host.commands.document_text import DocumentText, UnreadableTypeError, document_text
from parley.host.commands.web_client import FetchError, WebClient, WebDocument
from parley.network.pinned import Resolve

__all__ = ["FetchError", "FetchedPage", "WebFetcher"]

FETCH_SECONDS = 30.0
"""For a whole page, with its redirects."""

MAX_READ_BYTES = 8 * 1024 * 1024
"""What is read of a page. Those with the largest scripts have half of it."""

MAX_TEXT_BYTES = 16 * 1024
"""What is returned of its text: about four thousand tokens."""

CUT_NOTE = "\n... [truncated]"

_ACCEPT = {"accept": "text/html, application/json, text/*;q=0.9, */*;q=0.5"}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The text of a page."""

    text: str
    """At most 16 KiB in UTF-8. If the page has more, it ends with a note."""
    media_type: str
    final_url: str
    """Where it was found, after redirects."""
    title: str | None = None


class WebFetcher:
    """Fetches pages from public hosts, and from hosts that the operator allows."""

    def __init__(
        self,
        allowed_hosts: tuple[str, ...] = (),
        *,
        seconds: float = FETCH_SECONDS,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`allowed_hosts` may have private addresses; `.example.com` allows all below it."""
        guard = Guard(trust_named=False, allowed_hosts=allowed_hosts)
        self._client = WebClient(guard, tls=tls, resolve=resolve)
        self._seconds = seconds

    async def fetch(self, url: str) -> FetchedPage:
        """The text of the page at a URL.

        Raises:
            FetchError: there is none; the message says why.
        """
        found = await self._client.get(url, max_bytes=MAX_READ_BYTES, seconds=self._seconds, headers=_ACCEPT)
        if not 200 <= found.status < 300:
            raise FetchError(f"The server answered with status {found.status}")
        try:
            # In a thread: a large page takes its parser a second or two.
            document = await asyncio.to_thread(_text_of, found)
        except UnreadableTypeError as error:
            raise FetchError(error.message) from None
        text = _bounded(document.text, is_cut=document.is_cut or found.is_cut)
        return FetchedPage(text, document.media_type, found.url, document.title)


def _text_of(found: WebDocument) -> DocumentText:
    content_type = found.headers.get("content-type", "")
    return document_text(found.body, content_type, url=found.url, max_characters=MAX_TEXT_BYTES)


def _bounded(text: str, *, is_cut: bool) -> str:
    """The text with a note if it is cut, both within the bound."""
    encoded = text.encode("utf-8", "replace")
    if not is_cut and len(encoded) <= MAX_TEXT_BYTES:
        return text
    kept = encoded[: MAX_TEXT_BYTES - len(CUT_NOTE)].decode("utf-8", "ignore")
    return f"{kept.rstrip()}{CUT_NOTE}"
