"""Which carrier of hints a URL names. The packages that it needs are imported only then."""

from __future__ import annotations

from importlib.util import find_spec

from parley.cluster.carrier import ConnectedHints

POSTGRES_SCHEMES = ("postgresql://", "postgres://")
ALLOWED = "nats://host:port, tls://host:port, postgres (notifications of the store's database), or none"


class MissingPackageError(ValueError):
    """A package is not installed; the message says how to install it."""


def open_hints(url: str | None, store_url: str) -> ConnectedHints | None:
    """What carries hints between the processes on a store, not opened yet; None: nothing does.

    `url` is a nats:// or tls:// URL, `postgres` for notifications of the store's own database, or `none`. Without it,
    a store in PostgreSQL carries them itself, and there are none for other stores.

    Raises:
        ValueError: the URL is invalid, or `postgres` is given and the store is not in PostgreSQL.
        StoreError: the URL of the store is invalid, and the store is to carry them.
        MissingPackageError: the package for it is not installed.
    """
    is_postgres = store_url.startswith(POSTGRES_SCHEMES)
    if url is None:
        url = "postgres" if is_postgres else "none"
    if url.startswith(("nats://", "tls://")):
        _require_package("nats", "NATS", "pip install 'parley-a2a[nats]'")
        from parley.cluster.nats import NatsTransport

        return ConnectedHints(NatsTransport(url))
    if url == "postgres":
        if not is_postgres:
            raise ValueError("Invalid cluster: 'postgres' needs a store in PostgreSQL. Write nats://host:port or none.")
        _require_package("asyncpg", "PostgreSQL", "pip install 'parley-a2a[postgres]'")
        from parley.cluster.postgres_notify import PostgresTransport

        return ConnectedHints(PostgresTransport(store_url))
    if url == "none":
        return None
    shown = url.partition("://")[0] + ("://…" if "://" in url else "")  # what follows may hold a password
    raise ValueError(f"Invalid cluster: {shown!r}. Write {ALLOWED}.")


def _require_package(package: str, service: str, command: str) -> None:
    if find_spec(package) is None:
        raise MissingPackageError(f"The client of {service} is not installed: {command}")
