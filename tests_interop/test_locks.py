"""The environments of the frameworks are pinned with hashes, and no lock names a host to download from."""

from __future__ import annotations

import json

import pytest
from tests.peer_environments import ROOT

from tests_interop.test_clients import CLIENTS
from tests_interop.test_servers import SERVERS

FRAMEWORKS = sorted({one.framework for one in (*CLIENTS, *SERVERS)} - {"mastra"})


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_lock_has_hashes_and_no_hosts(framework: str) -> None:
    lock = (ROOT / "locks" / f"{framework}.lock").read_text()
    assert "--hash=sha256:" in lock
    assert "://" not in lock


def test_the_lock_of_mastra_has_hashes_and_names_no_place_to_download_from() -> None:
    lock = json.loads((ROOT / "tests_interop" / "mastra" / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if "integrity" not in package] == []
