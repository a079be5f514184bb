"""Which carrier a URL names, and that no package is imported without need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parley.cluster import urls
from parley.cluster.urls import MissingPackageError, open_hints

POSTGRES = "postgresql://ada:secret@db:5432/x"
SQLITE = "sqlite:///tasks.db"


@pytest.mark.parametrize(
    ("url", "store", "name"),
    [
        ("nats://localhost", SQLITE, "NATS at nats://localhost:4222"),
        ("tls://u:secret@localhost", POSTGRES, "NATS at tls://localhost:4222"),
        ("postgres", POSTGRES, "PostgreSQL at db:5432/x"),
        (None, POSTGRES, "PostgreSQL at db:5432/x"),
        (None, POSTGRES.replace("postgresql", "postgres"), "PostgreSQL at db:5432/x"),
    ],
)
def test_a_url_names_a_carrier(url: str | None, store: str, name: str) -> None:
    hints = open_hints(url, store)
    assert hints is not None
    assert hints.problem() == f"No connection to {name}: it was not opened."


@pytest.mark.parametrize(("url", "store"), [("none", POSTGRES), (None, SQLITE), (None, "memory:"), ("none", SQLITE)])
def test_no_carrier_is_needed(url: str | None, store: str) -> None:
    assert open_hints(url, store) is None


@pytest.mark.parametrize(
    ("url", "store", "message"),
    [
        ("redis://ada:secret@x", SQLITE, r"^Invalid cluster: 'redis://…'\. Write nats://host:port, tls://host:port, "),
        ("", SQLITE, "^Invalid cluster: ''"),
        ("postgres", SQLITE, "needs a store in PostgreSQL"),
        ("nats://", SQLITE, "^Invalid NATS URL"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(url: str, store: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        open_hints(url, store)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("url", "extra"), [("nats://localhost", "nats"), ("postgres", "postgres")])
def test_a_missing_package_is_named(url: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match=rf"pip install 'parley-a2a\[{extra}\]'"):
        open_hints(url, POSTGRES)


def test_packages_are_imported_only_by_the_carriers_that_need_them() -> None:
    code = (
        "import sys, parley.server.app, parley.cluster.sockets; from parley.cluster.urls import open_hints;"
        "open_hints('none', 'memory:'); print(sorted({'nats', 'asyncpg'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
