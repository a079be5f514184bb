"""Clients of other people reach an agent's skills, although they know nothing of skill ids."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.served import running
from tests.peer_environments import ROOT, TIMEOUT_SECONDS, python_of

LIST = "Which of these is your message for? Answer with a name or a number.\n1. Shout\n2. Mirror writing"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the agent is served."""
    folder = tmp_path_factory.mktemp("desk")
    ports = ["--port", "0", "--grpc-port", "0"]
    command = [sys.executable, "-m", "parley.cli.main", "serve", "tests.interop.desk:agent", *ports]
    with running(*command, "--store", f"sqlite:///{folder}/tasks.db", cwd=ROOT) as server:
        yield server.until_ready()


def seen(state: str, said: str = "", text: str | None = None) -> dict[str, Any]:
    return {"state": state, "said": said, "parts": [] if text is None else [{"text": text}]}


@pytest.mark.parametrize(
    ("peer", "client", "bindings", "replies"),
    [
        ("a2a-sdk-1.3.0", "scenario_sdk_1_3_0", ["jsonrpc", "rest", "grpc"], [[["olleH"], ["olleH"]]]),
        ("a2a-sdk-0.3.26", "scenario_sdk_0_3_26", ["jsonrpc", "rest", "grpc"], []),
    ],
)
def test_a_foreign_client_reaches_the_second_skill_by_its_words_and_by_answering_a_question(
    peer: str, client: str, bindings: list[str], replies: list[Any], desk: str
) -> None:
    given = json.dumps({"client": client, "url": desk, "bindings": bindings})
    command = [python_of(peer), Path("tests") / "peers" / "skills.py", given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    expected = [
        seen("completed", text="sdrawkcab etirw"),
        seen("input-required", LIST),
        seen("input-required", f"That is none of them. {LIST}"),
        seen("completed", text="olleh"),
        *replies,
    ]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [{"binding": binding, "seen": expected} for binding in bindings]
