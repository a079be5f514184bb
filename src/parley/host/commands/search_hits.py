"""What a search finds, and what a search provider is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from parley.protocol.errors import ParleyError

MOST_HITS = 20
"""Hits of one search; models read no more."""


class SearchError(ParleyError):
    """The search failed. The message says why and may be shown to the caller."""


class SearchHit(Struct, frozen=True):
    """One page that fits a query. Each text is one line."""

    title: str
    url: str
    snippet: str = ""


class SearchProvider(Protocol):
    """Finds pages."""

    async def search(self, query: str, top: int) -> list[SearchHit]:
        """The pages that fit a query, the best first, at most `top`. Raises SearchError."""
        ...


def hits_text(hits: Sequence[SearchHit]) -> str:
    """The hits as `/search` shows them: a numbered line `1. title — snippet` and the URL below it, for each."""
    lines = [
        f"{number}. {hit.title}{f' — {hit.snippet}' if hit.snippet else ''}\n   {hit.url}"
        for number, hit in enumerate(hits, 1)
    ]
    return "\n".join(lines) or "No results."
