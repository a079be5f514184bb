"""Async tests run on asyncio, the one loop that Parley supports; the store suite's assertions explain themselves.

Every test has a deadline. No example has one of its own: how long it takes depends on what else the machine does.
"""

import asyncio
import contextvars
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from tests.bounded import any_store as any_store  # a fixture
from tests.deadlines import pytest_runtest_protocol as pytest_runtest_protocol
from tests.services.fixtures import ON_POSTGRES
from tests.services.fixtures import nats_server as nats_server
from tests.services.fixtures import postgres_server as postgres_server
from tests.services.fixtures import postgres_url as postgres_url

settings.register_profile("parley", deadline=None)
settings.load_profile("parley")

pytest.register_assert_rewrite("tests.stores.store_suite", "tests.stores.shared_store_suite")  # before any import

# A shell starts background jobs with SIGINT ignored, and a process hands that down to those it starts. A handler is not
# handed down: processes that a test starts have the default, and this process goes on ignoring the signal.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda _number, _frame: None)

# A proxy of this machine's environment is none of the tests': they name their own.
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[variable]


class _TestLoop(asyncio.SelectorEventLoop):
    """A loop that ignores what is sent to it after it was closed.

    gRPC delivers the end of a call to the loop of the call, from the loop that polls next: when that is the loop of the
    next test, its error would be that test's failure. A server has one loop for as long as it lives.
    """

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon_threadsafe(callback, *args, context=context)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": _TestLoop}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the tests that may take longest, so that no worker is left alone with one of them at the end.

    On PostgreSQL, leave out those that are marked `embedded`.
    """
    if ON_POSTGRES:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("embedded")])
        items[:] = [item for item in items if not item.get_closest_marker("embedded")]

    def seconds(item: pytest.Item) -> float:
        marker = item.get_closest_marker("deadline")
        return marker.args[0] if marker else 0

    items.sort(key=seconds, reverse=True)
