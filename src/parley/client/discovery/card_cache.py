"""Caches fetched cards, which are then fetched again only after a change. Spec: 1.0 section 8.6.

It keeps documents as they came, not what was verified about them: a cached card is verified again.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MAX_CARDS = 256
"""Enough for a client of many agents; each has a few KB."""

MAX_AGE = 3_600.0
"""The longest time in seconds for which a card is used without asking its server."""

_DIRECTIVE = re.compile(r"([a-z-]+)(?:\s*=\s*\"?([0-9]+)\"?)?")


@dataclass(frozen=True, slots=True)
class CachedCard:
    """The document of a card, its URL, its ETag, and until when it is fresh."""

    url: str
    body: bytes
    etag: str | None
    fresh_until: float


class CardCache:
    """Cards by target; the least recently used one is dropped first. Clients may share a cache."""

    def __init__(self, *, max_cards: int = MAX_CARDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_cards = max_cards
        self._clock = clock
        self._cards: OrderedDict[str, CachedCard] = OrderedDict()

    def get(self, target: str) -> CachedCard | None:
        """The cached card of a target."""
        if target in self._cards:
            self._cards.move_to_end(target)
        return self._cards.get(target)

    def is_fresh(self, card: CachedCard) -> bool:
        """Whether a card may be used without asking its server."""
        return self._clock() < card.fresh_until

    def keep(self, target: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Cache a card for as long as its headers allow."""
        directives = dict(_DIRECTIVE.findall(headers.get("cache-control", "").lower()))
        self._cards.pop(target, None)
        if "no-store" in directives:
            return
        seconds = 0.0 if "no-cache" in directives else min(float(directives.get("max-age") or 0), MAX_AGE)
        self._cards[target] = CachedCard(url, body, headers.get("etag"), self._clock() + seconds)
        while len(self._cards) > self._max_cards:
            self._cards.popitem(last=False)

    def forget(self, target: str) -> None:
        """Drop a card."""
        self._cards.pop(target, None)
