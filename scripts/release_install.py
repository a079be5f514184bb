"""Tries a wheel as its users have it: in an empty environment, with locked dependencies, serving an agent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.release_archives import ReleaseError

SECONDS = 300
AGENT = """
from parley import Agent

agent = Agent("Echo", description="Repeats what it is told.")


@agent.on_message
async def repeat(turn):
    return f"You said: {turn.text}"
"""
CARD = re.compile(r"card +(\S+)/\.well-known")


def try_wheel(wheel: Path, interpreter: str, lock: Path, folder: Path) -> None:
    """Install a wheel for one interpreter, print its version, serve an agent and send it a message.

    Raises:
        ReleaseError: one of these fails.
    """
    folder.mkdir(parents=True)
    environment = folder / "env"
    _run([sys.executable, "-m", "uv", "venv", "--quiet", "--python", interpreter, str(environment)], folder)
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    _run([*install, "--constraint", str(lock), str(wheel)], folder)
    try_installed(environment / "bin" / "parley", version=wheel.name.split("-")[1], folder=folder)


def try_installed(parley: Path, *, version: str, folder: Path) -> None:
    """Try an installed command: its version, and an agent that it serves in `folder` and calls.

    Raises:
        ReleaseError: it has another version, does not serve, or the agent does not answer.
    """
    printed = _run([str(parley), "--version"], folder)
    if version not in printed.split():
        raise ReleaseError(f"parley --version must print {version}, and prints: {printed.strip()}")
    (folder / "echo.py").write_text(AGENT)
    serving = subprocess.Popen(
        [str(parley), "serve", "echo.py:agent", "--port", "0", "--store", "memory:"],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        url = _url_of(serving)
        answer = _run([str(parley), "send", url, "hello"], folder)
    finally:
        serving.terminate()
        serving.communicate(timeout=SECONDS)
    if "You said: hello" not in answer:
        raise ReleaseError(f"The agent must repeat the message, and answers: {answer.strip()}")


def _url_of(serving: subprocess.Popen[str]) -> str:
    assert serving.stdout is not None
    said: list[str] = []
    for line in serving.stdout:
        said.append(line)
        found = CARD.search(line)
        if found:
            return found[1]
    raise ReleaseError(f"parley serve ended: {''.join(said)}")


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Without what would put this checkout on the path of the environment that is tried."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in left_out} | {"PYTHONUNBUFFERED": "1"}
