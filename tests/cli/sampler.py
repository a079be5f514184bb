"""An agent on a port, in a thread, that does on demand whatever an agent may do; and the command line against it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from parley import Agent, File
from parley.cli.main import app as cli
from parley.protocol.messages import UrlPart
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from tests.server.serving import running

SECONDS = 30.0

CLAIM = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "maximum": 500, "title": "Amount in EUR"},
        "days": {"type": ["integer", "null"]},
        "kind": {"enum": ["train", "plane"], "title": "How"},
        "refund": {"type": "boolean", "default": False, "title": "Refund"},
        "tags": {"type": "array", "title": "Tags"},
    },
    "required": ["amount", "kind"],
}

NASTY = "\x1b]0;owned\x07\x1b[2Jred\r\nnext\x9b31m \u202egnp.exe\x7f"


def sampler() -> Agent:
    """An agent that does what it hears, and else says it."""
    agent = Agent("Sampler", description="Does what it hears", output_modes=["*/*"])

    @agent.skill(tags=["test"], examples=["ask"])
    async def sample(turn: Any) -> Any:
        """Does what it hears."""
        match turn.text.split():
            case ["ask"]:
                yield "You said: " + (await turn.ask("What?")).text
            case ["draft"]:
                yield "A draft. "
                yield "More? " + (await turn.ask("Go on?")).text
            case ["form"]:
                yield await turn.ask("What did you spend?", form=CLAIM)
            case ["key"]:
                authorized = await turn.require_auth("Get a key.", url="https://keys.example", scopes=["read"])
                yield f"a key of {len(authorized.credential)}"
            case ["auth"]:
                yield (await turn.require_auth("Go to https://login.example")).text
            case ["wait"]:
                yield "begun, "
                await turn.status("waiting")
                await asyncio.Event().wait()
            case ["count", number]:
                for chunk in range(int(number)):
                    yield f"{chunk} "
            case ["work"]:
                await turn.status("half-way", {"percent": 50})
                report = turn.artifact("report.md")
                await report.write("# Report\n")
                await report.write("one\n", last=True)
                yield File(b"1,2", "data.csv")
                yield {"rows": 1}
                yield UrlPart("https://files.example/big.zip", "application/zip", "big.zip")
            case ["lines"]:
                await turn.status("one\nError: two")
                await turn.fail("three\nfour")
            case ["fail"]:
                await turn.fail("The vault is empty")
            case ["reject"]:
                await turn.reject("Not for you")
            case ["crash"]:
                raise RuntimeError("oh")
            case ["nasty"]:
                await turn.status(NASTY)
                yield NASTY
                yield {"text": NASTY}
                yield File(b"x", f"../{NASTY}.txt")
            case ["parts"]:
                yield ", ".join(type(part).__name__ for part in turn.parts)
            case ["names"]:
                yield ", ".join(file.name or "" for file in turn.files)
            case _:
                yield turn.text or turn.data

    return agent


@contextmanager
def on_a_port(make: Callable[[], App]) -> Generator[str]:
    """The URL of an app that runs in a thread until the block ends."""
    ready: SimpleQueue[Any] = SimpleQueue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with running(make(), seconds=300) as client:
            ready.put((str(client.base_url).rstrip("/"), asyncio.get_running_loop(), stop))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            ready.put(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    started = ready.get(timeout=SECONDS)
    if isinstance(started, BaseException):
        raise started
    url, loop, stop = started
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)


@contextmanager
def sampler_on_a_port(**options: Any) -> Generator[str]:
    """The URL of a sampler."""
    policy = WebhookPolicy(allow_private=True)
    with on_a_port(lambda: App(sampler(), webhooks=policy, drain_seconds=0, **options)) as url:
        yield url


def parley(*arguments: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
    """The command's outcome. It wraps nothing and has no colors, because its output is no terminal."""
    return CliRunner().invoke(cli, arguments, input=input, env=env, catch_exceptions=False)
