"""Which entry a name means: by identifier, by the last segment of the identifier, or by the name that people see.

Of several versions of one artifact, the newest is meant. A name that fits several agents is an error that lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from parley.ai_catalog.model import AiCatalogEntry
from parley.protocol.errors import LocalProtocolError
from parley.safe_text import printable_line

MOST_LISTED = 10
"""Candidates that an error lists."""

MOST_COMPARED = 1_000
"""Names that are compared with one that is unknown, which takes some 20 microseconds each."""

_PREFIX = "catalog+"
_NUMBERS = re.compile(r"\d{1,9}")


class CatalogNameError(LocalProtocolError):
    """The name does not mean one agent of the catalogue; `candidates` are the identifiers that it may mean."""

    max_text = 1_000  # it lists the candidates

    def __init__(self, message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)


class UnknownAgentNameError(CatalogNameError):
    """No agent of the catalogue has this name."""


class AmbiguousAgentNameError(CatalogNameError):
    """Several agents of the catalogue have this name."""


def find_agent_entry(entries: Iterable[AiCatalogEntry], name: str) -> AiCatalogEntry:
    """The agent that a name means.

    Raises:
        UnknownAgentNameError: there is none.
        AmbiguousAgentNameError: there are several.
    """
    agents = [entry for entry in entries if entry.is_agent]
    wanted = name.strip().casefold()
    found = (
        [entry for entry in agents if entry.identifier == name.strip()]
        or [entry for entry in agents if entry.name.casefold() == wanted]
        or [entry for entry in agents if entry.display_name.casefold() == wanted]
    )
    shown = repr(printable_line(name[:100]))
    identifiers = list(dict.fromkeys(entry.identifier for entry in found))
    if len(identifiers) > 1:
        listed = _listed(identifiers)
        raise AmbiguousAgentNameError(f"{shown} means several agents of the catalogue: {listed}", identifiers)
    if not found:
        raise _unknown(shown, wanted, agents)
    return max(found, key=_age)


def is_catalog_name(text: str) -> bool:
    """Whether a text can only be a name, because it is neither a URL nor a host: `currency`, `urn:air:…`."""
    return text.startswith("urn:") or (bool(text) and text != "localhost" and not any(sign in text for sign in ":/."))


def named_in_catalog(catalog_url: str, name: str) -> str:
    """A catalogue and a name in it as one text: `catalog+https://a.example/.well-known/ai-catalog.json#currency`."""
    return f"{_PREFIX}{catalog_url}#{name}"


def split_catalog_name(text: str) -> tuple[str, str] | None:
    """The catalogue and the name in such a text; None if it is another one."""
    if not text.startswith(_PREFIX):
        return None
    url, _, name = text.removeprefix(_PREFIX).partition("#")
    return url, name


def _unknown(shown: str, wanted: str, agents: Sequence[AiCatalogEntry]) -> UnknownAgentNameError:
    names = list(dict.fromkeys(entry.name for entry in agents))
    compared = names[:MOST_COMPARED]
    close = get_close_matches(wanted, compared, n=MOST_LISTED) if len(names) > MOST_LISTED else names
    listed = f"; there are: {_listed(close)}" if close else "" if names else "; it lists no agents"
    return UnknownAgentNameError(f"No agent of the catalogue is called {shown}{listed}", close[:MOST_LISTED])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join([printable_line(name[:200]) for name in names[:MOST_LISTED]]) + more


def _age(entry: AiCatalogEntry) -> tuple[tuple[int, ...], str]:
    """What orders the versions of one artifact: their numbers, then when they were updated."""
    return tuple([int(number) for number in _NUMBERS.findall(entry.version or "")]), entry.updated_at or ""
