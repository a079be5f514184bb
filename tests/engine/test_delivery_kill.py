"""kill -9 between the steps of deliveries: each event arrives, in order, under its id, and the attempts are counted on.

A real server process delivers over HTTP to a webhook that refuses a third of the calls, and hands the others to
Parley's receiver, which must handle each event once. The server dies before or after each call of the store and of the
webhook, or while the webhook has the request and has not answered. `make test` tries a few of these places, `make
crashes` over a hundred deaths.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from parley.client import PushNotification, SqliteSeen, WebhookReceiver
from parley.client.webhooks.standard_webhooks import new_secret
from parley.protocol.events import StatusUpdate
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState, TaskStatus
from parley.stores.interface import Write
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened
from tests.stores.writes import KEY, NOON, addition, creation

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(900)]

DEATHS = 120 if os.environ.get("PARLEY_EVERY_CRASH") else 8
SECRET = new_secret()
EVENTS = 2 * DEATHS
"""More than are delivered in so many lives, so that every one of these is cut short."""
STEPS = 22
"""Of one life. It is more than two events take, one of which is refused, so that some lives get further."""


class Receiver:
    """A webhook that refuses every third event for its first two calls, and may kill its caller before it answers."""

    def __init__(self, seen: SqliteSeen) -> None:
        self.calls: list[tuple[str, bytes]] = []
        self.handled: list[str | None] = []
        self.repeats = 0
        self._receiver = WebhookReceiver.hmac("", self._handle, secret=SECRET, seen=seen)
        self.tries: Counter[str] = Counter()
        self.victim: int | None = None
        """The process that is killed by the next call that is accepted."""
        self._lock = threading.Lock()

    async def _handle(self, notification: PushNotification) -> None:
        self.handled.append(notification.id)

    def take(self, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer; 0 if there is none, because the caller was killed."""
        with self._lock:
            event_id = headers["parley-event-id"]
            self.calls.append((event_id, body))
            self.tries[event_id] += 1
            seq = int(event_id.rpartition(":")[2])
            status = 503
            if seq % 3 or self.tries[event_id] > 2:
                before = len(self.handled)
                status = self._receiver.answer_blocking("POST", "/hook", headers, body).status
                assert status == 204
                self.repeats += len(self.handled) == before
            victim = self.victim if status == 204 else None
        if victim is not None:
            self.victim = None
            os.kill(victim, signal.SIGKILL)
            return 0
        return status

    def close(self) -> None:
        self._receiver.close()


def serve(receiver: Receiver) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
            if status:
                self.send_response(status)
                if status != 204:  # or else the body has no end, and the sender waits for it until its timeout
                    self.send_header("content-length", "0")
                self.end_headers()
            self.close_connection = not status

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


async def fill(file: Path, url: str) -> list[str]:
    """Put a task into a file that has told its webhook nothing; the ids of what it is to be told."""
    async with opened(SqliteStore(file)) as store:
        await store.tasks.write(creation())
        for number in range(1, EVENTS):
            await store.tasks.write(addition(number))
        done = StatusUpdate("t-1", "c-1", TaskStatus(TaskState.COMPLETED, None, NOON))
        await store.tasks.write(Write(KEY, EVENTS, (done,), TaskState.COMPLETED, NOON))
        signed = PushAuthentication(("HMAC",), SECRET)
        await store.outbox.put(KEY, PushConfig(url, "t-1", "hook", authentication=signed), after=0)
    return [f"t-1:{seq}" for seq in range(2, EVENTS + 2)]


def stored_failure(file: Path) -> dict[str, Any] | None:
    """What the file says of the failing event, read without Parley's own code."""
    connection = sqlite3.connect(file)
    (text,) = connection.execute("SELECT failure FROM push_configs").fetchone()
    connection.close()
    return None if text is None else json.loads(text)


class Server:
    """A server in one process life after another."""

    def __init__(self, file: Path, receiver: Receiver) -> None:
        script = Path(__file__).parent / "delivering_process.py"
        command = [sys.executable, script, file]
        self._process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._receiver = receiver

    def live(self, *, step: int, dies_in_call: bool) -> bool:
        """One life. Return True if it came to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        self._receiver.victim = pid if dies_in_call else None
        code = int(self._process.stdout.readline())
        self._receiver.victim = None
        assert code in (0, -signal.SIGKILL)
        return code == 0

    def close(self) -> None:
        with self._process:
            self._process.terminate()


async def test_a_server_that_is_killed_at_any_step_loses_no_event_and_no_count(tmp_path: Path) -> None:
    file, seen = tmp_path / "parley.db", SqliteSeen(tmp_path / "seen.db")
    receiver = Receiver(seen)
    webhook, server = serve(receiver), Server(file, receiver)
    try:
        expected = await fill(file, f"http://127.0.0.1:{webhook.server_port}/hook")
        deaths, is_done, before = 0, False, None
        while not is_done:
            dies_in_call, step = deaths % 4 == 3, deaths * 7 % STEPS + 1
            if deaths >= DEATHS:
                dies_in_call, step = False, 0
            is_done = server.live(step=0 if dies_in_call else step, dies_in_call=dies_in_call)
            deaths += not is_done
            failure = stored_failure(file)
            if failure is not None:
                tries = receiver.tries[f"t-1:{failure['seq']}"]
                assert tries - deaths <= failure["attempts"] <= tries  # a death loses the attempt that it ends
                if before is not None and before["seq"] == failure["seq"]:
                    assert failure["attempts"] >= before["attempts"]
                    assert failure["first_at"] == before["first_at"]
            before = failure
        assert stored_failure(file) is None
    finally:
        server.close()
        webhook.shutdown()
        webhook.server_close()
        receiver.close()
        seen.close()
    assert deaths == DEATHS  # none of the lives came to its end before
    assert receiver.handled == expected  # each once, in order
    assert receiver.repeats >= DEATHS // 4  # after each death in a call: without its ids they would be handled twice
    for one, following in zip(receiver.calls, receiver.calls[1:], strict=False):
        (earlier, _), (later, _) = one, following
        assert expected.index(later) - expected.index(earlier) in (0, 1)
    bodies = {event_id: {body for sent, body in receiver.calls if sent == event_id} for event_id in expected}
    assert {event_id: len(found) for event_id, found in bodies.items()} == dict.fromkeys(expected, 1)
