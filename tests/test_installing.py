"""The wheel, installed with the lowest versions that pyproject.toml allows: it serves, it calls, and it is typed."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.served import running
from tests.host.openai_server import Failure, OpenAiServer, Reply
from tests.peer_environments import ROOT, python_of

SECONDS = 100
CONSUMER = ROOT / "tests" / "consumer.py"
SAMPLES = ROOT / "tests" / "typing_samples"
"""An author's code: `author.py` is right, and every line of `mistakes.py` that ends with `# wrong` is wrong."""

MODEL_CALLS = """
import asyncio, os, sys
from parley.host.models.model import ModelError, ModelMessage, ModelRequest
from parley.host.models.registry import ModelRegistry

async def call(name):
    request = ModelRequest(agent_id="a", system="Be brief.", messages=(ModelMessage("user", "Hi"),), query="Hi")
    try:
        return await anext(registry.model(name).stream(request))
    except ModelError as error:
        return error.kind.value

async def main():
    for name in sys.argv[2:]:
        print(name, await call(name))

url = sys.argv[1]
variables = {f"{name}_API_KEY": "a-key" for name in ("ANTHROPIC", "GOOGLE", "OPENAI", "OPENROUTER")}
variables |= {"OPENAI_BASE_URL": url, "OPENROUTER_BASE_URL": url, "ANTHROPIC_BASE_URL": url}
variables |= {"GOOGLE_GEMINI_BASE_URL": url, "OLLAMA_HOST": url.removesuffix("/v1")}
registry = ModelRegistry(builtin={}, environ=variables)
asyncio.run(main())
"""


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


def test_the_lowest_versions_call_the_models_of_every_provider(installed: Path, tmp_path: Path) -> None:
    with OpenAiServer() as server:
        server.answer_with(lambda request: Reply("Hello") if request.path.endswith("completions") else Failure(404))
        names = ("openai/x", "openrouter/vendor/x", "ollama/x", "anthropic/x", "google/x")
        printed = run(installed / "bin" / "python", "-c", MODEL_CALLS, server.base_url, *names, cwd=tmp_path)
    expected = [f"{name} {'not_found' if name[0] in 'ag' else 'Hello'}" for name in names]
    assert printed.splitlines() == expected


def test_the_wheel_has_the_page_of_the_console_compressed_beforehand(installed: Path) -> None:
    (static,) = installed.glob("lib/python*/site-packages/parley/console/static")
    page = (static / "index.html").read_text()
    names = ["index.html", *re.findall(r'"/console/(assets/[^"]+)"', page)]
    assert len(names) >= 3
    for name in names:
        content = (static / name).read_bytes()
        assert gzip.decompress((static / f"{name}.gz").read_bytes()) == content
        assert 0 < (static / f"{name}.br").stat().st_size < len(content)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs that type checkers look at."""
    folder = tmp_path_factory.mktemp("programs")
    for program in (CONSUMER, *SAMPLES.glob("*.py")):
        (folder / program.name).write_bytes(program.read_bytes())
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return folder


def marked_mistakes() -> set[tuple[str, int]]:
    """The lines of the samples that a type checker must complain about."""
    lines = (SAMPLES / "mistakes.py").read_text().splitlines()
    return {("mistakes.py", number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


@pytest.mark.deadline(240)
def test_mypy_finds_the_mistakes_of_an_author_and_no_others(installed: Path, programs: Path) -> None:
    """`assert_type` in the samples fails where a checker finds no types: all is Any without `py.typed`."""
    mypy = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", programs / "cache")
    checked = subprocess.run(
        [*mypy, "--python-executable", installed / "bin" / "python", *programs.glob("*.py")],
        cwd=programs,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    found = re.findall(r"^([\w.]+):(\d+): error: ", checked.stdout, re.MULTILINE)
    assert {(file, int(line)) for file, line in found} == marked_mistakes(), checked.stdout + checked.stderr


@pytest.mark.deadline(240)
def test_pyright_finds_the_mistakes_of_an_author_and_no_others(installed: Path, programs: Path) -> None:
    pyright = (sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", installed / "bin" / "python")
    checked = subprocess.run(pyright, cwd=programs, capture_output=True, text=True, timeout=SECONDS)
    errors = json.loads(checked.stdout)["generalDiagnostics"]
    found = {(Path(error["file"]).name, error["range"]["start"]["line"] + 1) for error in errors}
    assert found == marked_mistakes(), checked.stdout
