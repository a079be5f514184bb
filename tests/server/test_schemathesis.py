"""schemathesis, from an environment of its own, against a served agent and the OpenAPI document that it serves.

It sends what the document allows and what it forbids, and checks statuses, content types, headers and bodies of the
replies; `schemathesis_checks.py` adds what it cannot know. `make soak` tries far more, and others each time.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.server.served import served_agent

HERE = Path(__file__).parent
COMMAND = HERE.parent.parent / ".peers" / "schemathesis" / "bin" / "schemathesis"
TOKEN = "a-token-for-the-fuzzer"
IS_SOAK = bool(os.environ.get("PARLEY_FUZZ_EXAMPLES"))

QUICKLY = ["--phases", "examples,fuzzing", "--max-examples", "15", "--seed", "20260301"]
# The routes with a tenant are the others once more; the coverage phase alone sends ten thousand requests.
QUICKLY += ["--exclude-path-regex", r"^/\{tenant\}/tasks"]
THOROUGHLY = ["--phases", "examples,coverage,fuzzing", "--max-examples", "100"]


def test_the_server_does_what_its_document_says(tmp_path: Path) -> None:
    with served_agent("--token", TOKEN) as agent:
        command = [
            *(COMMAND, "--config-file", HERE / "schemathesis.toml", "run"),
            f"http://127.0.0.1:{agent.http}/openapi.json",
            *("--header", f"Authorization: Bearer {TOKEN}", "--request-timeout", "15", "--no-shrink"),
            *("--continue-on-failure", "--warnings", "off"),
            *(THOROUGHLY if IS_SOAK else QUICKLY),
        ]
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1_800 if IS_SOAK else 240,
        )
    assert done.returncode == 0, done.stdout + done.stderr
