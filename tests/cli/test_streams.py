"""Standard input and output as shells give them: closed, full, without a reader, in another encoding."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from scripts.terminal import terminal

from tests.cli.sampler import SECONDS, sampler_on_a_port


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        shell(f"parley send {url} hello")  # so that there is a task to list
        yield url


def shell(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a line in which `parley` is this one."""
    script = line.replace("parley", shlex.join([sys.executable, "-m", "parley.cli.main"]))
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUNBUFFERED": "", **env},  # as it is for most people: what is printed waits
        timeout=SECONDS,
    )


@pytest.mark.parametrize(
    "line",
    [
        "parley send URL 'count 5000' | head -c 20",
        "parley send URL 'count 5000' --json | head -c 20",
        "parley card URL | head -c 0",
        "parley tasks list URL --json | head -c 0",
        "printf 'count 5000\\nhi\\n' | parley chat URL | head -c 20",
    ],
)
def test_who_reads_no_more_ends_the_command_without_a_word(line: str, url: str) -> None:
    done = shell(line.replace("URL", url))
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("line", ["parley send URL hi", "parley card URL", "echo hi | parley chat URL"])
def test_a_full_disk_is_told_in_a_sentence(line: str, url: str) -> None:
    done = shell(f"{line.replace('URL', url)} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "Error: No space left on device.\n")


def test_a_full_disk_is_told_to_programs(url: str) -> None:
    done = shell(f"parley send {url} hi --json > /dev/full")
    assert json.loads(done.stderr) == {"error": {"message": "No space left on device", "reason": "ENOSPC"}}


def test_closed_standard_input_is_empty(url: str) -> None:
    done = shell(f"parley send {url} - <&-")
    assert done.returncode == 2
    assert "There is nothing to send" in done.stderr
    assert shell(f"parley chat {url} <&-").returncode == 0


def test_closed_standard_output_is_no_reason_to_fail(url: str) -> None:
    done = shell(f"parley send {url} hi >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_terminal_cannot_write_is_shown_as_its_number(url: str) -> None:
    done = shell(f"parley send {url} 'Köln →'", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "K\\xf6ln \\u2192\n")
    assert shell(f"parley card {url}", PYTHONUTF8="0", PYTHONIOENCODING="ascii").returncode == 0


def test_nothing_is_colored_for_who_wants_no_colors(url: str, tmp_path: Path) -> None:
    for words in (("send", url, "fail"), ("tasks", "show", url, "nope")):
        with terminal(*words, cwd=tmp_path) as command:  # which sets NO_COLOR
            assert command.ended() == 1
        assert "\x1b[31m" not in command.shown


def test_programs_get_utf_8_whatever_the_terminal_speaks(url: str) -> None:
    line = f"parley send {url} 'Köln →' --json --no-stream"
    done = shell(line, PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["task"]["artifacts"][0]["parts"] == [{"text": "Köln →"}]
    assert "Köln" in done.stdout
    done = shell(f"parley tasks show {url} 'Köln →' --json", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert json.loads(done.stderr)["error"]["details"] == {"taskId": "Köln →"}
