"""Files of artifacts as downloads: their bytes, their names, and how much memory they take."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from parley.console.tasks.files import attachment_header
from parley.protocol.events import ArtifactUpdate
from parley.protocol.lifecycle import fold
from parley.protocol.messages import DataPart, RawPart, TextPart, UrlPart
from parley.protocol.tasks import Artifact, TaskState
from parley.stores.interface import TaskKey
from tests.console.consoles import console_of
from tests.console.test_task_lists import OWNER, echo_agent, put_task
from tests.console.test_task_logs import append

pytestmark = pytest.mark.anyio


def update(*parts: TextPart | RawPart | UrlPart | DataPart, append: bool = False) -> ArtifactUpdate:
    return ArtifactUpdate("t-1", "c-1", Artifact("a", parts), append=append)


async def test_a_part_is_what_the_fold_makes_of_the_log() -> None:
    """At every event, and whatever was replaced or added."""
    updates = [
        update(TextPart("one "), TextPart("two"), TextPart("")),
        update(TextPart(" three"), append=True),
        update(TextPart(""), append=True),
        update(RawPart(b"\0\1", "image/png", "p.png"), DataPart({"n": [1]}), append=True),
        update(TextPart("four"), append=True),
        update(TextPart(" five"), TextPart("typed", "text/csv"), append=True),
        update(TextPart("new")),
        update(UrlPart("https://files.example/x"), append=True),
    ]
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        seq = 3
        for each in updates:
            seq = await append(store, "t-1", seq, each)
        events = [event for _, event in await store.tasks.events(TaskKey(OWNER, "t-1"), after=0, limit=99)]
        for at in range(4, seq + 1):
            (artifact,) = fold(None, events[:at]).artifacts
            for number, part in enumerate(artifact.parts):
                reply = await browser.get(f"/console/api/tasks/t-1/files/a/{number}?agent=echo&at={at}")
                match part:
                    case TextPart(text=text):
                        assert reply.content == text.encode()
                    case RawPart(raw=raw):
                        assert reply.content == raw
                    case DataPart():
                        assert reply.json() == part.data
                    case UrlPart():
                        assert reply.status_code == 404
            gone = await browser.get(f"/console/api/tasks/t-1/files/a/{len(artifact.parts)}?at={at}")
            assert gone.status_code == 404
        for wrong in ("files/b/0", "files/a/x", "files/a/-1", "files/a/0?at=3", "files/a/0?at=0", "files/a/0?at=99"):
            assert (await browser.get(f"/console/api/tasks/t-1/{wrong}")).status_code == 404, wrong


async def test_a_download_cannot_become_a_page() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        page = RawPart(b"<script>alert(1)</script>", "text/html", "../../\u202efdp.html\r\nSet-Cookie: a=b")
        await append(store, "t-1", 3, update(page))
        reply = await browser.get("/console/api/tasks/t-1/files/a/0")
        assert reply.content == page.raw
        headers = reply.headers
        assert headers["content-type"] == "application/octet-stream"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("sandbox")
        assert headers["content-length"] == str(len(page.raw))
        assert headers["content-disposition"] == (
            "attachment; filename=\"fdp.htmlSet-Cookie_ a_b\"; filename*=UTF-8''fdp.htmlSet-Cookie_%20a%3Db"
        )
        assert "set-cookie" not in headers


@pytest.mark.parametrize(
    ("name", "plain", "encoded"),
    [
        ("report.pdf", "report.pdf", "report.pdf"),
        ("Übersicht 2026.pdf", "_bersicht 2026.pdf", "%C3%9Cbersicht%202026.pdf"),
        ("C:\\windows\\evil.exe", "evil.exe", "evil.exe"),
        ("/etc/passwd", "passwd", "passwd"),
        ("..", "file", "file"),
        ("", "file", "file"),
        ('a"b;c.txt', "a_b_c.txt", "a_b%3Bc.txt"),
        ("a\u202egpj.exe", "agpj.exe", "agpj.exe"),
        ("x" * 10_000 + ".txt", "x" * 96 + ".txt", "x" * 96 + ".txt"),
        ("\ud800\x00\x1b[2J", "_2J", "%5B2J"),
    ],
)
def test_names_of_downloads_are_harmless(name: str, plain: str, encoded: str) -> None:
    assert attachment_header(name) == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}".encode()


async def test_slow_readers_keep_no_other_from_downloading() -> None:
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        await append(store, "t-1", 3, update(RawPart(b"x" * 8_000_000)))
        url, headers = "/console/api/tasks/t-1/files/a/0", browser.headers
        async with AsyncExitStack() as stack:
            for _ in range(4):  # none of them reads on
                reply = await stack.enter_async_context(browser.client.stream("GET", url, headers=headers))
                assert reply.status_code == 200
            assert len((await browser.get(url)).content) == 8_000_000


MEASURE = """
import asyncio, hashlib, resource, sys
from pathlib import Path
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import RawPart, TextPart
from parley.protocol.tasks import Artifact, TaskState
from parley.stores.sqlite.store import SqliteStore
from tests.console.consoles import console_of
from tests.console.test_task_lists import OWNER, echo_agent, put_task
from tests.console.test_task_logs import append

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

async def main(folder):
    async with console_of(echo_agent(), store=SqliteStore(Path(folder, "tasks.db"))) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        seq = 3
        for number in range(500):
            text = TextPart(f"{number:04}" + "x" * 99_996)
            update = ArtifactUpdate("t-1", "c-1", Artifact("a", (text,)), append=number > 0)
            seq = await append(store, "t-1", seq, update)
        before = peak()
        digest, size = hashlib.sha256(), 0
        async with browser.client.stream("GET", "/console/api/tasks/t-1/files/a/0", headers=browser.headers) as reply:
            async for chunk in reply.aiter_raw():
                digest.update(chunk)
                size += len(chunk)
        log = (await browser.get("/console/api/tasks/t-1/log?after=3")).json()
        assert len(log["events"]) < 30
        print(size, digest.hexdigest(), round(peak() - before))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.deadline(240)
def test_a_file_of_50_mb_takes_little_memory(tmp_path: Path) -> None:
    """In a process of its own, with the browser in it."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURE), str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    size, digest, grown = result.stdout.split()
    whole = hashlib.sha256(b"".join(f"{n:04}".encode() + b"x" * 99_996 for n in range(500))).hexdigest()
    assert (int(size), digest) == (50_000_000, whole)
    assert int(grown) < 60, f"{grown} MB"  # most of it is what the allocator keeps for its threads
