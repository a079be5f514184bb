"""Published SDKs, each in an environment of its own, which `make peers` creates.

`ask` takes one process per list of questions: the scripts in `peers/` read JSON lines and answer each. A server
says in its first line where it serves.
"""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TIMEOUT_SECONDS = 60  # importing an SDK takes one or two; a machine under load may need ten times that


def python_of(peer: str) -> Path:
    """The interpreter in the environment of a peer (`a2a-sdk-1.3.0`)."""
    python = ROOT / ".peers" / peer / "bin" / "python"
    if not python.exists():
        pytest.fail(f"The environment of {peer} is missing: run `make peers`", pytrace=False)
    return python


@contextmanager
def serving_process(
    command: Sequence[str | Path], *, log: Path, cwd: Path = ROOT, seconds: float = TIMEOUT_SECONDS
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Where a process serves, and the process, which the end of the block kills. `seconds` are for its start."""
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], seconds)
            line = process.stdout.readline() if ready else ""
            assert line, log.read_text()
            yield json.loads(line)["url"], process
        finally:
            process.kill()


def ask(peer: str, script: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a script of `peers/` answers in the environment of a peer, in order."""
    numbered = [{"id": number, **question} for number, question in enumerate(questions)]
    done = subprocess.run(
        [python_of(peer), ROOT / "tests" / "peers" / script],
        input="".join(json.dumps(question) + "\n" for question in numbered),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == list(range(len(questions)))
    return answers
