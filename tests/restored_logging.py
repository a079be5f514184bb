"""Logging as it was, after tests that set it up for the whole process: as `parley serve` does, also in a test."""

import logging
from collections.abc import Generator

import pytest

LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "grpc", "py.warnings", "httpx2", "httpcore2")


@pytest.fixture(autouse=True)
def restored_logging() -> Generator[None]:
    """For a module or folder that imports it."""
    kept = [
        (logger, logger.level, logger.handlers[:], logger.propagate)
        for logger in map(logging.getLogger, ("", "hpack", "asyncio", *LOGGERS))
    ]
    yield
    logging.captureWarnings(False)
    for logger, level, handlers, propagate in kept:
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate
