"""Asks a published SDK, in an environment of its own: one process per question list, however long it is.

The scripts in `peers/` read JSON lines and answer each with one; `make peers` creates the environments.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TIMEOUT_SECONDS = 60  # importing an SDK takes one or two; a machine under load may need ten times that


def ask(peer: str, script: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a script of `peers/` answers in the environment of a peer (`a2a-sdk-1.3.0`), in order."""
    python = ROOT / ".peers" / peer / "bin" / "python"
    if not python.exists():
        pytest.fail(f"The environment of {peer} is missing: run `make peers`", pytrace=False)
    numbered = [{"id": number, **question} for number, question in enumerate(questions)]
    done = subprocess.run(
        [python, ROOT / "tests" / "peers" / script],
        input="".join(json.dumps(question) + "\n" for question in numbered),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == list(range(len(questions)))
    return answers
