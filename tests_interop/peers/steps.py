"""The part of the shared scenario that a framework's client can play: it takes messages and shows what came back.

A framework wraps a remote agent as an agent or a model of its own, so tasks, states and webhooks are mostly out of
sight. Each `client_…` script wraps one framework in its own environment and offers

    async def converse(*messages)     replies to messages of one conversation, each {"text"} and what else it shows
    async def stream(message)         {"pieces"}: what it shows while the agent is at work
    async def card()                  what it shows of the agent's card
    def known(), def stranger()       the same client for the guarded server, with and without the token

and names in `lacks` the steps that its interface has no way to express. A message is a list of parts, which are

    {"text"} | {"raw": base64, "name", "type"} | {"url", "name", "type"} | {"data"}

Nothing of the Python here is newer than 3.11, and nothing but the standard library is used.
"""

import asyncio
import base64
import json
import sys
import traceback

PNG = base64.b64encode(b"\x89PNG\x00\xff").decode()
IMAGE = {"raw": PNG, "name": "soup.png", "type": "image/png"}
LINK = {"url": "https://files.example/menu.pdf", "name": "menu.pdf", "type": "application/pdf"}
DATA = {"guests": 2, "vegan": True, "ratio": 0.5, "note": None, "dishes": ["soup", {"name": "crêpe"}]}
STEP_SECONDS = 30  # a step takes milliseconds; a machine under load may need a hundred times that


def say(text):
    return [{"text": text}]


async def card(client):
    return await client.card()


async def send(client):
    [reply] = await client.converse(say("echo hello"))
    return reply


async def conversation(client):
    """Two messages, one after the other: the second is a task of its own."""
    return await client.converse(say("echo one"), say("echo two"))


async def multi_turn(client):
    """The agent asks, and the answer goes on with the same task."""
    return await client.converse(say("ask"), say("four"))


async def stream(client):
    return await client.stream(say("count 3"))


async def whole(client):
    """The answer of an agent that streams, as the framework holds it in the end."""
    [reply] = await client.converse(say("count 3"))
    return reply


async def files(client):
    [reply] = await client.converse([*say("files"), IMAGE, LINK])
    return reply


async def data(client):
    [reply] = await client.converse([*say("data"), {"data": DATA}])
    return reply


async def endings(client):
    """What the framework shows of a task that failed and of one that was rejected."""
    return {text: await outcome(client.converse(say(text))) for text in ("fail", "reject")}


async def long_running(client):
    """A task is left while it runs and looked at again, if the framework has a way to."""
    return await client.long_running()


async def cancel(client):
    return await client.cancel()


async def authenticated(client):
    return {
        "known": await outcome(client.known().converse(say("echo secret"))),
        "stranger": await outcome(client.stranger().converse(say("echo secret"))),
    }


async def outcome(work):
    """The reply, or the error that the framework raises."""
    try:
        [reply] = await work
    except Exception as error:
        return {"raised": type(error).__name__, "about": first_line(error)}
    return reply


def first_line(error):
    return (str(error).splitlines() or [""])[0][:200]


STEPS = (
    card, send, conversation, multi_turn, stream, whole, files, data, endings, long_running, cancel, authenticated,
)  # fmt: skip


def settings():
    """What the test says: `url`, `guarded_url` and `token`."""
    return json.loads(sys.argv[1])


async def play(client):
    """Take every step that the framework's interface can express; print what was seen, one JSON line a step."""
    for step in STEPS:
        if step.__name__ in client.lacks:
            continue
        try:
            seen = {"seen": await asyncio.wait_for(step(client), STEP_SECONDS)}
        except Exception:
            seen = {"broke": traceback.format_exc()}
        print(json.dumps({"step": step.__name__, **seen}, ensure_ascii=False, default=str), flush=True)
