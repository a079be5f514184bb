"""Workers in processes of their own, and callers of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

SCRIPT = Path(__file__).with_name("worker_process.py")


class WorkerProcess:
    """One worker, and the calls that reach it."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._process = subprocess.Popen([sys.executable, SCRIPT, file, folder], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{self._process.stdout.readline().strip()}", timeout=60)
        self._ids = count(1)
        self.pid = self._process.pid
        self._client.get("/.well-known/agent-card.json").raise_for_status()  # the port is open before the store is

    def call(self, method: str, **params: Any) -> Any:
        """The result of a 1.0 call."""
        reply = self._client.post("/", json=self._request(method, params), headers={"A2A-Version": "1.0"}).json()
        return reply.get("result", reply)

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    def send(self, text: str, message_id: str, *, task_id: str | None = None, wait: bool = False, **config: Any) -> Any:
        """Send a message."""
        message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
        if task_id is not None:
            message["taskId"] = task_id
        return self.call("SendMessage", message=message, configuration={"returnImmediately": not wait, **config})

    def get(self, task_id: str) -> Any:
        """A task as it stands."""
        return self.call("GetTask", id=task_id)

    def follow(self, task_id: str) -> Subscriber:
        """Read a task from its first event on, in a thread."""
        return Subscriber(self._client, self._request("SubscribeToTask", {"id": task_id}))

    def stop(self) -> None:
        """Stop the process where it is, as a long pause of the machine would."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(20)

    def close(self) -> None:
        """End it in good order."""
        self._client.close()
        if self._process.poll() is None:
            self.wake()
            self._process.terminate()
            self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Subscriber:
    """A reader of a task: numbers and events, until the stream ends or breaks."""

    def __init__(self, client: httpx2.Client, request: dict[str, Any]) -> None:
        self.seen: list[tuple[int, Any]] = []
        self.error: Any = None
        self._thread = threading.Thread(target=self._read, args=(client, request), daemon=True)
        self._thread.start()

    def _read(self, client: httpx2.Client, request: dict[str, Any]) -> None:
        headers = {"A2A-Version": "1.0", "Last-Event-ID": "0"}
        try:
            with client.stream("POST", "/", json=request, headers=headers) as reply:
                seq = 0
                for line in reply.iter_lines():
                    if line.startswith("id:"):
                        seq = int(line[3:])
                    elif line.startswith("data:"):
                        value = json.loads(line[5:])
                        if "error" in value:
                            self.error = value["error"]
                        else:
                            self.seen.append((seq, value["result"]))
        except httpx2.HTTPError as error:
            self.error = error

    def join(self) -> Subscriber:
        """Wait for the end of the stream."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self

    @property
    def text(self) -> str:
        """All that the artifacts of the stream say."""
        return "".join(
            part["text"]
            for _, event in self.seen
            if "artifactUpdate" in event
            for part in event["artifactUpdate"]["artifact"]["parts"]
        )


class Script:
    """What the agents of a test do, and what they have done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "go").touch()
        (folder / "begun").touch()

    def go(self, words: int) -> None:
        """Let the agents say some more words."""
        with (self._folder / "go").open("a") as file:
            file.write("." * words)

    @property
    def begun(self) -> list[str]:
        """The messages for which a run has begun, each with the process."""
        return (self._folder / "begun").read_text().splitlines()


@contextmanager
def workers(folder: Path, number: int = 2) -> Generator[tuple[Script, list[WorkerProcess]]]:
    """Some workers on one file."""
    script = Script(folder)
    started: list[WorkerProcess] = []
    try:
        for _ in range(number):
            started.append(WorkerProcess(folder / "tasks.db", folder))
        yield script, started
    finally:
        for worker in started:
            worker.close()
