"""Parley's client plays the scenario with agents that other frameworks serve, each in its own environment and process.

What it shows is compared as a whole. Where an agent does not play a step, the reason is the framework's, and
`docs/interoperability.md` has the exchange.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat

import pytest
from tests.peer_environments import serving_process

from tests_interop.environments import command_of
from tests_interop.parley_steps import STEPS, play
from tests_interop.shown_of_servers import SHOWN

START_SECONDS = 200  # LiteLLM's gateway imports for fifteen; a machine under load may take ten times that
LITELLM_KEY = "sk-of-the-tester"


@dataclass(frozen=True)
class FrameworkServer:
    """A server of a framework, and a way of configuring it if there are several. `lacks` are steps without an end."""

    framework: str
    way: str = ""
    suffix: str = "py"
    lacks: tuple[str, ...] = ()
    is_gateway: bool = False

    @property
    def script(self) -> str:
        return f"server_{self.framework.replace('-', '_')}.{self.suffix}"

    def __str__(self) -> str:
        return f"{self.framework}-{self.way}" if self.way else self.framework


SERVERS = (
    FrameworkServer("google-adk"),
    FrameworkServer("strands-agents"),
    FrameworkServer("strands-agents", "compliant"),
    FrameworkServer("agent-framework"),
    FrameworkServer("agent-framework", "stream"),
    FrameworkServer("litellm", "0.3.0", is_gateway=True),
    FrameworkServer("litellm", "1.0", is_gateway=True, lacks=tuple(step.__name__ for step in STEPS[2:])),
    # It says nothing before a task is over, so that none can be named while it runs.
    FrameworkServer("crewai", lacks=("cancel", "start")),
    # Canceling does not end a task, and every other one fails from then on.
    FrameworkServer("beeai-framework", lacks=("cancel", "start")),
    # It waits for the end of the task, also if it is told not to.
    FrameworkServer("langgraph-api", lacks=("start",)),
    FrameworkServer("mastra", suffix="mjs"),
)


@pytest.mark.parametrize("server", SERVERS, ids=str)
def test_parley_shows_what_an_agent_of_a_framework_says(
    server: FrameworkServer, servers: dict[str, str], tmp_path: Path
) -> None:
    command, folder = command_of(server.framework, server.script)
    target = [servers["url"]] if server.is_gateway else []
    arguments = [*command, *target, *filter(None, [server.way])]
    log = tmp_path / "server.log"
    with serving_process(arguments, log=log, cwd=folder, seconds=START_SECONDS) as (url, _):
        steps = tuple(step for step in STEPS if step.__name__ not in server.lacks)
        seen = asyncio.run(play(url, LITELLM_KEY if server.is_gateway else None, steps=steps))
    expected = SHOWN[str(server)]
    wrong = {
        step: {"seen": seen.get(step), "expected": expected.get(step)}
        for step in {*seen, *expected}
        if seen.get(step) != expected.get(step)
    }
    assert not wrong, pformat(wrong, width=110)
