"""Cards that were fetched, so that they are fetched again only when they have changed. Spec: 1.0 section 8.6.

Documents are kept as they came, and nothing that was concluded from them: whoever takes one out checks it again.
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
"""Seconds for which a card is used unseen, whatever its server says."""

_DIRECTIVE = re.compile(r"([a-z-]+)(?:\s*=\s*\"?([0-9]+)\"?)?")


@dataclass(frozen=True, slots=True)
class CachedCard:
    """A card's document, where it was found, its tag, and until when it need not be asked for again."""

    url: str
    body: bytes
    etag: str | None
    fresh_until: float


class CardCache:
    """Cards by what was asked for; the one used longest ago goes when there are too many. Clients may share it."""

    def __init__(self, *, max_cards: int = MAX_CARDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_cards = max_cards
        self._clock = clock
        self._cards: OrderedDict[str, CachedCard] = OrderedDict()

    def get(self, target: str) -> CachedCard | None:
        """The card that was found for a target."""
        if target in self._cards:
            self._cards.move_to_end(target)
        return self._cards.get(target)

    def is_fresh(self, card: CachedCard) -> bool:
        """Whether a card may be used without asking."""
        return self._clock() < card.fresh_until

    def keep(self, target: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Keep a card as long as its headers allow, which may be not at all."""
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
