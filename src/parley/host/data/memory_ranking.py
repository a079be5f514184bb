"""Which memory entries fit a query best, by its words: BM25 over weighted fields. Pure: no store, no clock.

Words count more in titles and tags than in the content, and rare words more than frequent ones. Entries are looked at
one by one, so that none needs to stay in memory.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from heapq import nlargest

from msgspec import Struct

from parley.host.data.memory_entry import MemoryEntry

MAX_WORDS = 32
"""Words of a query that are looked for."""

TITLE_WEIGHT, CONTENT_WEIGHT, TAG_WEIGHT, SOURCE_WEIGHT = 2.5, 1.0, 2.0, 0.5
"""What a word in a field counts: the weights that the documents name, as multiples of that of the content."""

_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75
"""The usual constants of BM25: how soon more of a word helps no more, and how much long entries are held back."""

_WORD = re.compile(r"\w+")


class _Match(Struct, frozen=True):
    """An entry with words of the query: how much each counts, and the entry's length in characters."""

    entry_id: int
    counts: dict[str, float]
    length: int
    factor: float
    is_preferred: bool


class Ranking:
    """Ranks entries for one query. Add all entries, then ask for the best."""

    def __init__(self, query: str) -> None:
        words = list(dict.fromkeys(_WORD.findall(query.casefold())))[:MAX_WORDS]
        # Longer words first: the expression takes the first that fits.
        ordered = sorted(map(re.escape, words), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(ordered)})(?!\w)") if words else None
        self._matches: list[_Match] = []
        self._entries = 0
        self._characters = 0

    def add(self, entry: MemoryEntry, *, factor: float = 1.0, is_preferred: bool = False) -> None:
        """Look at an entry. `factor` multiplies its score; entries that are preferred come before all others."""
        length = len(entry.title) + len(entry.content)
        self._entries += 1
        self._characters += length
        counts: dict[str, float] = {}
        for text, weight in (
            (entry.title, TITLE_WEIGHT),
            (entry.content, CONTENT_WEIGHT),
            (" ".join(entry.tags), TAG_WEIGHT),
            (entry.source, SOURCE_WEIGHT),
        ):
            for word in self._pattern.findall(text.casefold()) if self._pattern else ():
                counts[word] = counts.get(word, 0) + weight
        if counts:
            self._matches.append(_Match(entry.id, counts, length, factor, is_preferred))

    def best(self, limit: int) -> Sequence[tuple[int, float]]:
        """The ids and scores of the entries that fit best, the newest first where they fit equally."""
        found_in = Counter(word for match in self._matches for word in match.counts)
        rarity = {
            word: math.log(1 + (self._entries - number + 0.5) / (number + 0.5)) for word, number in found_in.items()
        }
        average = max(self._characters / max(self._entries, 1), 1)
        scored = [(match.is_preferred, self._score(match, rarity, average), match.entry_id) for match in self._matches]
        return [(entry_id, score) for _, score, entry_id in nlargest(limit, scored)]

    def _score(self, match: _Match, rarity: dict[str, float], average: float) -> float:
        held_back = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * match.length / average)
        return match.factor * sum(
            rarity[word] * count * (_SATURATION + 1) / (count + held_back) for word, count in match.counts.items()
        )


def age_factor(age_days: float, *, half_life_days: int, floor: float) -> float:
    """What the age of an entry leaves of its score: half after each half-life, and never less than `floor`."""
    return max(floor, 0.5 ** (max(age_days, 0.0) / half_life_days))
