"""`/search <query>`: through Brave, through a SearXNG instance, or over a folder, as the operator has chosen.

The operator names the service, so it may be anywhere; it is called within some seconds, its redirects are not followed,
and keys go to it alone. What it finds is untrusted text: markup is removed, and each hit has one line of everything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from parley.client.guard import Guard
from parley.host.commands.html_text import html_text
from parley.host.commands.local_search import LocalSearch
from parley.host.commands.search_hits import MOST_HITS, SearchError, SearchHit, SearchProvider, hits_text
from parley.host.commands.web_client import FetchError, WebClient
from parley.network.urls import MAX_URL, InvalidUrlError, parse_url
from parley.safe_text import printable_line

__all__ = [
    "BraveSearch",
    "LocalSearch",
    "SearchError",
    "SearchHit",
    "SearchProvider",
    "SearxSearch",
    "hits_text",
    "search_provider",
]

BRAVE = "https://api.search.brave.com/res/v1/web/search"
BRAVE_KEY = "BRAVE_API_KEY"
"""The environment variable that holds the key."""

MAX_QUERY = 400
"""Characters; Brave takes no more."""

SEARCH_SECONDS = 15.0
MAX_REPLY_BYTES = 4 * 1024 * 1024
MOST_CHARACTERS = 300
"""Of a title or a snippet."""

R = TypeVar("R")


def search_provider(setting: str, *, environment: Mapping[str, str] | None = None) -> SearchProvider:
    """The provider that a setting names: `brave`, `searx:URL` or `local:FOLDER`.

    Raises:
        SearchError: there is no such provider, or it lacks its key, its folder or a valid URL.
    """
    environment = os.environ if environment is None else environment
    kind, _, argument = setting.partition(":")
    match kind:
        case "brave" if not argument:
            if not (key := environment.get(BRAVE_KEY)):
                raise SearchError(f"Search through Brave needs a key: set {BRAVE_KEY}")
            return BraveSearch(key)
        case "searx" if argument:
            return SearxSearch(argument)
        case "local" if argument:
            return LocalSearch(Path(argument).expanduser())
        case _:
            raise SearchError(f"Invalid search provider: {setting!r}. It must be brave, searx:URL or local:FOLDER.")


class BraveSearch:
    """Searches the web through Brave's API."""

    def __init__(self, key: str, *, endpoint: str = BRAVE) -> None:
        self._headers = {"x-subscription-token": key}
        self._endpoint = endpoint

    async def search(self, query: str, top: int) -> list[SearchHit]:
        """The pages that fit a query, the best first. Raises SearchError."""
        count = min(top, MOST_HITS)
        parameters = {"q": _checked(query), "count": str(count), "text_decorations": "false"}
        reply = await _ask(self._endpoint, parameters, self._headers, _BraveReply)
        found = reply.web.results if reply.web is not None else []
        return _hits([(result.title, result.url, result.description) for result in found], count)


class SearxSearch:
    """Searches the web through an instance of SearXNG, whose settings must allow the format JSON."""

    def __init__(self, url: str) -> None:
        """`url` is where the instance is. Raises SearchError if it is invalid."""
        try:
            parse_url(url)
        except InvalidUrlError as error:
            raise SearchError(error.message) from None
        self._endpoint = f"{url.rstrip('/')}/search"

    async def search(self, query: str, top: int) -> list[SearchHit]:
        """The pages that fit a query, the best first. Raises SearchError."""
        reply = await _ask(self._endpoint, {"q": _checked(query), "format": "json"}, {}, _SearxReply)
        return _hits([(result.title, result.url, result.content) for result in reply.results], min(top, MOST_HITS))


# --- replies ----------------------------------------------------------------------------------------------------------


class _BraveResult(Struct):
    url: str
    title: str = ""
    description: str | None = None


class _BraveWeb(Struct):
    results: list[_BraveResult] = []


class _BraveReply(Struct):
    web: _BraveWeb | None = None


class _SearxResult(Struct):
    url: str
    title: str = ""
    content: str | None = None


class _SearxReply(Struct):
    results: list[_SearxResult] = []


async def _ask(endpoint: str, parameters: Mapping[str, str], headers: Mapping[str, str], kind: type[R]) -> R:
    """The reply of a search service. Errors do not name the service: only the operator knows it."""
    client = WebClient(Guard(allow_private=True), most_redirects=0)
    url = f"{endpoint}?{urlencode(parameters)}"
    sent = {"accept": "application/json", **headers}
    try:
        found = await client.get(url, max_bytes=MAX_REPLY_BYTES, seconds=SEARCH_SECONDS, headers=sent)
    except FetchError as error:
        raise SearchError(f"The search service cannot be used: {error.message}") from error
    if found.status == 429:
        raise SearchError("The search service refuses more searches for now; try again later")
    if found.status != 200:
        raise SearchError(f"The search service answered with status {found.status}")
    try:
        return msgspec.json.decode(found.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SearchError("The search service answered with something else than results") from error


def _checked(query: str) -> str:
    if not query.strip():
        raise SearchError("The query is empty")
    if len(query) > MAX_QUERY:
        raise SearchError(f"A query has at most {MAX_QUERY} characters")
    return query


def _hits(found: list[tuple[str, str, str | None]], top: int) -> list[SearchHit]:
    return [
        SearchHit(_plain(title) or url, url, _plain(snippet or ""))
        for title, url, snippet in found
        if url.startswith(("http://", "https://")) and url.isprintable() and " " not in url and len(url) <= MAX_URL
    ][:top]


def _plain(markup: str) -> str:
    """Text without markup, in one line: Brave marks words with `<strong>`."""
    text = printable_line(html_text(markup[: 10 * MOST_CHARACTERS], max_characters=MOST_CHARACTERS + 1).text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
