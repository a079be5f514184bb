"""Which agent a request fits: the terms of the request are compared with what each agent says about itself.

A term counts most if the agent's name or an example has it, less in its skills, least in its description. The first
word of a request counts more: it is the verb of an order. The agent with more and rarer terms wins; of two that are
equal, the one that the roster names first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

from parley.host.models.builtin.terms import head_of, is_word, terms_of, weight_of
from parley.host.models.model import RosterEntry

_NAME, _EXAMPLE, _SKILL, _DESCRIPTION = 0.9, 0.65, 0.6, 0.4
_ONLY_DESCRIPTION = 0.9  # of an agent without examples
_FIRST_WORD = 2.0
_ENOUGH = 0.9
"""The evidence from which on an agent fits: one word of an example if it comes first, otherwise two; an amount and a
currency; but not a number, an amount or a date alone."""
_FEW_TERMS = 8  # longer texts share words with any agent, so their evidence counts less


@dataclass(frozen=True, slots=True)
class AgentMatch:
    """An agent that a request fits."""

    entry: RosterEntry
    evidence: float
    rank: float


def best_match(query: str, roster: Sequence[RosterEntry]) -> tuple[RosterEntry, float] | None:
    """The agent that a request fits best, and how surely, from 0 to 1; None if it fits none."""
    match = find_match(query, roster)
    return None if match is None else (match.entry, 1 - exp(-1.5 * match.evidence))


def find_match(query: str, roster: Sequence[RosterEntry]) -> AgentMatch | None:
    """The agent that a request fits best; None if it fits none."""
    head = head_of(query)
    return _best(terms_of(head), roster) or (_best(terms_of(query), roster) if head != query else None)


def _best(terms: Sequence[str], roster: Sequence[RosterEntry]) -> AgentMatch | None:
    strengths = [_strengths(entry) for entry in roster]
    weights = _weights(terms)
    rarity = {term: _rarity(term, strengths) for term in terms}
    scale = max(1.0, (len(terms) / _FEW_TERMS) ** 0.5)
    best: AgentMatch | None = None
    for entry, known in zip(roster, strengths, strict=True):
        shares = {term: weights[term] * known[term] / scale for term in terms if term in known}
        evidence = sum(shares.values())
        if evidence < _ENOUGH:
            continue
        rank = sum(share * rarity[term] for term, share in shares.items())
        if best is None or (rank, evidence) > (best.rank, best.evidence):
            best = AgentMatch(entry, evidence, rank)
    return best


def _weights(terms: Sequence[str]) -> dict[str, float]:
    weights = {term: weight_of(term) for term in terms}
    first_word = next((term for term in terms if is_word(term)), None)
    if first_word is not None:
        weights[first_word] *= _FIRST_WORD
    return weights


def _rarity(term: str, strengths: Sequence[Mapping[str, float]]) -> float:
    """1 for a term of one agent, less the more agents have it."""
    count = sum(term in known for known in strengths)
    return 1 - 0.9 * log(count) / log(len(strengths) + 1) if count else 1.0


@lru_cache(maxsize=16_384)  # more agents than a large host has busy at a time; some kilobytes each
def _strengths(entry: RosterEntry) -> Mapping[str, float]:
    """How strongly each term speaks for the agent. Shapes count only in examples: elsewhere they are not values."""
    description = _DESCRIPTION if entry.examples else _ONLY_DESCRIPTION
    strengths: dict[str, float] = {}
    for text, strength in (
        (entry.description, description),
        *((skill, _SKILL) for skill in entry.skills),
        (f"{entry.id} {entry.name}".replace("-", " ").replace("_", " "), _NAME),
    ):
        for term in terms_of(text):
            if not term.startswith("<"):
                strengths[term] = max(strength, strengths.get(term, 0.0))
    for example in entry.examples:
        for term in terms_of(head_of(example)):
            strengths[term] = 1.0 if term.startswith("<") else max(_EXAMPLE, strengths.get(term, 0.0))
    if not strengths.keys().isdisjoint(("<money>", "<quantity>")):
        strengths["<number>"] = 1.0  # with the name of a currency or unit that is not known
    return strengths
