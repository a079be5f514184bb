"""`--workers N`: several real processes on one port and one store; what they say, and what happens when one dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.served import SECONDS, call, message, served
from tests.cli.worker_processes import AGENT, WORKERS, children, is_alive, text_of, until, until_ready


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "where.py").write_text(AGENT)
    return tmp_path


def send(url: str, message_id: str, text: str = "where") -> str:
    return text_of(call(url, "SendMessage", message(text, message_id))["result"]["task"])


def test_workers_share_a_port_and_a_store_and_drain_together(directory: Path) -> None:
    with served(*WORKERS, cwd=directory) as command:
        url = until_ready(command)
        pids = children(command)
        assert len(pids) == 2
        seen = {send(url, "m-1")}
        until(lambda: seen.add(send(url, f"m-{len(seen)}-{time.monotonic_ns()}")) or len(seen) == 2)
        assert seen == {str(pid) for pid in pids}
        again = call(url, "SendMessage", message("where", "m-1"))["result"]["task"]
        assert text_of(again) in seen
        assert call(url, "GetTask", {"id": again["id"]})["result"]["id"] == again["id"]
        assert command.end() == 0
    assert not any(map(is_alive, pids))
    assert [line for line in command.logged if '"message":"Stopped"' in line.replace(": ", ":")]


def test_a_worker_that_is_killed_is_started_again_and_its_run_goes_on(directory: Path) -> None:
    with served(*WORKERS, "--lease", "1s", cwd=directory) as command:
        url = until_ready(command)
        params = {**message("wait", "m-1"), "configuration": {"returnImmediately": True}}
        task = call(url, "SendMessage", params)["result"]["task"]

        def read() -> Any:
            return call(url, "GetTask", {"id": task["id"]})["result"]

        until(lambda: bool(read().get("artifacts")))
        holder = int(text_of(read()))
        os.kill(holder, signal.SIGKILL)
        (directory / "go").touch()
        line = command.until_logged("is started again in 0.5 s")
        assert "killed by signal 9" in line
        until(lambda: read()["status"]["state"] == "TASK_STATE_COMPLETED")
        assert text_of(read()) != f"{holder} done"
        until(lambda: len(children(command)) == 2 and holder not in children(command))
        assert command.end() == 0


def test_a_worker_that_is_killed_is_started_again_although_a_process_that_it_forked_lives_on(directory: Path) -> None:
    """That has inherited the pipe to the parent, so the pipe does not end with the worker."""
    with served(*WORKERS, cwd=directory) as command:
        url = until_ready(command)
        worker, child = map(int, send(url, "m-1", "fork").split())
        try:
            os.kill(worker, signal.SIGKILL)
            command.until_logged("is started again in 0.5 s")
            until(lambda: len(children(command)) == 2 and worker not in children(command))
        finally:
            os.kill(child, signal.SIGKILL)
        assert command.end() == 0


def test_the_announcement_is_printed_once_when_all_are_ready(directory: Path) -> None:
    options = ("where:agent", "--workers", "2", "--port", "0", "--grpc-port", "0", "--store", "sqlite:///tasks.db")
    with served(*options, cwd=directory) as command:
        url = command.until_ready()
        for _ in range(2):
            command.until_logged("Serving at")
        with urllib.request.urlopen(f"{url}/readyz", timeout=SECONDS) as reply:
            assert json.load(reply) == {"status": "ok"}
        assert command.end() == 0
    assert sum("Serving at" in line for line in command.logged) == 2
    assert sum("serves Where" in line for line in command.said) == 1


def test_workers_end_when_their_parent_is_killed(directory: Path) -> None:
    with served(*WORKERS, cwd=directory) as command:
        until_ready(command)
        pids = children(command)
        command.process.kill()
        until(lambda: not any(map(is_alive, pids)))


def test_a_second_signal_kills_workers_that_drain(directory: Path) -> None:
    with served(*WORKERS, "--drain-seconds", "600", cwd=directory) as command:
        url = until_ready(command)
        pids = children(command)
        params = {**message("wait", "m-1"), "configuration": {"returnImmediately": True}}
        call(url, "SendMessage", params)
        command.process.send_signal(signal.SIGTERM)
        command.until_logged("Finishing 1 run")
        command.process.send_signal(signal.SIGTERM)
        assert command.ended() == -signal.SIGTERM
        until(lambda: not any(map(is_alive, pids)))


def test_workers_that_cannot_start_end_the_command_with_their_reason(directory: Path) -> None:
    with served("nowhere:agent", "--workers", "2", "--port", "0", cwd=directory) as command:
        assert command.ended() == 2
    said = "\n".join(command.logged)
    assert said.count("nowhere") == 1
    assert "Worker 1 ended at its start, with exit code 2. All workers are stopped." in said


def test_a_port_that_is_taken_is_reported_by_the_parent(directory: Path) -> None:
    with served(*WORKERS, cwd=directory) as command:
        port = until_ready(command).rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "parley.cli.main", "serve", *WORKERS, "--port", port],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    assert (done.returncode, f"Port {port} on 127.0.0.1 is in use." in done.stderr) == (1, True), done.stderr
