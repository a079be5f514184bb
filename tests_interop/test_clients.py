"""The clients of other frameworks play the scenario against Parley's server, each in its own environment and process.

What they show is compared as a whole. Where it differs from what they were told, the difference is the framework's, and
`docs/interoperability.md` has the exchange.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pprint import pformat
from typing import Any

import pytest

from tests_interop.environments import command_of
from tests_interop.shown_by_clients import SHOWN

PLAY_SECONDS = 240  # it takes two to fifteen, most of it for imports; a machine under load may take long


@dataclass(frozen=True)
class FrameworkClient:
    """A client of a framework, and a way of using it if there are several."""

    framework: str
    way: str = ""
    suffix: str = "py"

    @property
    def script(self) -> str:
        return f"client_{self.framework.replace('-', '_')}.{self.suffix}"

    def __str__(self) -> str:
        return f"{self.framework}-{self.way}" if self.way else self.framework


CLIENTS = (
    FrameworkClient("google-adk"),
    FrameworkClient("strands-agents"),
    FrameworkClient("agent-framework"),
    FrameworkClient("litellm"),
    FrameworkClient("litellm", "completion"),
    FrameworkClient("crewai"),
    FrameworkClient("crewai", "polling"),
    FrameworkClient("beeai-framework"),
    FrameworkClient("mastra", suffix="mjs"),
    FrameworkClient("mastra", "1.0", suffix="mjs"),
)


def play(client: FrameworkClient, servers: dict[str, str]) -> dict[str, Any]:
    """What the client showed, step by step, with names instead of URLs; a step that broke has its own account of it."""
    command, folder = command_of(client.framework, client.script)
    settings = json.dumps({**servers, "how": client.way})
    done = subprocess.run([*command, settings], cwd=folder, capture_output=True, text=True, timeout=PLAY_SECONDS)
    assert done.returncode == 0, done.stderr
    output = done.stdout.replace(servers["guarded_url"], "GUARDED").replace(servers["url"], "OPEN")
    # Some frameworks write warnings of their own to standard output.
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"step"')]
    return {line["step"]: line.get("seen", line.get("broke")) for line in lines}


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_the_client_of_a_framework_shows_what_parley_sends(client: FrameworkClient, servers: dict[str, str]) -> None:
    seen, expected = play(client, servers), SHOWN[str(client)]
    steps = {*seen, *expected}
    wrong = {
        step: {"seen": seen.get(step), "expected": expected.get(step)}
        for step in steps
        if seen.get(step) != expected.get(step)
    }
    assert not wrong, pformat(wrong, width=110)


def test_google_adk_refuses_a_card_that_lists_another_port_such_as_that_of_grpc(
    servers: dict[str, str], url_with_grpc: str
) -> None:
    seen = play(FrameworkClient("google-adk"), {**servers, "url": url_with_grpc})
    [error] = seen["send"]["errors"]
    assert "Agent card RPC URL must use https, or http on a loopback host: 127.0.0.1:" in error
