"""A2A 1.0 calls as plain JSON-RPC over httpx2, for what a typed client hides: event numbers, cursors, error codes.

It repeats nothing by itself. What failed is either refused (the cluster has judged the call) or worth another try.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

import httpx2

from tests.chaos.history import Frame

CALL_SECONDS = 12.0
"""Longer than an outage that the nemesis makes; a blocking send that takes longer is sent again."""

QUIET_SECONDS = 6.0
"""A stream without a heartbeat for so long is dead. Replicas send one every two seconds."""

UNAVAILABLE = -32034


class CallRefusedError(Exception):
    """The cluster has answered with an error that says nothing of trying again."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class CallFailedError(Exception):
    """The connection broke, nothing came in time, or the cluster asks to try again."""


class RawClient:
    """Calls of one agent, at one URL."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._ids = count(1)

    async def call(self, method: str, params: dict[str, Any], *, seconds: float = CALL_SECONDS) -> Any:
        """The result of a call. Raises CallRefusedError, CallFailedError."""
        try:
            reply = await self._http.post(
                self._url, json=self._request(method, params), headers={"A2A-Version": "1.0"}, timeout=seconds
            )
        except httpx2.HTTPError as error:
            raise CallFailedError(_name(error)) from None
        return _result(reply.status_code, reply.content)

    async def stream(
        self, method: str, params: dict[str, Any], *, after: int | None
    ) -> AsyncGenerator[tuple[str, Frame]]:
        """The frames of a stream to its end, each with its task. Raises CallRefusedError, CallFailedError."""
        headers = {"A2A-Version": "1.0"} | ({} if after is None else {"Last-Event-ID": str(after)})
        timeout = httpx2.Timeout(CALL_SECONDS, read=QUIET_SECONDS)
        try:
            async with self._http.stream(
                "POST", self._url, json=self._request(method, params), headers=headers, timeout=timeout
            ) as reply:
                if not reply.headers.get("content-type", "").startswith("text/event-stream"):
                    _result(reply.status_code, await reply.aread())
                    raise CallFailedError("not a stream")
                seq = 0
                async for line in reply.aiter_lines():
                    if line.startswith("id:"):
                        seq = int(line[3:])
                    elif line.startswith("data:"):
                        event = _result(200, line[5:].encode())
                        yield task_of(event), frame_of(seq, event)
        except httpx2.HTTPError as error:
            raise CallFailedError(_name(error)) from None

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}


def _name(error: Exception) -> str:
    return type(error).__name__


def _result(status: int, body: bytes) -> Any:
    try:
        envelope = json.loads(body)
    except ValueError:
        raise CallFailedError(f"status {status}") from None
    if "error" in envelope:
        error = envelope["error"]
        if error["code"] == UNAVAILABLE or status in (429, 502, 503):
            raise CallFailedError(f"unavailable: {error['message']}")
        raise CallRefusedError(error["code"], error["message"])
    return envelope["result"]


def frame_of(seq: int, event: dict[str, Any]) -> Frame:
    """What a 1.0 stream event says."""
    if "task" in event:
        task = event["task"]
        return Frame(seq, "task", state_of(task), text_of_task(task))
    if "statusUpdate" in event:
        return Frame(seq, "status", state_of(event["statusUpdate"]))
    update = event["artifactUpdate"]
    return Frame(seq, "artifact", "", _text(update["artifact"]), bool(update.get("append")))


def task_of(event: dict[str, Any]) -> str:
    """The task that a 1.0 stream event belongs to."""
    return str(event["task"]["id"] if "task" in event else next(iter(event.values()))["taskId"])


def state_of(task: dict[str, Any]) -> str:
    """A task's state as the log spells it: `input-required` for `TASK_STATE_INPUT_REQUIRED`."""
    return str(task["status"]["state"]).removeprefix("TASK_STATE_").lower().replace("_", "-")


def text_of_task(task: dict[str, Any]) -> str:
    """All text of a task's artifacts."""
    return "".join([_text(artifact) for artifact in task.get("artifacts", ())])


def _text(artifact: dict[str, Any]) -> str:
    return "".join([part.get("text", "") for part in artifact.get("parts", ())])
