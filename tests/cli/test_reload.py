"""Which files are watched, and how a watched command ends. A server that reloads is in test_serve."""

import signal
import socket
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from parley.cli.serving import reload


@pytest.fixture(autouse=True)
def _signals_as_before() -> Generator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_environments_hidden_folders_and_other_files_are_not_watched(tmp_path: Path) -> None:
    watched, skipped = ("a.py", "deep/er/b.py"), (".git/c.py", "env/lib/d.py", "x/__pycache__/e.py", "f.txt")
    for name in (*watched, *skipped, "env/pyvenv.cfg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    found = reload.watched_times([tmp_path])
    assert sorted(found) == [str(tmp_path / name) for name in watched]


def test_a_command_that_ends_well_is_not_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    assert reload.run_reloading(lambda _pipe, _was_up: [sys.executable, "-c", ""], [tmp_path], said.append) == 0
    assert said == []


def test_a_free_port_is_free_at_that_host() -> None:
    with socket.create_server(("127.0.0.1", reload.free_port("127.0.0.1"))) as bound:
        assert bound.getsockname()[1] > 0
    assert reload.free_port("no.such.host.invalid") == 0
