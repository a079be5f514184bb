"""The wheel, installed with the lowest versions that pyproject.toml allows: it serves, it calls, and it is typed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.served import running
from tests.peer_environments import ROOT, python_of

SECONDS = 100
CONSUMER = ROOT / "tests" / "consumer.py"


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, which must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, whose dependencies are those of `.peers/lowest`."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    lowest, environment = python_of("lowest"), folder / "env"
    run(lowest, "-m", "venv", "--without-pip", environment, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    (dependencies,) = lowest.parent.parent.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    return environment


@pytest.mark.deadline(240)
def test_the_lowest_versions_serve_an_agent_over_every_binding_and_call_it(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "consumer.py").write_bytes(CONSUMER.read_bytes())
    parley = installed / "bin" / "parley"
    with running(parley, "serve", "consumer.py:agent", "--port", "0", "--grpc-port", "0", cwd=tmp_path) as served:
        url = served.until_ready()
        bindings = ["JSONRPC", "HTTP+JSON", "GRPC"]
        answers = run(installed / "bin" / "python", "consumer.py", url, *bindings, cwd=tmp_path)
        expected = ["How far?", "farone TWO", "one TWO"]
        assert answers.splitlines() == [str([binding, *expected]) for binding in bindings]
        versions = ("--dialect", "0.1", "--dialect", "0.3", "--dialect", "1.0")
        run(parley, "check", url, "--message", "three", *versions, cwd=tmp_path)
        assert served.end() == 0
    assert not [line for line in served.logged if "ERROR" in line or "Traceback" in line]


@pytest.mark.deadline(240)
def test_a_program_sees_the_types_of_the_installed_package(installed: Path, tmp_path: Path) -> None:
    """`assert_type` fails where a checker finds no types: all is Any without `py.typed`."""
    (tmp_path / "consumer.py").write_bytes(CONSUMER.read_bytes())
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    python = installed / "bin" / "python"
    cache = ("--cache-dir", tmp_path / "cache")
    run(sys.executable, "-m", "mypy", "--strict", *cache, "--python-executable", python, "consumer.py", cwd=tmp_path)
    run(sys.executable, "-m", "pyright", "--pythonpath", python, "consumer.py", cwd=tmp_path)
