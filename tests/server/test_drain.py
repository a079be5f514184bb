"""SIGTERM in the middle of a stream: what was begun is finished, here or by the next process, and readers are told."""

import http.client
import json
import signal
import socket
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest

from parley.dialects.protobuf_v1_0 import DIALECT
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import SEND_STREAMING_MESSAGE
from parley.protocol.requests import SendMessageRequest
from tests.cli.served import SECONDS, Served, call, message, served

COUNTER = """
import asyncio
from pathlib import Path

from parley import Agent

agent = Agent("Counter")

@agent.on_message
async def count(turn):
    yield "one "
    yield "two "
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    yield "three"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "counter.py").write_text(COUNTER)
    return tmp_path


def counter(directory: Path, *options: str) -> Any:
    return served("counter:agent", "--port", "0", *(options or ("--grpc-port", "off")), cwd=directory)


@contextmanager
def stream(url: str, method: str, params: Any, **headers: str) -> Generator[Iterator[tuple[str | None, Any]]]:
    """The frames of a stream as they come: the id of each, and its JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    connection.request("POST", "/", body, {"content-type": "application/json", **headers})
    reply = connection.getresponse()
    assert reply.getheader("content-type", "").startswith("text/event-stream"), reply.read()

    def frames() -> Iterator[tuple[str | None, Any]]:
        number = None
        for line in reply:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name == "id":
                number = value
            elif name == "data":
                yield number, json.loads(value)
                number = None

    try:
        yield frames()
    finally:
        connection.close()


def text_in(frame: Any) -> str | None:
    update = frame.get("result", {}).get("artifactUpdate")
    return update and update["artifact"]["parts"][0]["text"]


def until(frames: Iterator[tuple[str | None, Any]], text: str) -> tuple[str, str]:
    """The number of the chunk with this text, and the id of its task."""
    for number, frame in frames:
        if text_in(frame) == text:
            assert number is not None
            return number, frame["result"]["artifactUpdate"]["taskId"]
    raise AssertionError(f"{text!r} never came")


def drain(command: Served) -> None:
    command.process.send_signal(signal.SIGTERM)
    command.until_logged("Draining")


def test_a_stream_that_is_cut_off_says_where_to_come_back_and_the_next_process_goes_on_there(directory: Path) -> None:
    with counter(directory, "--grpc-port", "off", "--drain-seconds", "0.1") as first:
        with stream(first.until_ready(), "SendStreamingMessage", message("go")) as frames:
            last, task = until(frames, "two ")
            drain(first)
            rest = list(frames)
        assert first.ended() == 0
    ((_, cut),) = rest
    (info,) = cut["error"]["data"]
    assert (cut["error"]["code"], info["reason"], info["metadata"]["lastEventId"]) == (-32034, "UNAVAILABLE", last)

    (directory / "go").touch()
    with counter(directory) as second:
        url = second.until_ready()
        with stream(url, "SubscribeToTask", {"id": task}, **{"last-event-id": last}) as frames:
            came = [(number, frame) for number, frame in frames if frame.get("result")]
        assert [text for _, frame in came if (text := text_in(frame))] == ["three"]
        assert all(number is not None and int(number) > int(last) for number, _ in came)
        whole = call(url, "GetTask", {"id": task})["result"]
        assert second.end() == 0
    assert whole["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [part["text"] for part in whole["artifacts"][0]["parts"]] == ["one two three"]


def test_a_run_that_can_finish_does_so_while_nothing_new_is_accepted(directory: Path) -> None:
    with counter(directory, "--grpc-port", "off", "--drain-seconds", "30") as command:
        url = command.until_ready()
        with stream(url, "SendStreamingMessage", message("go")) as frames:
            until(frames, "two ")
            drain(command)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), SECONDS)
            (directory / "go").touch()
            came = [frame for _, frame in frames]
        assert command.ended() == 0
    assert text_in(came[0]) == "three"
    assert came[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_second_signal_ends_it_at_once_and_the_next_process_finishes_the_task(directory: Path) -> None:
    with (
        counter(directory, "--grpc-port", "off", "--drain-seconds", "600") as first,
        stream(first.until_ready(), "SendStreamingMessage", message("go")) as frames,
    ):
        _, task = until(frames, "two ")
        drain(first)
        first.process.send_signal(signal.SIGTERM)
        assert first.ended() == -signal.SIGTERM
    (directory / "go").touch()
    with counter(directory) as second:
        url = second.until_ready()
        again = call(url, "SendMessage", message("go"))["result"]["task"]
        assert (again["id"], again["status"]["state"]) == (task, "TASK_STATE_COMPLETED")


def test_a_grpc_stream_is_cut_off_with_unavailable_and_the_process_ends_well(directory: Path) -> None:
    with counter(directory, "--grpc-port", "0", "--drain-seconds", "0.1") as command:
        command.until_ready()
        target = next(line.split()[1] for line in command.said if line.strip().startswith("gRPC"))
        request = SendMessageRequest(Message("m-1", Role.USER, (TextPart("go"),)))
        data = DIALECT.encode_request(SEND_STREAMING_MESSAGE, request).SerializeToString()
        with grpc.insecure_channel(target) as channel:
            frames = channel.unary_stream(f"/{DIALECT.service}/SendStreamingMessage")(data, timeout=SECONDS)
            for frame in frames:
                if b"two " in frame:
                    break
            drain(command)
            with pytest.raises(grpc.RpcError) as caught:
                list(frames)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert command.ended() == 0


def test_a_server_that_drains_says_so_and_accepts_requests_until_the_delay_is_over(directory: Path) -> None:
    (directory / "go").touch()
    with counter(directory, "--grpc-port", "off", "--drain-delay", "600", "--drain-seconds", "0") as command:
        url = command.until_ready()
        kept = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
        kept.request("GET", "/readyz")
        reply = kept.getresponse()
        assert (reply.status, reply.getheader("connection"), json.load(reply)) == (200, None, {"status": "ok"})
        command.process.send_signal(signal.SIGTERM)
        command.until_logged("Draining in 600 seconds: requests are still accepted")
        kept.request("GET", "/readyz")
        reply = kept.getresponse()
        assert (reply.status, reply.getheader("connection")) == (503, "close")
        reasons = [{"reason": "draining", "text": "The server is shutting down."}]
        assert json.load(reply) == {"status": "draining", "reasons": reasons}
        with urllib.request.urlopen(f"{url}/livez", timeout=SECONDS) as alive:
            assert (alive.getheader("connection"), json.load(alive)) == ("close", {"status": "ok"})
        task = call(url, "SendMessage", message("go"))["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        command.process.send_signal(signal.SIGTERM)
        assert command.ended() == -signal.SIGTERM


def test_after_the_delay_it_ends(directory: Path) -> None:
    with counter(directory, "--grpc-port", "off", "--drain-delay", "0.1") as command:
        command.until_ready()
        command.process.send_signal(signal.SIGTERM)
        command.until_logged("Draining: no new requests are accepted")
        assert command.ended() == 0


def test_health_says_that_it_is_well(directory: Path) -> None:
    with counter(directory) as command:
        with urllib.request.urlopen(f"{command.until_ready()}/healthz", timeout=SECONDS) as reply:
            assert reply.status == 200
        assert command.end() == 0
