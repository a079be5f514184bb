"""The tests' own rules: default signals for what they start, and a deadline with all stacks. Each runs a pytest."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 60

HANGING = """
import asyncio, signal, subprocess, sys, threading
import pytest

def test_what_is_started_can_be_interrupted():
    script = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.check_output([sys.executable, "-c", script]) == b"True\\n"

async def wait_for_ever():
    await asyncio.Event().wait()

@pytest.mark.anyio
@pytest.mark.deadline(3)
async def test_task():
    release = threading.Event()
    threading.Thread(target=release.wait, name="that-waits").start()
    try:
        await asyncio.gather(wait_for_ever())
    finally:
        release.set()

@pytest.mark.anyio
@pytest.mark.deadline(3)
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_uvloop():
    await wait_for_ever()
"""


def test_a_test_started_with_signals_ignored_interrupts_processes_and_fails_with_all_stacks_at_its_deadline(
    tmp_path: Path,
) -> None:
    probe = tmp_path / "test_probe.py"
    probe.write_text(HANGING)
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = f"trap '' INT; exec {sys.executable} -m pytest {' '.join(options)} {probe}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    said = done.stdout + done.stderr
    assert "2 failed, 1 passed" in said, said
    assert said.count("The test has not ended after 3 seconds.") >= 2
    assert "Thread that-waits:" in said
    assert "await asyncio.Event().wait()" in said
