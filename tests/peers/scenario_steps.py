"""The shared scenario, for every client that is written in Python; `scenario_steps.mjs` is the same for JavaScript.

A step talks to the agent through a client and says what it saw, in plain JSON that is the same for all clients; the
table in `tests/interop/scenario.py` has what it should be. A client is one of the `scenario_…` scripts: it wraps an
SDK, in that SDK's own environment, and turns its objects into these:

    part   {"text": …} | {"raw": base64, "name", "type"} | {"url", "name", "type"} | {"data": …}
    task   {"id", "context", "state", "said", "parts", "history"}
    event  {"task": task} | {"state", "said", "final"} | {"parts", "append"}

Nothing of the Python here is newer than 3.11, and nothing but the standard library is used.
"""

import asyncio
import base64
import json
import sys
import traceback
import uuid

PNG = base64.b64encode(b"\x89PNG\x00\xff").decode()
FILES = [
    {"text": "files"},
    {"raw": PNG, "name": "soup.png", "type": "image/png"},
    {"url": "https://files.example/menu.pdf", "name": "menu.pdf", "type": "application/pdf"},
]
DATA = {"guests": 2, "vegan": True, "ratio": 0.5, "note": None, "dishes": ["soup", {"name": "crêpe"}]}
HOOK = {"url": "https://hooks.example/a2a", "token": "token-of-the-test"}
STEP_SECONDS = 15  # a step takes milliseconds; a machine under load may need a hundred times that


def say(text):
    return [{"text": text}]


def outcome(task):
    return {key: task[key] for key in ("state", "said", "parts")}


class Fold:
    """What a reader of a stream knows at any time."""

    def __init__(self):
        self.task_id, self.kinds, self.states, self.chunks, self.parts, self.final = None, [], [], [], [], None

    def add(self, event):
        if "task" in event:
            self.kinds.append("task")
            self.task_id, self.parts = event["task"]["id"], list(event["task"]["parts"])
            self.enter(event["task"]["state"])
        elif "parts" in event:
            self.kinds.append("chunk")
            self.chunks.append(event["parts"])
            self.parts = [*(self.parts if event["append"] else []), *event["parts"]]
        else:
            self.kinds.append("status")
            self.final = event["final"]
            self.enter(event["state"])
        self.task_id = event.get("id", self.task_id)

    def enter(self, state):
        if self.states[-1:] != [state]:
            self.states.append(state)

    @property
    def text(self):
        return "".join(part["text"] for part in self.parts)


async def card(client):
    return await client.card()


async def send(client):
    return outcome(await client.send(say("echo hello")))


async def get(client):
    """A finished task, with the last message of its history."""
    sent = await client.send(say("echo again"))
    task = await client.get(sent["id"], history=1)
    return {**outcome(task), "same": task["id"] == sent["id"], "history": task["history"]}


async def multi_turn(client):
    asked = await client.send(say("ask"))
    answered = await client.send(say("four"), task=asked)
    same = (asked["id"], asked["context"]) == (answered["id"], answered["context"])
    return {"asked": outcome(asked), "answered": outcome(answered), "same": same}


async def stream(client):
    fold = Fold()
    async for event in client.stream(say("count 3")):
        fold.add(event)
    return {
        "first": fold.kinds[0],
        "states": fold.states,
        "chunks": fold.chunks,
        "text": fold.text,
        "final": fold.final,
    }


async def stream_asks(client):
    """A stream ends where the agent asks."""
    fold = Fold()
    async for event in client.stream(say("ask")):
        fold.add(event)
    return {"states": fold.states, "final": fold.final}


async def resubscribe(client):
    """Leave in the middle, come back, and know everything."""
    gate = str(uuid.uuid4())
    before, after = Fold(), Fold()
    events = client.stream(say(f"count 6 pausing after 3 at {gate}"))
    async for event in events:
        before.add(event)
        if before.text == "1 2 3 ":
            break
    await events.aclose()
    async for event in client.subscribe(before.task_id):
        if not after.kinds:  # from now on we are subscribed
            await client.send(say(f"open {gate}"))
        after.add(event)
    task = await client.get(before.task_id)
    return {
        "before": before.text,
        "first": after.kinds[0],
        "new": [part["text"] for chunk in after.chunks for part in chunk][-3:],
        "after": after.text,
        "states": after.states[-1:],
        "final": after.final,
        "kept": "".join(part["text"] for part in task["parts"]),
    }


async def resume(client):
    """Leave, miss the rest, and come back with the id of the last frame: what follows is exactly that, each time."""
    gate = str(uuid.uuid4())
    before = Fold()
    events = client.stream(say(f"count 6 pausing after 3 at {gate}"))
    async for event in events:
        before.add(event)
        if before.text == "1 2 3 ":
            break
    await events.aclose()
    last = client.last_id()
    await client.send(say(f"open {gate}"))
    rest, again = Fold(), Fold()
    for fold in (rest, again):
        async for event in client.subscribe(before.task_id, after=last):
            fold.add(event)
    return {"kinds": rest.kinds, "rest": rest.text, "states": rest.states, "same": vars(rest) == vars(again)}


