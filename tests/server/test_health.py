"""Alive, ready, and why not: with real files that refuse, and a loop that is really blocked."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley import Agent, Turn
from parley.engine import store_health
from parley.engine.limits import Limits
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.stores.interface import Write
from parley.stores.sqlite.store import SqliteStore
from tests.changed_store import ChangedStore
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running, send

pytestmark = pytest.mark.anyio

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Another program writes to the file for longer than the store waits."""
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    other.close()


async def test_a_server_whose_store_refuses_writes_is_alive_and_not_ready_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_health, "PROBE_PAUSE_SECONDS", 0.0)
    file = tmp_path / "tasks.db"
    app = App(echo_agent(), store=SqliteStore(file, busy_timeout=0.01))
    async with running(app) as client:
        server = GrpcServer(app)
        port = await server.start("127.0.0.1", 0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)

            async def grpc_state() -> int:
                return (await stub.Check(health_pb2.HealthCheckRequest(service="lf.a2a.v1.A2AService"))).status

            assert ((await client.get("/readyz")).status_code, await grpc_state()) == (200, SERVING)
            with locked(file):
                error = (await client.post("/", json=send("hello", message_id="m-1"))).json()["error"]
                assert error["data"][0]["reason"] == "UNAVAILABLE"
                for path in ("/readyz", "/healthz"):
                    reply = await client.get(path)
                    (reason,) = reply.json()["reasons"]
                    assert (reply.status_code, reply.json()["status"]) == (503, "not ready")
                    assert reason.pop("since").endswith("Z")
                    text = "The store could not be written: another process holds the database."
                    assert reason == {"reason": "store", "text": text}
                assert (await client.get("/livez")).json() == {"status": "ok"}
                assert await grpc_state() == NOT_SERVING
            assert ((await client.get("/readyz")).status_code, await grpc_state()) == (200, SERVING)
            file.unlink()
            (reason,) = (await client.get("/readyz")).json()["reasons"]
            assert (reason["reason"], "tasks.db" in reason["text"]) == ("store", False)
        await server.stop()


JSONRPC_SENDS: dict[str, dict[str, Any]] = {
    "1.0": {"method": "SendMessage", "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
    "0.3": {
        "method": "message/send",
        "message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]},
    },
    "0.1": {"method": "tasks/send", "id": "t", "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}]}},
}


async def test_a_message_for_a_server_that_drains_is_refused_with_the_time_to_try_again() -> None:
    """In every dialect, as unavailable, so that a load balancer or a client tries another server."""
    app = App(echo_agent())
    async with running(app) as client:
        await app.drain()
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()["status"]) == (503, "draining")
        for version, params in JSONRPC_SENDS.items():
            method = params["method"]
            rest = {name: value for name, value in params.items() if name != "method"}
            reply = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": rest})
            code = -32011 if version == "0.1" else -32034
            assert (reply.headers.get("retry-after"), reply.json()["error"]["code"]) == ("1", code), reply.text
        for path, version in (("/message:send", "1.0"), ("/v1/message:send", "0.3")):
            body = {"message": JSONRPC_SENDS[version]["message"]}
            reply = await client.post(path, json=body, headers={"a2a-version": version})
            assert (reply.status_code, reply.headers.get("retry-after")) == (503, "1"), reply.text


async def test_an_idle_server_finds_out_by_itself_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    async with running(App(echo_agent(), store=SqliteStore(file, busy_timeout=0.01))) as client:
        with locked(file):
            assert (await client.get("/readyz")).status_code == 503
    async with running(App(echo_agent(), store=SqliteStore(file))) as client:
        assert (await client.get("/readyz")).status_code == 200
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
    database.close()


async def test_a_server_that_writes_anyway_writes_nothing_to_answer() -> None:
    class Counting(ChangedStore):
        writes = 0

        def tasks_write(self, write: Write) -> Any:
            self.writes += 1
            return super().tasks_write(write)

    store = Counting()
    async with running(App(echo_agent(), store=store)) as client:
        await client.post("/", json=send("hello", message_id="m-1"))
        before = store.writes
        for _ in range(5):
            assert (await client.get("/readyz")).status_code == 200
        assert store.writes == before


async def test_a_store_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(ChangedStore):
        def tasks_write(self, write: Write) -> Any:
            return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(store_health, "PROBE_SECONDS", 0.01)
    async with running(App(echo_agent(), store=Hanging())) as client:
        for _ in range(2):
            (reason,) = (await client.get("/readyz")).json()["reasons"]
            assert (reason["reason"], reason["text"]) == ("store", "The store refuses writes; the log says why.")


async def test_a_handler_that_blocks_the_loop_is_named_in_the_log_and_in_a_metric() -> None:
    noticed = threading.Event()
    records: list[logging.LogRecord] = []
    blocker, other = Agent("Blocker"), echo_agent()

    class Notice(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "The handler of blocker" in record.getMessage():  # a busy machine may block the loop, too
                records.append(record)
                noticed.set()

    @blocker.on_message
    async def block_everything(turn: Turn) -> str:
        assert noticed.wait(10)
        return "done"

    app = App(blocker, other, engine_limits=Limits(blocked_seconds=0.05), telemetry=Telemetry(metrics=Metrics()))
    logger = logging.getLogger("parley.engine.runs.watchdog")
    logger.addHandler(notice := Notice())
    try:
        async with running(app) as client:
            task = (await client.post("/agents/blocker", json=send("go", message_id="m"))).json()["result"]["task"]
            with fail_after(10):
                while 'parley_loop_blocked_seconds_count{agent="blocker"} 1.0' not in (
                    shown := (await client.get("/metrics")).text
                ):
                    await asyncio.sleep(0)
            assert 'parley_loop_blocked_seconds_count{agent="echo"}' not in shown
    finally:
        logger.removeHandler(notice)
    (record,) = records
    said, stack = record.getMessage(), str(record.stack_info)
    assert said.startswith(f"The handler of blocker (task {task['id']}) has blocked the event loop for 0.05 seconds")
    assert "It is in block_everything, line " in said
    assert stack.splitlines()[0].endswith(" in block_everything")
    assert "noticed.wait(10)" in stack
