"""Async tests run on asyncio, and every test has a deadline."""

import os
from typing import Any

import pytest
from tests.deadlines import pytest_runtest_protocol as pytest_runtest_protocol

# A proxy of this machine's environment is none of the tests': nothing here leaves the machine.
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[variable]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}
