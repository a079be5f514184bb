"""Where a database is: its URL, what may be said of it, and what the URL asks of the driver.

The URL may hold a password. `name` is what messages and logs call the database, and never holds one.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from parley.stores.interface import StoreError

SCHEMES = ("postgresql", "postgres")

EXAMPLE = "postgresql://user:password@host:5432/database"

_HOST = re.compile(r"(?:\[[^\[\]]+\]|[^\[\]:@]+)(?::([0-9]{1,5}))?")


class Address(Struct, frozen=True):
    """A database. `name` is for people; `settings` are the names of parameters in the URL."""

    urls: tuple[str, ...]
    """For the driver: one URL for each server, in their order."""
    name: str
    settings: frozenset[str]
    statement_cache_size: int

    def __repr__(self) -> str:
        return f"Address({self.name})"

    def options(self) -> dict[str, Any]:
        """What the driver is to be told beside the URL."""
        options: dict[str, Any] = {"statement_cache_size": self.statement_cache_size}
        if "target_session_attrs" not in self.settings:
            # After a failover the former primary, or one of several hosts, may only be read.
            options["target_session_attrs"] = "read-write"
        return options


def parse_address(url: str) -> Address:
    """The database that a URL names.

    Besides the parameters of libpq and the settings of a session (such as `search_path`), a URL may have
    `statement_cache_size=0`, which a pooler in transaction mode needs.

    Raises:
        StoreError: it is not the URL of a PostgreSQL database.
    """
    address = _parse(url)
    if address is None:
        raise StoreError(
            f"Invalid PostgreSQL URL. Write {EXAMPLE}, with special characters of the password percent-encoded."
        )
    return address


def _parse(url: str) -> Address | None:
    """None for an invalid URL, and not the error of the parser: that may quote the password."""
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        cache_size = int(query.pop("statement_cache_size", "1000"))
    except ValueError:
        return None
    hosts = parts.netloc.partition("@")[2] if "@" in parts.netloc else parts.netloc
    # A password with @, / or # that is not percent-encoded ends too early: its rest would be taken for a name.
    if parts.scheme not in SCHEMES or "@" in parts.path or parts.fragment:
        return None
    if hosts and not all(map(_is_host, hosts.split(","))):
        return None
    host = hosts or query.get("host", "localhost")
    database = parts.path.removeprefix("/") or query.get("dbname", "")
    login = parts.netloc[: len(parts.netloc) - len(hosts)]
    urls = [urlunsplit((parts.scheme, login + one, parts.path, urlencode(query), "")) for one in hosts.split(",")]
    return Address(tuple(urls), f"PostgreSQL at {host}/{database}", frozenset(query), cache_size)


def _is_host(text: str) -> bool:
    """Whether a text is a host, perhaps with a port."""
    found = _HOST.fullmatch(text)
    return found is not None and (found[1] is None or 0 < int(found[1]) < 65536)
