"""Commands against a host of the test: they run in threads, because each has an event loop of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import msgspec
from typer.testing import CliRunner

from parley.cli.main import app
from tests.host.running_host import RunningHost


class HostCommands:
    """Runs `parley …` with the URL of a host and its admin token in the environment."""

    def __init__(self, running: RunningHost, **environment: str) -> None:
        self._environment: Mapping[str, str] = {
            "PARLEY_HOST_URL": running.url,
            "PARLEY_ADMIN_TOKEN": running.admin_token,
            "COLUMNS": "160",
            **environment,
        }

    async def run(self, *words: str) -> tuple[int, str]:
        """The exit code and everything that a command prints."""

        def invoke() -> tuple[int, str]:
            with patch.dict(os.environ, self._environment):
                result = CliRunner().invoke(app, list(words))
            return result.exit_code, result.output

        return await asyncio.to_thread(invoke)

    async def json(self, *words: str) -> Any:
        """What a command prints with `--json`."""
        code, output = await self.run(*words, "--json")
        assert code == 0, output
        return msgspec.json.decode(output)
