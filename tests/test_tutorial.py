"""The tutorial, followed as a newcomer follows it: every file is written, every command typed, every output compared.

The pages are one walk through one empty folder. What cannot run here is in `INSTEAD`, with what is done in its place.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Generator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.services.postgres import free_port
from tests.tutorial.pages import Block, actions, blocks
from tests.tutorial.shells import Shell

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "tutorial").glob("[0-9]*.md"))
TERMINALS = ("Terminal 1", "Terminal 2")
PORTS = ("8080", "8081", "11434")
"""The ports of the pages: two servers, and one with models. The test replaces them with free ones."""

INSTALL = """\
import os, sys, sysconfig
os.makedirs(sysconfig.get_path("purelib"), exist_ok=True)
with open(os.path.join(sysconfig.get_path("purelib"), "parley.pth"), "w") as file:
    file.write({paths!r})
for command in ("parley", "pytest"):
    os.symlink(os.path.join({scripts!r}, command), os.path.join(sysconfig.get_path("scripts"), command))
"""
"""Makes this environment's packages and commands those of the newcomer's environment, which pip would download."""
INSTEAD = {
    "python3 -m venv .venv": "python3 -m venv --without-pip .venv",
    "pip install ../parley": "python ../install.py",
    "pip install pytest": "true",
}


def test_every_block_of_the_tutorial_is_a_file_or_a_terminal() -> None:
    assert len(PAGES) >= 8
    found = [block for page in PAGES for block in blocks(page)]
    assert [block.place for block in found if block.title is None] == []
    assert [block.place for block in found if (block.language == "console") != (block.title in TERMINALS)] == []


def test_every_page_names_the_files_that_its_reader_writes() -> None:
    """The title of a block is only shown on the site; a reader of the text needs the name before the block."""
    for page in PAGES:
        text = page.read_text()
        for block in blocks(page):
            if block.language != "console":
                before = text.partition(f'title="{block.title}"')[0]
                assert f"`{block.title}`" in before, block.place


@pytest.fixture
def newcomer(tmp_path: Path) -> dict[str, str]:
    """The environment of a person who has Python and a clone."""
    site, source = sysconfig.get_path("purelib"), ROOT / "src"
    text = INSTALL.format(paths=f"{site}\n{source}\n", scripts=str(Path(sys.executable).parent))
    (tmp_path / "install.py").write_text(text)
    (tmp_path / "home").mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PARLEY_", "COVERAGE_", "PYTEST"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "HOME": str(tmp_path / "home"), "VIRTUAL_ENV_DISABLE_PROMPT": "1"}


@pytest.fixture
def model_server() -> Generator[int]:
    """The port of a server that streams an answer as OpenAI's API does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Completions)
    threading.Thread(target=server.serve_forever).start()
    with closing(server.socket):
        yield server.server_port
        server.shutdown()


class _Completions(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert (self.path, asked["stream"]) == ("/v1/chat/completions", True)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in ("You asked: ", asked["messages"][0]["content"]):
            chunk = {"choices": [{"index": 0, "delta": {"content": word}}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.deadline(400)
def test_a_newcomer_can_follow_the_tutorial(tmp_path: Path, newcomer: dict[str, str], model_server: int) -> None:
    ports = dict(zip(PORTS, (free_port(), free_port(), model_server), strict=True))
    folder = tmp_path / "guide"
    with ExitStack() as stack:
        shells: dict[str, Shell] = {}
        for page in PAGES:
            for block in blocks(page):
                text = replaced(block.body, ports)
                if block.title in TERMINALS:
                    if block.title not in shells:  # the first one is opened where the page makes the folder
                        cwd = folder if shells else tmp_path
                        shell = Shell(cwd, {**newcomer, "PARLEY_PORT": str(ports["8080"])})
                        stack.callback(shell.close)
                        shells[block.title] = shell
                    follow(shells[block.title], block, text)
                else:
                    assert block.title is not None
                    (folder / block.title).write_text(text)


def file_of_the_tutorial(name: str) -> str:
    (block,) = [block for page in PAGES for block in blocks(page) if block.title == name]
    return block.body


def shown_config(environment: dict[str, str], *options: str, cwd: Path) -> str:
    """What `parley serve --show-config` prints with these variables and options; it must accept them."""
    command = [sys.executable, "-m", "parley.cli.main", "serve", *options, "--show-config"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    done = subprocess.run(command, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_unit_for_systemd_starts_the_server_of_the_tutorial(tmp_path: Path) -> None:
    """systemd cannot run here: this reads its file, and gives the command and the variables to `parley serve`."""
    variables = re.findall(r"^Environment=(\w+)=(.+)$", file_of_the_tutorial("guide.service"), re.MULTILINE)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(file_of_the_tutorial("guide.service"))
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    service = unit["Service"]
    program, verb, *options = service["ExecStart"].split()
    assert (program, verb) == (f"{service['WorkingDirectory']}/.venv/bin/parley", "serve")
    (tmp_path / "parley.toml").write_text(file_of_the_tutorial("parley.toml"))
    config = shown_config(dict(variables), *options, cwd=tmp_path)
    assert f'store = "sqlite:////var/lib/{service["StateDirectory"]}/parley.db"  # PARLEY_STORE' in config
    assert 'auth = "auth.toml"  # parley.toml' in config


def test_the_container_starts_the_server_of_the_tutorial(tmp_path: Path) -> None:
    """No container engine runs here: this reads the file, and gives the command and the variables to `parley serve`."""
    lines = [line.split(" ", 1) for line in file_of_the_tutorial("Dockerfile").splitlines()]
    instructions = {"FROM", "COPY", "RUN", "WORKDIR", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"}
    assert {word for word, _ in lines} == instructions
    found = dict(lines)
    files = [name.removeprefix("guide/") for name in found["COPY"].split()[:-1]]
    assert set(files) <= {block.title for page in PAGES for block in blocks(page)}
    for name in files:
        (tmp_path / name).write_text(file_of_the_tutorial(name) if name != "guide.py" else "")
    program, verb, *options = json.loads(found["CMD"])
    assert (program, verb) == ("parley", "serve")
    config = shown_config(dict(word.split("=", 1) for word in found["ENV"].split()), *options, cwd=tmp_path)
    assert f'store = "sqlite:///{found["VOLUME"]}/parley.db"  # PARLEY_STORE' in config
    assert 'host = "0.0.0.0"  # PARLEY_HOST' in config
    assert f"port = {found['EXPOSE']}  # default" in config
    assert f"127.0.0.1:{found['EXPOSE']}/livez" in json.loads(found["HEALTHCHECK"].removeprefix("CMD "))[-1]


def follow(shell: Shell, block: Block, text: str) -> None:
    try:
        shell.follow(list(actions(text)))
    except AssertionError as error:
        raise AssertionError(f"{block.place}: {error}") from None


def replaced(text: str, ports: dict[str, int]) -> str:
    """The text with free ports, and with commands that can run here."""
    for command, instead in INSTEAD.items():
        text = text.replace(f"$ {command}\n", f"$ {instead}\n")
    for port, free in ports.items():
        text = text.replace(port, str(free))
    return text
