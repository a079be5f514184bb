"""The part of the shared scenario that an agent of any framework can play, from the side of Parley's client.

Every step talks to one agent and says what Parley's client shows of it, in plain JSON. An agent of a framework knows
the words of the scenario (`echo`, `count`, `ask`, …) through a scripted model or agent; see `peers/server_….py`.

    python -m tests_interop.parley_steps URL [TOKEN]     plays all steps and prints what was seen
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from parley.client.client import Client
from parley.client.options import Timeouts
from parley.client.reply import Reply
from parley.contents import File
from parley.protocol.errors import ParleyError
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest

Seen = Any
Step = Callable[[Client], Awaitable[Seen]]

PNG = b"\x89PNG\x00\xff"
ABOUT_LENGTH = 54  # the rest of a message may differ from machine to machine
STEP_SECONDS = 10  # a step takes milliseconds; an agent that says nothing in this time is taken to hang


async def card(client: Client) -> Seen:
    """The card's name, and the interface that Parley chose."""
    interface = client.interface
    return {"name": client.card.name, "speaks": f"{interface.version} {interface.binding}"}


async def send(client: Client) -> Seen:
    return outcome(await client.send("echo hello"))


async def get(client: Client) -> Seen:
    """The finished task, read again."""
    sent = await client.send("echo again")
    if sent.task is None:
        return "answered with a message"
    return outcome(await client.get(sent.task))


async def conversation(client: Client) -> Seen:
    """Two messages in one context."""
    first = await client.send("echo one")
    context = first.content.context_id
    second = await client.send("echo two", context=context)
    return {"texts": [first.text, second.text], "same context": second.content.context_id == context}


async def stream(client: Client) -> Seen:
    """Every text as it comes, and the whole text that the task holds in the end."""
    updates = [update async for update in client.stream("count 3")]
    last = updates[-1]
    whole = last.seen.task() if last.seen.task_id else None
    return {
        "texts": [update.text for update in updates if update.text],
        "state": last.state.value,
        "artifacts": ["".join(getattr(part, "text", "") for part in one.parts) for one in whole.artifacts]
        if whole
        else [],
    }


async def multi_turn(client: Client) -> Seen:
    asked = await client.send("ask")
    if not asked.needs_input:
        return {"asked": outcome(asked)}
    answered = await asked.answer("four")
    same = asked.task is not None and answered.task is not None and asked.task.id == answered.task.id
    return {"asked": outcome(asked), "answered": outcome(answered), "same task": same}


async def files(client: Client) -> Seen:
    """An image goes in; the agent says what reached it."""
    return outcome(await client.send("files", File(PNG, name="soup.png", media_type="image/png")))


async def data(client: Client) -> Seen:
    return outcome(await client.send("data", {"guests": 2, "vegan": True}))


async def failure(client: Client) -> Seen:
    return outcome(await client.send("fail"))


async def start(client: Client) -> Seen:
    """A task that never ends is started without waiting for it."""
    started = await client.send("wait", wait=False)
    if started.task is None:
        return "answered with a message"
    await client.cancel(started.task)
    return started.state.value


async def cancel(client: Client) -> Seen:
    """A task that never ends is canceled by a caller who streams it."""
    async with aclosing(client.stream("wait")) as updates:
        first = await anext(updates)
        return (await client.cancel(first.task)).state.value if first.task else "answered with a message"


async def unknown_task(client: Client) -> Seen:
    return outcome(await client.get("no-such-task"))


async def list_tasks(client: Client) -> Seen:
    """One task that is in the caller's list."""
    await client.send("echo listed")
    async for task in client.list():
        return {"newest": task.status.state.value}
    return "none"


async def push(client: Client) -> Seen:
    """A webhook for a finished task."""
    sent = await client.send("echo push")
    if sent.task is None:
        return "answered with a message"
    config = PushConfig(url="https://hooks.example/a2a", id="hook-1")
    created = await client.create_push_config(CreatePushConfigRequest(sent.task.id, config))
    return {"created": created.url}


async def afterwards(client: Client) -> Seen:
    """The agent still works after all of this."""
    return outcome(await client.send("echo hello"))


STEPS: tuple[Step, ...] = (
    card, send, get, conversation, stream, multi_turn, files, data, failure, unknown_task, list_tasks, push,
    cancel, start, afterwards,
)  # fmt: skip


def outcome(reply: Reply) -> Seen:
    """What a reply shows to a program."""
    shown: dict[str, Any] = {"state": reply.state.value}
    names = ("question",) if reply.needs_input else ("text", "reason", "data")
    shown |= {name: value for name in names if (value := getattr(reply, name))}
    if reply.task is None:
        shown["message"] = True
    return shown


async def seen_by(client: Client, step: Step) -> Seen:
    """What a step saw, or the error that Parley's client raised."""
    try:
        async with asyncio.timeout(STEP_SECONDS):
            return await step(client)
    except TimeoutError:
        return {"error": f"nothing in {STEP_SECONDS} seconds"}
    except ParleyError as error:
        return {"error": type(error).__name__, "about": str(error).splitlines()[0][:ABOUT_LENGTH]}


async def play(url: str, token: str | None = None, *, steps: tuple[Step, ...] = STEPS) -> dict[str, Seen]:
    """All steps, each on a fresh client."""
    seen: dict[str, Seen] = {}
    for step in steps:
        async with Client(url, credentials=token, timeouts=Timeouts()) as client:
            seen[step.__name__] = await seen_by(client, step)
    return seen


if __name__ == "__main__":
    for name, value in asyncio.run(play(*sys.argv[1:3])).items():
        print(name, json.dumps(value, ensure_ascii=False))
