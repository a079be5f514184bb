"""Two workers in two processes on one file: one holder per task, whatever is killed, stopped or woken."""

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from parley.stores.interface import StoreUnavailableError
from parley.stores.sqlite.store import SqliteStore
from tests.ownership.workers import Script, WorkerProcess, workers

WHOLE = "".join([f"{number} " for number in range(12)])


def until(is_true: Callable[[], Any]) -> Any:
    """What a condition gives once it is true."""
    deadline = time.monotonic() + 60
    while not (value := is_true()):
        assert time.monotonic() < deadline, "It never came true"
        time.sleep(0.02)
    return value


def log_of(folder: Path) -> list[tuple[int, Any]]:
    """The events of the one task in the file, read without Parley's own code."""
    with sqlite3.connect(folder / "tasks.db") as connection:
        rows = connection.execute("SELECT last_seq, events FROM events ORDER BY last_seq").fetchall()
    connection.close()
    events: list[tuple[int, Any]] = []
    for last_seq, row in rows:
        events += enumerate(json.loads(row), len(events) + 1)
        assert events[-1][0] == last_seq
    return events


def stop_between_transactions(worker: WorkerProcess, folder: Path) -> None:
    """Stop a process while it does not hold SQLite's lock: with the lock, it would stop all others as well."""
    while True:
        worker.stop()
        with closing(sqlite3.connect(folder / "tasks.db", timeout=2, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                worker.wake()
            else:
                return


def text_of(worker: WorkerProcess, task_id: str) -> str:
    artifacts = worker.get(task_id).get("artifacts", [])
    return "".join([part["text"] for artifact in artifacts for part in artifact["parts"]])


def said(folder: Path) -> int:
    return len([event for _, event in log_of(folder) if event["type"] == "artifact"])


def test_a_task_of_a_killed_worker_goes_on_elsewhere_without_a_word_lost_or_doubled(tmp_path: Path) -> None:
    with workers(tmp_path) as (script, (first, second)):
        task_id = first.send("talk", "m-1")["task"]["id"]
        reader = second.follow(task_id)
        script.go(5)
        until(lambda: said(tmp_path) == 5)
        first.kill()
        script.go(7)
        reader.join()
        assert reader.error is None
        assert reader.text == text_of(second, task_id) == WHOLE
        numbers = [seq for seq, _ in reader.seen]
        assert numbers == sorted(set(numbers))
        assert script.begun == [f"talk {first.pid}", f"talk {second.pid}"]


def test_a_worker_that_slept_past_its_lease_abandons_its_task_when_it_wakes(tmp_path: Path) -> None:
    with workers(tmp_path) as (script, (first, second)), webhook() as (url, told):
        config = {"taskPushNotificationConfig": {"url": url}}
        task_id = first.send("talk", "m-1", **config)["task"]["id"]
        script.go(5)
        until(lambda: said(tmp_path) == 5)
        there, elsewhere = first.follow(task_id), second.follow(task_id)
        stop_between_transactions(first, tmp_path)
        until(lambda: len(script.begun) == 2)
        script.go(4)
        until(lambda: said(tmp_path) == 9)
        first.wake()
        script.go(3)
        assert [there.join().text, elsewhere.join().text] == [WHOLE, WHOLE]
        assert there.error is elsewhere.error is None
        assert [text_of(worker, task_id) for worker in (first, second)] == [WHOLE, WHOLE]
        states = [event["status"]["state"] for _, event in log_of(tmp_path) if event["type"] == "status"]
        assert states.count("completed") == 1
        assert "failed" not in states
        assert script.begun == [f"talk {first.pid}", f"talk {second.pid}"]
        until(lambda: "TASK_STATE_COMPLETED" in told)
        assert told.count("TASK_STATE_COMPLETED") == 1
        assert first.send("more", "m-2", wait=True)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


Pair: TypeAlias = tuple[Script, list[WorkerProcess]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair]:
    """Two workers that nothing happens to, for several tests."""
    with workers(tmp_path_factory.mktemp("pair")) as (script, both):
        script.go(1)
        yield script, both


def test_a_message_that_comes_to_both_workers_at_once_begins_one_run(pair: Pair) -> None:
    script, both = pair
    for number in range(8):
        with ThreadPoolExecutor(2) as threads:
            sending = [threads.submit(worker.send, f"hello-{number}", f"m-{number}", wait=True) for worker in both]
        answers = [done.result()["task"] for done in sending]
        assert answers[0]["id"] == answers[1]["id"]
        assert [answer["status"]["state"] for answer in answers] == ["TASK_STATE_COMPLETED"] * 2
    begun = [line.split()[0] for line in script.begun]
    assert [begun.count(f"hello-{number}") for number in range(8)] == [1] * 8


def test_a_cancel_reaches_a_run_in_another_process(pair: Pair) -> None:
    script, (first, second) = pair
    begun = len(script.begun)
    task_id = first.send("talk", "to cancel")["task"]["id"]
    until(lambda: len(script.begun) == begun + 1)
    assert second.call("CancelTask", id=task_id)["status"]["state"] == "TASK_STATE_CANCELED"
    assert first.get(task_id)["status"]["state"] == "TASK_STATE_CANCELED"
    assert second.call("CancelTask", id=task_id)["error"]["code"] == -32002


def test_a_message_reaches_a_run_in_another_process(pair: Pair) -> None:
    script, (first, second) = pair
    begun = len(script.begun)
    task_id = first.send("talk", "to go on")["task"]["id"]
    until(lambda: len(script.begun) == begun + 1)
    task = second.send("listen!", "goes on", task_id=task_id, wait=True)["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(first, task_id).endswith("heard: listen!")
    assert [message["parts"][0]["text"] for message in task["history"]] == ["talk", "listen!"]
    assert script.begun[begun:] == [f"talk {first.pid}"]


class webhook:
    """A webhook that notes the states it is told of."""

    def __enter__(self) -> tuple[str, list[str]]:
        told: list[str] = []

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "statusUpdate" in body:
                    told.append(body["statusUpdate"]["status"]["state"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}/", told

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_process_that_wants_the_file_for_itself_is_refused(tmp_path: Path) -> None:
    with workers(tmp_path, 1), pytest.raises(StoreUnavailableError, match="another Parley process"):
        asyncio.run(SqliteStore(tmp_path / "tasks.db").open())
