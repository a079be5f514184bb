"""Async tests run on asyncio, the one loop that Parley supports; the store suite's assertions explain themselves."""

import pytest

pytest.register_assert_rewrite("parley.testing.stores")  # before any test imports it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
