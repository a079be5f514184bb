"""Parley and a2a-sdk live in one process, though both define the same protobuf names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", ["parley", "a2a"])
def test_a2a_sdk_calls_us_over_grpc_from_the_same_process_whoever_is_imported_first(first: str) -> None:
    python = ROOT / ".peers" / "a2a-sdk-1.3.0" / "bin" / "python"
    if not python.exists():
        pytest.fail("The environment of a2a-sdk-1.3.0 is missing: run `make peers`", pytrace=False)
    script = ROOT / "tests" / "peers" / "coexist.py"
    done = subprocess.run(
        [python, script, first],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ('{"ok": true}\n', 0), done.stderr
