"""Async tests run on asyncio, the one loop that Parley supports; the store suite's assertions explain themselves.

Every test has a deadline. No example has one of its own: how long it takes depends on what else the machine does.
"""

import os
import signal

import pytest
from hypothesis import settings

from tests.bounded import any_store as any_store  # a fixture
from tests.deadlines import pytest_runtest_protocol as pytest_runtest_protocol

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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
