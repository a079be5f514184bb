"""A handler that blocks the event loop is named in the log, and the engine goes on when it lets go."""

import logging
import threading

import pytest

from parley import Agent, Turn
from parley.engine.limits import Limits
from tests.bounded import bounded

pytestmark = pytest.mark.anyio


async def test_a_handler_that_blocks_the_loop_is_named() -> None:
    noticed = threading.Event()
    said: list[str] = []
    agent = Agent("Blocker")

    class Notice(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            noticed.set()

    @agent.on_message
    async def block_everything(turn: Turn) -> str:
        assert noticed.wait(4)
        return "done"

    logger = logging.getLogger("parley.engine.watchdog")
    logger.addHandler(notice := Notice())
    try:
        async with bounded(agent, limits=Limits(blocked_seconds=0.01)) as client:
            assert client.text(await client.send("go")) == "done"
    finally:
        logger.removeHandler(notice)
    assert "block_everything" in said[0]
