"""With `PARLEY_TEST_STORE=postgres`, the stores of these tests are in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.host.stores import close_all, servers
from tests.services.fixtures import ON_POSTGRES

if ON_POSTGRES:

    @pytest.fixture(scope="session", autouse=True)
    def store_server(request: pytest.FixtureRequest) -> Iterator[None]:
        servers.append(request.getfixturevalue("postgres_server"))
        yield
        servers.clear()

    @pytest.fixture(autouse=True)
    async def stores_closed(anyio_backend: object) -> AsyncIterator[None]:
        yield
        await close_all()
