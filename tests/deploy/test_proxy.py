"""The real Caddy with deploy/Caddyfile in front of two servers: streams, gRPC, and a server that is gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley import Agent, Client
from parley.server.app import App
from parley.server.run import Bound, Serving, serve
from tests.deadlines import fail_after
from tests.deploy.deploy_files import DEPLOY, tool
from tests.services.postgres import free_port

pytestmark = pytest.mark.anyio


class Replica:
    """A server in this process, whose agent says one word, and another one when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.agent = Agent("Words")
        self.agent.on_message(self._answer)

    async def _answer(self, turn: Any) -> Any:
        yield "first "
        if turn.text == "wait":
            await self.go_on.wait()
        yield "second"


@asynccontextmanager
async def running(replica: Replica, public: str) -> AsyncGenerator[Bound]:
    """A replica on free ports, until the block ends."""
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = Serving(port=0, grpc_port=0, public_grpc=public, allowed_hosts=("127.0.0.1",))
    app = App(replica.agent, public_url=f"http://{public}")
    task = asyncio.create_task(serve(app, serving, on_ready=ready.set_result, stop=stop))
    try:
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        yield ready.result()
    finally:
        stop.set()
        await task


@asynccontextmanager
async def caddy(port: int, *replicas: Bound, folder: Path) -> AsyncGenerator[str]:
    """The URL of the proxy, once it answers."""
    variables = {
        **os.environ,
        "PARLEY_SITE": f"http://127.0.0.1:{port}",
        "PARLEY_REPLICAS": " ".join(each.url.removeprefix("http://") for each in replicas),
        "PARLEY_GRPC_REPLICAS": " ".join(f"h2c://{each.grpc_target}" for each in replicas),
        "HOME": str(folder),
    }
    command = [tool("caddy"), "run", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile"]
    log = (folder / "log").open("wb")
    with log, subprocess.Popen(command, env=variables, cwd=folder, stdout=log, stderr=log) as process:
        try:
            async with httpx2.AsyncClient() as http:
                while True:
                    assert process.poll() is None, (folder / "log").read_text()
                    try:
                        await http.get(f"http://127.0.0.1:{port}/readyz")
                        break
                    except httpx2.TransportError:
                        await asyncio.sleep(0.05)  # the only way to learn that another program listens
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 30)


@asynccontextmanager
async def two_replicas(folder: Path) -> AsyncGenerator[tuple[str, list[Replica]]]:
    """Two replicas behind the proxy."""
    port, replicas = free_port(), [Replica(), Replica()]
    with fail_after(60):
        async with (
            running(replicas[0], f"127.0.0.1:{port}") as one,
            running(replicas[1], f"127.0.0.1:{port}") as two,
            caddy(port, one, two, folder=folder) as url,
        ):
            yield url, replicas


@pytest.mark.parametrize("binding", ["jsonrpc", "http+json", "grpc"])
async def test_an_event_passes_the_proxy_while_the_agent_is_still_at_work(binding: str, tmp_path: Path) -> None:
    async with two_replicas(tmp_path) as (url, replicas), Client(url, bindings=[binding]) as client:
        seen: list[str] = []
        async for update in client.stream("wait"):
            if update.text:
                seen.append(update.text)
                for replica in replicas:
                    replica.go_on.set()
        assert seen == ["first ", "second"]


async def test_a_server_that_is_gone_costs_no_request(tmp_path: Path) -> None:
    port, replica = free_port(), Replica()
    gone = Bound(f"http://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
    with fail_after(60):
        async with (
            running(replica, f"127.0.0.1:{port}") as there,
            caddy(port, gone, there, folder=tmp_path) as url,
        ):
            for binding in ("jsonrpc", "grpc"):
                async with Client(url, bindings=[binding]) as client:
                    replies = [await client.send("hello") for _ in range(6)]
                assert [reply.text for reply in replies] == ["first second"] * 6
