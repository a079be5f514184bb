"""How the scripts in `peers/` are run: each framework in an environment of its own in `.peers`, which make creates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.javascript import find_node
from tests.peer_environments import ROOT

SCRIPTS = ROOT / "tests_interop" / "peers"


def command_of(framework: str, script: str) -> tuple[list[str | Path], Path]:
    """What runs a script, and where."""
    environment = ROOT / ".peers" / framework
    if not (environment / ".installed").exists():
        pytest.fail(f"The environment of {framework} is missing: run `make interop`", pytrace=False)
    if script.endswith(".mjs"):
        return [find_node()[0], SCRIPTS / script], environment
    return [environment / "bin" / "python", SCRIPTS / script], ROOT
