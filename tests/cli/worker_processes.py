"""Servers with `--workers`: their agent, and what tests ask of their processes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.served import SECONDS, Served

AGENT = """
import asyncio
import os
import time
from pathlib import Path

from parley import Agent

agent = Agent("Where", description="Says in which process it runs.")

@agent.on_message
async def where(turn):
    if turn.text == "wait":
        yield f"{os.getpid()} "
        while not Path("go").exists():
            await asyncio.sleep(0.01)
        yield "done"
    elif turn.text == "fork":
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        yield f"{os.getpid()} {child}"
    else:
        yield str(os.getpid())
"""

WORKERS = ("where:agent", "--workers", "2", "--port", "0", "--store", "sqlite:///tasks.db", "--log-format", "json")


def children(command: Served) -> list[int]:
    """The processes that the command has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(command.process.pid)], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "It never held"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_ready(command: Served) -> str:
    """The URL, once all workers are ready."""
    return json.loads(command.until_logged("workers serve at"))["url"]


def text_of(task: Any) -> str:
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])
