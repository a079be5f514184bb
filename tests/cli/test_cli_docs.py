"""The page on the command line names every option, and its recordings are what the commands show today."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from parley.cli.main import app
from parley.cli.output.exit_codes import EXIT_CODES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "cli.md").read_text()
COMMANDS = [
    ("card",),
    ("send",),
    ("chat",),
    *(("tasks", name) for name in ("list", "show", "watch", "cancel")),
    *(("push", name) for name in ("set", "list", "delete", "listen", "deliveries", "show", "redeliver", "resume")),
]
OTHERS = [("new",)]
"""Commands on the page that call no agent."""


def options_of(words: tuple[str, ...]) -> set[str]:
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return {name for name in names if name.startswith("--")} - {"--help"}


def test_every_option_is_on_the_page_and_no_other() -> None:
    real = {option for words in [*COMMANDS, *OTHERS] for option in options_of(words)}
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--install-completion"}
    assert real == named


def test_all_commands_have_the_options_that_all_of_them_have() -> None:
    section = PAGE.split("## Common options")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `--")]
    shared = set(re.findall(r"`(--[a-z-]+)", " ".join(rows)))
    for words in COMMANDS:
        assert shared - options_of(words) == ({"--json"} if words == ("chat",) else set())


def test_the_exit_codes_of_the_page_are_those_of_the_help() -> None:
    section = PAGE.split("## Exit codes")[1].split("\n## ")[0]
    assert re.findall(r"(?m)^\| (\d+) \|", section) == re.findall(r"(?m)^ +(\d+) ", EXIT_CODES)


def test_the_pages_chat_is_the_beginning_of_the_recorded_one() -> None:
    (shown,) = re.findall(r"```\n(\$ parley chat.*?)```", PAGE, re.DOTALL)
    assert (ROOT / "docs" / "terminal" / "chat.txt").read_text().startswith(shown)


@pytest.mark.skipif(sys.platform != "linux", reason="terminals differ in how they show what is typed")
def test_the_recordings_are_what_the_commands_show() -> None:
    script = ROOT / "scripts" / "record_terminal.py"
    done = subprocess.run([sys.executable, script, "--check"], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
