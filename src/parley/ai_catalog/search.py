"""Finding entries by text, skill and tag, the best first.

Words are compared by their beginnings, so that `convert` finds `conversion`. A word counts most in the name, less in
skills and tags, least in the description, and more if few entries have it. Every word of the query must occur.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from math import log
from sys import intern

from msgspec import Struct

from parley.ai_catalog.model import AiCatalogEntry

_WORD = re.compile(r"[^\W_]+")
_NAME, _SKILL, _DESCRIPTION = 4.0, 3.0, 1.0
_SHORTEST_BEGINNING = 4
_MOST_WORDS = 8
"""Of a query."""
_MOST_CHARACTERS = 500
"""Of a text that is searched: what an agent does is in its first sentences."""


class SearchedEntry(Struct, frozen=True):
    """An entry with the words that it is found by, and how much each counts."""

    entry: AiCatalogEntry
    words: Mapping[str, float]
    beginnings: Mapping[str, tuple[str, ...]]
    """The longer words by their first letters: only those are compared."""


def searched(entry: AiCatalogEntry) -> SearchedEntry:
    """An entry, ready to be searched."""
    words: dict[str, float] = {}
    parts = [(entry.description, _DESCRIPTION), (" ".join((*entry.tags, *entry.skills)), _SKILL)]
    if entry.publisher is not None:
        parts.append((entry.publisher.display_name, _SKILL))
    for text, weight in (*parts, (f"{entry.display_name} {entry.name}", _NAME)):
        for word in _words(text):
            words[intern(word)] = max(weight, words.get(word, 0.0))
    beginnings: dict[str, tuple[str, ...]] = {}
    for word in words:
        if len(word) >= _SHORTEST_BEGINNING:
            start = intern(word[:_SHORTEST_BEGINNING])
            beginnings[start] = (*beginnings.get(start, ()), word)
    return SearchedEntry(entry, words, beginnings)


def search(
    entries: Iterable[SearchedEntry], *, text: str = "", skill: str = "", tag: str = ""
) -> Sequence[AiCatalogEntry]:
    """The entries that have all words of the text, the skill and the tag; the best first, else in their order."""
    kept = [one for one in entries if _has(one.entry, skill, tag)]
    wanted = list(dict.fromkeys(_words(text)))[:_MOST_WORDS]
    if not wanted:
        return [one.entry for one in kept] if not text.strip() else []
    strengths = [[_strength(word, one) for word in wanted] for one in kept]
    rarity = [_rarity(sum(row[place] > 0 for row in strengths), len(kept)) for place in range(len(wanted))]
    ranked = [
        (sum(strength * rare for strength, rare in zip(row, rarity, strict=True)), number)
        for number, row in enumerate(strengths)
        if all(row)
    ]
    ranked.sort(key=lambda found: (-found[0], found[1]))
    return [kept[number].entry for _, number in ranked]


def _has(entry: AiCatalogEntry, skill: str, tag: str) -> bool:
    """Whether an entry has a skill and a tag. Catalogues of other servers list skills among the tags, if at all."""
    tags = {one.casefold() for one in entry.tags}
    skills = {one.casefold() for one in entry.skills} or tags
    return (not skill or skill.casefold() in skills) and (not tag or tag.casefold() in tags)


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text[:_MOST_CHARACTERS]).casefold())


def _strength(word: str, one: SearchedEntry) -> float:
    exact = one.words.get(word, 0.0)
    if exact or len(word) < _SHORTEST_BEGINNING:
        return exact
    similar = [known for known in one.beginnings.get(word[:_SHORTEST_BEGINNING], ()) if _begin_alike(word, known)]
    return max([one.words[known] / 2 for known in similar], default=0.0)


def _begin_alike(one: str, other: str) -> bool:
    """Whether a word is the beginning of the other, but for two letters: `currencies` and `currency`, not `current`."""
    shorter, longer = sorted((one, other), key=len)
    length = max(_SHORTEST_BEGINNING, len(shorter) - 2)
    return longer.startswith(shorter[:length]) and len(longer) - length <= 5


def _rarity(count: int, total: int) -> float:
    return 1 + log((1 + total) / (1 + count))
