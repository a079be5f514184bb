"""Async tests run on asyncio, the one loop that Parley supports; the store suite's assertions explain themselves.

No example has a deadline: how long one takes depends on what else the machine does.
"""

import pytest
from hypothesis import settings

settings.register_profile("parley", deadline=None)
settings.load_profile("parley")

pytest.register_assert_rewrite("parley.testing.stores")  # before any test imports it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
