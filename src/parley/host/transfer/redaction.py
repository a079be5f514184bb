"""Secrets in records that are exported otherwise: they are removed, and what must be set again is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from parley.protocol.jsonvalue import JsonObject, JsonValue

Redacted: TypeAlias = tuple[JsonObject, Sequence[str]]
"""A value without secrets, and what must be set again."""

Redaction: TypeAlias = Callable[[str, JsonObject], Redacted]
"""Makes it of the id and the value of a record."""

_ENVIRONMENT = re.compile(r"(?:[A-Za-z]+ )?\$\{\w+\}")
"""A value that names a secret in the environment of the host, such as `Bearer ${GITHUB}`."""


def without_headers(name: str, value: JsonObject) -> Redacted:
    """An MCP server without the values of its headers, unless they name something in the environment."""
    definition = dict(cast("JsonObject", value["definition"]))
    headers = cast("dict[str, str | None]", definition.get("headers") or {})
    kept: dict[str, JsonValue] = {
        header: text for header, text in headers.items() if text and _ENVIRONMENT.fullmatch(text)
    }
    notes = [f"the header {header} of the MCP server {name}" for header in headers if header not in kept]
    notes += [f"the environment that the header {header} of the MCP server {name} names" for header in kept]
    definition["headers"] = kept
    definition["url"], of_url = _without_query(f"MCP server {name}", definition["url"])
    return {**value, "definition": definition}, [*notes, *of_url]


def without_token(name: str, value: JsonObject) -> Redacted:
    """A registered agent or catalogue without its token."""
    notes = [f"the token for {name}"] if value.get("has_token") else []
    url, of_url = _without_query(name, value["url"])
    return {**value, "has_token": False, "url": url}, [*notes, *of_url]


def without_reserved(name: str, value: JsonObject) -> Redacted:
    """The sums of a budget without what model calls at work may still spend: those are not continued."""
    sums = cast("dict[str, JsonObject]", value.get("sums") or {})
    settled: JsonObject = {
        span: {member: one for member, one in total.items() if member != "reserved"} for span, total in sums.items()
    }
    return {**value, "sums": settled}, ()


def _without_query(what: str, url: JsonValue) -> tuple[JsonValue, Sequence[str]]:
    """A URL without its query, which may be a key."""
    if not isinstance(url, str) or "?" not in url:
        return url, ()
    return url.partition("?")[0], [f"the query of the URL of {what}"]
