"""Requests that ask for several things: which parts of a text are requests of their own, and which belong together.

A line break, a semicolon or "then" separates two requests if what follows is one. "and", a comma or the end of a
sentence separates them only if both sides fit agents, and different ones: "5 miles in km and 100 USD in EUR" is two
requests, "draft a note about cats and dogs" is one. What stands in quotes, or on the lines after a line that ends with
a colon, is never separated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from parley.host.models.builtin.questions import is_pleasantry
from parley.host.models.builtin.quotes import find_quoted
from parley.host.models.builtin.references import NEW_LINE, refers_back
from parley.host.models.builtin.replies import single_line
from parley.host.models.builtin.terms import head_of
from parley.host.models.model import RosterEntry

Choose: TypeAlias = Callable[[str], RosterEntry | None]
"""The agent that fits a text."""

MOST_CLAUSES = 64
"""Of one request. The last one holds all the rest."""

_LONGEST_INSTRUCTION = 16_384  # what follows is not looked through for more requests

_QUOTED = r"\"[^\"]*\"|“[^“”]*”|‘[^‘’]*’|(?<!\w)'[^']*'(?!\w)|`[^`]*`"
_AND = r"(?:(?:and|then|also)\s+)*"
# Each run of blanks is looked at once, from its start: a text of blanks only must not take long.
_SPLITTING = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?P<line>(?<![^\S\n])[^\S\n]*\n\s*{_AND})|(?P<semicolon>;\s+{_AND})"
    r"|(?P<then>(?<!\s),?\s+(?:and\s+)?then\s+|\.\s+then,?\s+)"
    r"|(?P<weak>(?<!\s),?\s+and\s+(?:also\s+)?|,\s+|[.?!]\s+(?:and\s+|also,?\s+)?)",
    re.IGNORECASE,
)
_INTRODUCTION = re.compile(r"[^\n]*:[^\S\n]*\n")
_ORDER = re.compile(
    r"(?:please\s+|can you\s+|could you\s+)*(?:add|book|build|calculate|check|compare|compute|convert|count|create"
    r"|describe|do|draft|explain|extract|fetch|find|get|give|how|is|list|look|make|plan|put|read|remove|reverse|save"
    r"|search|send|show|sort|summari[sz]e|tell|translate|what|when|where|which|who|why|write)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^(?:[-*•]\s+|\d{1,2}[.)]\s+)?(?:(?:and|then|also|next|finally)\b,?\s+)*", re.IGNORECASE)
"""The mark of a list, and words that only connect."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One request of a text, on one line, and the agent that fits it."""

    text: str
    entry: RosterEntry | None
    needs_earlier: bool
    """Whether it refers to the result of an earlier one."""


@dataclass(slots=True)
class _Part:
    """A piece of the text, and what separates it from the piece before."""

    separator: str
    kind: str
    """Of the separator: line, semicolon, then, weak."""
    text: str

    def has_quotes(self) -> bool:
        return find_quoted(self.text) is not None


def split_clauses(query: str, choose: Choose) -> tuple[Clause, ...]:
    """The requests of a text, in their order. A text without words has none."""
    parts = [part for part in _parts(query, choose) if not is_pleasantry(part.text)]
    joined = _join_statements(_join_dependent(parts, choose), choose)
    clauses: list[Clause] = []
    for part in joined:
        text = _one_line(_LEAD.sub("", part.text.strip()))
        if re.search(r"\w", text):
            clauses.append(Clause(text, choose(text), refers_back(text)))
    return tuple(clauses)


def _parts(query: str, choose: Choose) -> list[_Part]:
    """The smallest pieces that may be requests."""
    introduction = _INTRODUCTION.match(query)
    if introduction is not None and query[introduction.end() :].strip():
        if choose(introduction[0]) is not None:
            return [_Part("", "line", query)]
        query = query[introduction.end() :]  # it only announces what follows
    parts = [_Part("", "line", "")]
    position = 0
    for found in _SPLITTING.finditer(query, 0, _LONGEST_INSTRUCTION):
        if found.lastgroup == "quoted":
            continue
        if len(parts) >= MOST_CLAUSES:
            break
        parts[-1].text += query[position : found.start()]
        parts.append(_Part(found[0], found.lastgroup or "", ""))
        position = found.end()
    parts[-1].text += query[position:]
    return parts


def _join_dependent(parts: list[_Part], choose: Choose) -> list[_Part]:
    """Pieces that are not requests of their own become part of the one before."""
    joined: list[_Part] = []
    for part in parts:
        if not joined or _is_separate(joined[-1], part, choose):
            joined.append(part)
        else:
            joined[-1].text += part.separator + part.text
    return joined


def _is_separate(before: _Part, part: _Part, choose: Choose) -> bool:
    entry = choose(part.text)
    if part.kind in ("line", "then"):
        return entry is not None or _is_order(part)
    head = head_of(before.text)
    if head.endswith(":") and choose(head) is not None:
        return False  # this is what the request is about, not another request
    if part.kind == "semicolon":
        return entry is not None or _is_order(part)
    entry_before = choose(before.text) if entry is not None else None
    if entry is None or entry_before is None:
        return False
    return entry_before.id != entry.id or (before.has_quotes() and part.has_quotes())


def _is_order(part: _Part) -> bool:
    return _ORDER.match(part.text) is not None


def _join_statements(parts: list[_Part], choose: Choose) -> list[_Part]:
    """A piece that only tells something ("I have a question") becomes part of the request that follows."""
    joined: list[_Part] = []
    for part in parts:
        if joined and choose(joined[-1].text) is None and not _is_order(joined[-1]):
            joined[-1].text += (part.separator or " ") + part.text
        else:
            joined.append(part)
    return joined


def _one_line(text: str) -> str:
    """The text on one line, with its line breaks written out."""
    return single_line(NEW_LINE.join(line.strip() for line in text.strip().splitlines()))
