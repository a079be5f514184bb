"""Records what people see in a terminal, as text, from real runs of `parley`: the files in docs/terminal.

python scripts/record_terminal.py           write them
python scripts/record_terminal.py --check   fail if one of them is not what the commands show now

The agent is examples/trip.py, served on a free port together with examples/currency.py. Its model plans a day when a
recording says so, and always in the same words, so that every run shows the same. Ports, ids and times of day differ
from run to run and are replaced, durations are left out; everything else, counts too, is what the command showed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from parley.cli.output.exit_codes import INPUT_NEEDED
from terminal import Terminal, terminal

ROOT = Path(__file__).parent.parent
RECORDINGS = ROOT / "docs" / "terminal"
PARLEY = (sys.executable, "-m", "parley.cli.main")
SECONDS = 60.0
CTRL_C, CTRL_D = b"\x03", b"\x04"

AGENT = """
import asyncio
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, {examples!r})
import trip
from trip import agent


calls = Counter()


async def model(prompt):
    place = prompt.removeprefix("What to do in ").rstrip("?")
    calls[place] += 1
    day = calls[place]
    while not Path(f"{{place}}-{{day}}").exists():
        await asyncio.sleep(0.01)
    yield f"In the morning, {{trip.IDEAS[day % len(trip.IDEAS)]}}."


trip.model = model
"""


class Stage:
    """A served trip planner in a directory of its own."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory

    def let_it_plan(self, place: str, day: int) -> None:
        (self.directory / f"{place}-{day}").touch()

    @contextmanager
    def showing(self, *words: str) -> Generator[Terminal]:
        """A command in a terminal, which shows its own line first."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        with terminal(*words, cwd=home) as opened:
            opened.shown = f"$ parley {' '.join(words)}\n"
            yield opened

    def start(self, text: str, status: str) -> str:
        """The id of a task that is at work, and has said so."""
        done = self._run("send", self.url, text, "--no-wait", "--json")
        task = json.loads(done)["task"]["id"]
        while True:
            shown = json.loads(self._run("tasks", "show", self.url, task, "--json"))
            message = shown["status"].get("message")
            if message and message["parts"][0]["text"] == status:
                return task

    def _run(self, *words: str) -> str:
        return subprocess.run([*PARLEY, *words], capture_output=True, text=True, check=True, timeout=SECONDS).stdout


@contextmanager
def stage() -> Generator[Stage]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "planner.py").write_text(AGENT.format(examples=str(ROOT / "examples")))
        options = ["--port", "0", "--grpc-port", "off", "--store", "memory:", "--drain-seconds", "0"]
        serving = subprocess.Popen(
            [
                *PARLEY,
                "serve",
                "planner.py",
                str(ROOT / "examples" / "currency.py"),
                "--root-agent",
                "trip-planner",
                *options,
                "--log-format",
                "json",
            ],
            cwd=directory,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert serving.stderr is not None
            url = next(json.loads(line)["url"] for line in serving.stderr if "Serving at " in line)
            yield Stage(url, directory)
        finally:
            serving.terminate()
            serving.communicate(timeout=SECONDS)


# --- the recordings ---------------------------------------------------------------------------------------------------


def card(on: Stage) -> str:
    with on.showing("card", on.url) as shown:
        assert shown.ended() == 0
    return shown.shown


def chat(on: Stage) -> str:
    """A question and its answer, a file, another agent's question; then a plan that is canceled while it is made."""
    for place, day in (("Rome", 1), ("Rome", 2), ("Lisbon", 1)):
        on.let_it_plan(place, day)
    with on.showing("chat", on.url) as shown:
        shown.until("for help.\n> ")
        shown.type("Rome")
        shown.until("answer> ")
        shown.type("2")
        shown.until("Saved parley-files/budget.csv")
        shown.until("answer> ")
        shown.type("USD")
        shown.until("\n> ")
        shown.type("3 days in Lisbon")
        shown.until("Planning day 2 of 3\n## Day 2\n")
        shown.press(CTRL_C)
        shown.until("Canceled.\n> ")
        shown.type("/quit")
        assert shown.ended() == 0
    return shown.shown


def tasks_watch(on: Stage) -> str:
    task = on.start("2 days in Oslo", "Planning day 1 of 2")
    with on.showing("tasks", "watch", on.url, task) as shown:
        shown.until("Planning day 1 of 2\n")
        on.let_it_plan("Oslo", 1)
        shown.until("Planning day 2 of 2\n")
        on.let_it_plan("Oslo", 2)
        assert shown.ended() == INPUT_NEEDED
    return shown.shown


def check(on: Stage) -> str:
    with on.showing("check", on.url) as shown:
        assert shown.ended() == 0
    return shown.shown


RECORDED: dict[str, Callable[[Stage], str]] = {
    "card": card,
    "chat": chat,
    "tasks_watch": tasks_watch,
    "check": check,
}


def lasting(text: str, url: str) -> str:
    """The text with a port, ids and times that are always the same."""
    text = text.replace(url, "http://127.0.0.1:8080").replace("\r", "")
    ids = dict.fromkeys(re.findall(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", text))
    for number, found in enumerate(ids, 1):
        text = text.replace(found, f"0198a2a0-0000-7000-8000-{number:012}")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-01 12:00:00", text)
    text = re.sub(r"(?m)^\d\d:\d\d:\d\d ", "12:00:00 ", text)
    return re.sub(r"requests in [\d.]+ s", "requests in … s", text)  # left out: a made-up time would look measured


def comparable(text: str) -> str:
    """What must be the same. The counts of `check` are those of the run that was recorded, and may differ."""
    return re.sub(r"\d+ (passed|undecided|requests)", r"… \1", text)


def is_current(path: Path, text: str) -> bool:
    return path.exists() and comparable(path.read_text()) == comparable(text)


def main() -> int:
    with stage() as on:
        pages = {RECORDINGS / f"{name}.txt": lasting(record(on), on.url) for name, record in RECORDED.items()}
    if sys.argv[1:] == ["--check"]:
        stale = [path for path, text in pages.items() if not is_current(path, text)]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the command shows; run scripts/record_terminal.py")
            print(pages[path])
        return 1 if stale else 0
    RECORDINGS.mkdir(exist_ok=True)
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
