"""Async tests run on asyncio, the one event loop that Parley supports."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
