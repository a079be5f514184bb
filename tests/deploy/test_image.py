"""The Dockerfile: a linter finds nothing, and what it runs works, in an environment on this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.deploy_files import DEPLOY, ROOT, run, tool
from tests.deploy.dockerfile import Stage, is_sent, play, rules, stages
from tests.services.postgres import free_port

DOCKERFILE = DEPLOY / "Dockerfile"
IGNORED = DEPLOY / "Dockerfile.dockerignore"
USER = 10001


@pytest.fixture(scope="module")
def image() -> Generator[Path]:
    """/opt/parley, as the first stage makes it."""
    with tempfile.TemporaryDirectory(prefix="parley-image-") as folder:
        build, _ = stages(DOCKERFILE)
        yield play(build, context=ROOT, ignored=IGNORED, folder=Path(folder))


def final() -> Stage:
    return stages(DOCKERFILE)[1]


@contextmanager
def container(image: Path, *arguments: str, port: int) -> Generator[subprocess.Popen[str]]:
    """The entry point with the variables of the image, in a folder with examples."""
    variables = {name: value.replace("/opt/parley", str(image)) for name, value in final().variables().items()}
    path = variables["PATH"].replace("$PATH", os.environ["PATH"])
    variables |= {"PATH": path, "PARLEY_HOST": "127.0.0.1", "PARLEY_PORT": str(port), "PARLEY_STORE": "memory:"}
    entry = json.loads(final().one("ENTRYPOINT"))
    process = subprocess.Popen(
        [image / "bin" / entry[0], *arguments],
        env=variables,
        cwd=ROOT / "examples",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def health(image: Path, port: int) -> int:
    """The exit code of the health check, for another port."""
    command = final().one("HEALTHCHECK").partition(" CMD ")[2]
    _, *words = json.loads(command.replace("8080", str(port)))
    return subprocess.run([image / "bin" / "python", *words], stderr=subprocess.DEVNULL).returncode


def test_a_linter_finds_nothing() -> None:
    assert run(tool("hadolint"), DOCKERFILE) == ""


def test_only_what_the_image_is_made_of_is_sent_to_the_engine() -> None:
    found = rules(IGNORED)
    assert is_sent("src/parley/__init__.py", found)
    for name in (".git/config", ".venv/bin/python", "deploy/.env", "deploy/auth.toml", "src/parley/__pycache__/x.pyc"):
        assert not is_sent(name, found), name


def test_the_container_runs_as_a_user_with_a_number_and_is_stopped_by_sigterm() -> None:
    assert final().one("USER") == f"{USER}:{USER}"
    assert final().one("STOPSIGNAL") == "SIGTERM"
    assert json.loads(final().one("CMD")) == ["serve"]
    assert not any("PASSWORD" in name or "TOKEN" in name for name in final().variables())


@pytest.mark.deadline(600)  # it installs everything
def test_the_image_holds_what_a_replica_needs_and_its_health_check_tells_whether_it_answers(image: Path) -> None:
    """One test, because the image takes half a minute."""
    run(image / "bin" / "python", "-c", "import asyncpg, grpc, nats, parley.cli.main, parley.server.bindings.grpc")
    assert not (image / "bin" / "pip").exists()
    port, before = free_port(), sorted(image.rglob("*"))
    with container(image, "serve", "hello.py", port=port) as process:
        assert process.stdout is not None
        assert next((line for line in process.stdout if "Ctrl+C" in line), None) is not None
        assert health(image, port) == 0
        process.terminate()
        assert process.wait(30) == 0, "SIGTERM ends it in order"
    assert health(image, port) != 0
    assert sorted(image.rglob("*")) == before, "nothing is written into the image"


def test_the_commands_at_the_top_of_the_dockerfile_name_what_is_there() -> None:
    text = DOCKERFILE.read_text().replace("\\\n#", "")
    commands = [shlex.split(line[4:]) for line in text.splitlines() if line.startswith("#   docker")]
    assert commands[0][-1] == "."
    assert (ROOT / commands[0][commands[0].index("--file") + 1]).samefile(DOCKERFILE)
    assert (ROOT / "examples" / commands[1][-1]).is_file()
