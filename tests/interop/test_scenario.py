"""Real clients, each from its own environment and in its own process, play the shared scenario against our server."""

import json
import subprocess
import sys
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from tests.interop.javascript import ENVIRONMENT, MANIFEST, ROOT, find_node
from tests.interop.scenario import PLAYERS, Player, expected

PLAY_SECONDS = 90  # it takes one or two; importing an SDK on a machine under load may take long


def command_of(player: Player) -> tuple[list[str | Path], Path]:
    """What runs a client's script, and where."""
    script = ROOT / "tests" / "peers" / player.script
    if script.suffix == ".mjs":
        return [find_node()[0], script], ENVIRONMENT
    python = ROOT / ".peers" / player.peer / "bin" / "python" if player.peer else Path(sys.executable)
    return [python, script], ROOT


def play(player: Player, servers: dict[str, str]) -> dict[str, Any]:
    """What the client saw, step by step; a step that broke has the client's own account of it."""
    if player.peer and not (ROOT / ".peers" / player.peer / ".installed").exists():
        pytest.fail(f"The environment of {player.peer} is missing: run `make peers`", pytrace=False)
    command, folder = command_of(player)
    settings = json.dumps({**servers, "binding": player.binding})
    done = subprocess.run([*command, settings], cwd=folder, capture_output=True, text=True, timeout=PLAY_SECONDS)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["step"]: line.get("seen", line.get("broke")) for line in lines}


@pytest.mark.parametrize("player", PLAYERS, ids=str)
def test_a_real_client_sees_what_the_scenario_says(player: Player, servers: dict[str, str]):
    seen, wanted = play(player, servers), expected(player)
    wrong = {step: {"seen": seen.get(step), "expected": wanted.get(step)} for step in {*seen, *wanted}}
    wrong = {step: both for step, both in wrong.items() if both["seen"] != both["expected"]}
    assert not wrong, pformat(wrong, width=110)


def test_the_lock_of_the_javascript_sdk_names_no_place_to_download_from():
    lock = json.loads((MANIFEST / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if "integrity" not in package] == []
