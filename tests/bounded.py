"""`parley.testing.running`, for five seconds at most: a test that hangs fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from anyio import fail_after

from parley.testing.client import Client, running


@asynccontextmanager
async def bounded(program: Any, **options: Any) -> AsyncGenerator[Client]:
    with fail_after(5):
        async with running(program, **options) as client:
            yield client