async def subscribe_finished(client):
    done = await client.send(say("echo over"))
    fold = Fold()
    try:
        async for event in client.subscribe(done["id"]):
            fold.add(event)
    except Exception as error:
        return {"error": client.sight(error)}
    return {"kinds": fold.kinds, "states": fold.states, "final": fold.final}


async def cancel(client):
    started = await client.start(say("wait"))
    canceled = await client.cancel(started["id"])
    task = await client.get(started["id"])
    return {"started": started["state"] in ("submitted", "working"), "state": canceled["state"], "kept": task["state"]}


async def list_tasks(client):
    first = await client.send(say("echo one"))
    for text in ("echo two", "echo three"):
        await client.send(say(text), context=first["context"])
    pages, token = [], ""
    while not pages or token:
        page = await client.list_tasks(first["context"], size=2, token=token)
        pages.append([task["state"] for task in page["tasks"]])
        token = page["next"]
    return {
        "pages": pages,
        "total": page["total"],
        "artifacts": [part for task in page["tasks"] for part in task["parts"]],
    }


async def push(client):
    started = await client.start(say("wait"))
    created = await client.create_push(started["id"], {"id": "hook-1", **HOOK})
    again = await client.get_push(started["id"], "hook-1")
    seen = {"created": created, "got": again}
    if client.lists_push:
        seen["listed"] = await client.list_push(started["id"])
        await client.delete_push(started["id"], "hook-1")
        seen["left"] = await client.list_push(started["id"])
    await client.cancel(started["id"])
    return seen


async def push_unnamed(client):
    """The one webhook of a task that older clients know, told in the send already."""
    asked = await client.send(say("ask"), push=HOOK)
    got = await client.get_push(asked["id"], None)
    return {**got, "id": "the task's" if got["id"] == asked["id"] else got["id"]}


async def files(client):
    return outcome(await client.send(FILES))


async def data(client):
    return outcome(await client.send([*say("data"), {"data": DATA}]))


async def endings(client):
    return {text: outcome(await client.send(say(text))) for text in ("fail", "reject")}


async def seen_error(client, work):
    try:
        result = await work
    except Exception as error:
        return client.sight(error)
    return {"no error": outcome(result) if "state" in result else result}


async def errors(client):
    done = await client.send(say("echo done"))
    video = {"raw": PNG, "name": "a.mp4", "type": "video/mp4"}
    return {
        "unknown task": await seen_error(client, client.get("no-such-task")),
        "cancel unknown": await seen_error(client, client.cancel("no-such-task")),
        "cancel finished": await seen_error(client, client.cancel(done["id"])),
        "send to finished": await seen_error(client, client.send(say("echo more"), task=done)),
        "wrong content": await seen_error(client, client.send([*say("files"), video])),
        "bad params": await seen_error(client, client.send([])),
        "stream bad params": await seen_error(client, drain(client.stream([]))),
        "subscribe unknown": await seen_error(client, drain(client.subscribe("no-such-task"))),
        "unknown webhook": await seen_error(client, client.get_push(done["id"], "no-such-hook")),
    }


async def drain(events):
    return [event async for event in events]


async def authenticated(client):
    """Only those with a token get in."""
    return {
        "known": outcome(await client.known().send(say("echo secret"))),
        "stranger": await seen_error(client, client.stranger().send(say("echo secret"))),
        "stream": await seen_error(client, drain(client.stranger().stream(say("echo secret")))),
    }


async def extended_card(client):
    """The private skill is in the card of those with a token."""
    return {
        "public": (await client.card())["skills"],
        "known": (await client.known().extended_card())["skills"],
        "stranger": await seen_error(client, client.stranger().extended_card()),
    }


STEPS = (
    card, send, get, multi_turn, stream, stream_asks, resubscribe, resume, subscribe_finished, cancel, list_tasks,
    push, push_unnamed, files, data, endings, errors, authenticated, extended_card,
)  # fmt: skip


async def play(client, *more):
    """Take every step that the client's dialect has, and print what was seen, one JSON line a step."""
    for step in (*STEPS, *more):
        if step.__name__ in client.lacks:
            continue
        try:
            seen = {"seen": await asyncio.wait_for(step(client), STEP_SECONDS)}
        except Exception:
            seen = {"broke": traceback.format_exc()}
        print(json.dumps({"step": step.__name__, **seen}), flush=True)


def settings():
    """What the test says: `url`, `guarded_url`, `token` and `binding`."""
    return json.loads(sys.argv[1])
