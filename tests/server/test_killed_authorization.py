"""kill -9 between the steps of an in-task authorization: it goes on, and no credential is used twice."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from parley import Client
from parley.client.reply import Reply
from tests.deadlines import fail_after
from tests.server.authorization_server import AuthorizationServer, authorization_server
from tests.services.postgres import free_port

pytestmark = pytest.mark.anyio

SECONDS = 60
ROOT = Path(__file__).parent.parent.parent


@asynccontextmanager
async def served(store: Path, port: int, issuer: AuthorizationServer) -> AsyncGenerator[Process]:
    """One life of the agent's process, which ends with SIGKILL."""
    words = (sys.executable, "-m", "tests.server.authorizing_process", str(store), str(port), issuer.url)
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, cwd=ROOT)
    try:
        assert await next_line(process) == "listening"
        yield process
    finally:
        process.kill()
        await process.wait()


async def next_line(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_a_killed_process_forgets_no_authorization_and_uses_no_credential_twice(tmp_path: Path) -> None:
    store, port = tmp_path / "tasks.db", free_port()
    url, used = f"http://127.0.0.1:{port}", list[str]()
    with fail_after(SECONDS):
        async with authorization_server() as issuer, httpx2.AsyncClient(timeout=SECONDS) as browser:
            async with served(store, port, issuer), Client(url) as client:
                asked = await client.send("hang")
                assert asked.authorization is not None
                assert asked.task is not None
                callback = (await browser.get(asked.authorization.url or "")).headers["location"]
            async with served(store, port, issuer) as process:  # killed before the callback came
                assert (await browser.get(callback)).status_code == 200
                used.append(await next_line(process))  # killed while the handler uses the credential
            async with served(store, port, issuer) as process, Client(url) as client:
                assert (await browser.get(callback)).status_code == 400
                again = Reply(client, await client.settled((await client.get(asked.task)).content))
                assert again.authorization is not None
                assert again.authorization.url != asked.authorization.url
                assert (await browser.get(again.authorization.url or "", follow_redirects=True)).status_code == 200
                used.append(await next_line(process))
    assert len(set(used)) == 2
