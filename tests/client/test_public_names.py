"""What programs import: all that the pages name, from two places."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import parley
import parley.client

DOCS = Path(__file__).parents[2] / "docs"


def test_every_name_is_to_be_had() -> None:
    assert sorted(parley.client.__all__) == sorted(dir(parley.client))
    for module in (parley, parley.client):
        for name in module.__all__:
            assert getattr(module, name) is not None
        with pytest.raises(AttributeError, match="has no attribute 'Cleint'"):
            _ = module.Cleint  # pyright: ignore
    assert parley.Client is parley.client.Client


def test_a_name_that_is_listed_has_a_module_that_defines_it() -> None:
    modules = parley.client._MODULE_OF  # pyright: ignore[reportPrivateUsage]
    assert sorted(modules) == sorted(parley.client.__all__)


def test_what_is_listed_of_the_package_is_what_programs_need() -> None:
    assert {"Client", "ask"} <= set(dir(parley))
    assert not {"Any", "TYPE_CHECKING"} & set(dir(parley))


def test_importing_the_package_loads_no_client() -> None:
    code = "import sys, parley, parley.client; print({'parley.client.client', 'grpc', 'cryptography'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_serves_an_agent_loads_no_client_and_no_keys() -> None:
    clients = {"httpx2", "parley.client.client", "parley.client.credentials.oauth", "parley.server.security.auth_file"}
    unused = clients | {"cryptography", "joserfc.jwk", "parley.keys.key_folder"}
    code = f"import sys, parley.cli.main, parley.server.app, parley.server.run; print({unused} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("page", ["client.md", "credentials.md"])
def test_all_that_a_page_names_is_to_be_had(page: str) -> None:
    """Every `Name` or `Name(…)` of the page is in one of the two packages, or is known from elsewhere."""
    names = set(re.findall(r"`([A-Z][a-z]+[A-Za-z]*)(?:\([^`]*\)|\.[a-z_]+)?`", (DOCS / page).read_text()))
    elsewhere = {"App", "Path", "Authorization", "Mount", "Route", "TypeError"}
    assert names
    assert names - elsewhere <= {*parley.__all__, *parley.client.__all__}
