"""kill -9 at random places of a streaming run: what anybody saw is in the log, once, and the task comes to its end."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

CHUNKS = 2_500
KILLS = 25


def watch(file: Path, *, kill_after: int | None) -> tuple[list[tuple[int, str]], bool]:
    """What a subscriber of one process life saw, and whether the task came to its end in it."""
    script = Path(__file__).parent / "streaming_process.py"
    process = subprocess.Popen([sys.executable, script, file, str(CHUNKS)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen: list[tuple[int, str]] = []
    is_done = False
    with process:
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # the process died while it wrote this
            value = json.loads(line)
            if value == "done":
                is_done = True
                break
            seen.append((value[0], value[1]))
            if kill_after is not None and len(seen) >= kill_after:
                process.send_signal(signal.SIGKILL)
                kill_after = None
    return seen, is_done


def stored(file: Path) -> list[tuple[int, str]]:
    """What the log holds, read without Parley's own code."""
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT last_seq, events FROM events ORDER BY last_seq").fetchall()
    connection.close()
    events: list[tuple[int, Any]] = []
    for last_seq, row in rows:
        events += enumerate(json.loads(row), len(events) + 1)
        assert events[-1][0] == last_seq
    return [
        (seq, event["artifact"]["parts"][0]["text"] if event["type"] == "artifact" else event["status"]["state"])
        for seq, event in events
        if event["type"] in ("artifact", "status")
    ]


def test_a_process_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    file = tmp_path / "parley.db"
    dice = random.Random(7)
    lives: list[list[tuple[int, str]]] = []
    kills = 0
    is_done = False
    while not is_done and kills < KILLS:
        longest = max(map(len, lives), default=0)
        seen, is_done = watch(file, kill_after=longest + dice.randint(1, 40))
        lives.append(seen)
        kills += not is_done
    if not is_done:
        seen, is_done = watch(file, kill_after=None)
        lives.append(seen)

    store = stored(file)
    assert is_done
    assert kills >= 5
    for seen in lives:
        assert seen == store[: len(seen)]
    chunks = [text for _, text in store if text.strip().isdigit()]
    assert chunks == [f"{number} " for number in range(CHUNKS)]
    assert [text for _, text in store if text == "completed"] == ["completed"]


def test_an_effect_that_the_process_died_of_has_a_task_and_is_repeated_under_the_same_key(tmp_path: Path) -> None:
    file, lines = tmp_path / "parley.db", tmp_path / "charges"
    script = Path(__file__).parent / "charging_process.py"
    died = subprocess.run([sys.executable, script, file, lines])
    assert died.returncode == -signal.SIGKILL
    with sqlite3.connect(file) as connection:
        tasks = connection.execute("SELECT id, state FROM tasks").fetchall()
    connection.close()
    assert tasks == [(lines.read_text().split()[0], "working")]
    subprocess.run([sys.executable, script, file, lines], check=True)
    first, second = lines.read_text().splitlines()
    assert first == second
