"""What an SDK's client does with one agent of a host: card, send, stream, cancel, and a connection that breaks.

The agent says numbers (`count 3`), stands still on the way (`count 6 pausing after 3 at GATE`) and goes on when it gets
`open GATE`. A client is one of the `host_sdk_…` scripts; its events and tasks are those of `scenario_steps`.
"""

import asyncio
import json
import sys
import traceback
import uuid

from scenario_steps import STEP_SECONDS, Fold, say


async def card(client):
    return await client.card()


async def send(client):
    task = await client.send(say("count 3"))
    return {key: task[key] for key in ("state", "said", "parts")}


async def stream(client):
    """The text comes in pieces, and is that of the message in the end."""
    fold, said = Fold(), ""
    async for event in client.stream(say("count 3")):
        fold.add(event)
        said = event.get("said") or said
    texts = [part["text"] for chunk in fold.chunks for part in chunk]
    return {"states": fold.states, "texts": [text for text in texts if text], "folded": fold.text, "said": said}


async def cancel(client):
    """A task is canceled while its agent works, and its stream says so."""
    fold, answer = Fold(), None
    async for event in client.stream(say("count 6 pausing after 3 at no-gate")):
        fold.add(event)
        if fold.text == "1 2 3 " and answer is None:
            answer = await client.cancel(fold.task_id)
    kept = await client.get(fold.task_id)
    return {"answer": answer["state"], "last": fold.states[-1], "kept": kept["state"], "text": fold.text}


async def leave(client):
    """What a reader has whose connection breaks in the middle, the id of the last frame, and the gate of the agent."""
    gate, fold = str(uuid.uuid4()), Fold()
    other = client.on_its_own_connection()
    async for event in other.stream(say(f"count 6 pausing after 3 at {gate}")):
        fold.add(event)
        if fold.text == "1 2 3 ":
            await other.http.aclose()
            break
    return fold, other.last_id(), gate


async def resubscribe(client):
    """The reader comes back before the agent goes on. It folds what it gets into what it has."""
    fold, _, gate = await leave(client)
    before, is_open = fold.text, False
    async for event in client.subscribe(fold.task_id):
        fold.add(event)
        if not is_open:  # from now on it is subscribed
            is_open = bool(await client.send(say(f"open {gate}")))
    return await outcome(client, fold, before)


async def resume(client):
    """The agent goes on, and ends, while the reader is away. The rest follows the last frame that the reader has."""
    fold, last_id, gate = await leave(client)
    before = fold.text
    await client.send(say(f"open {gate}"))
    async for event in client.subscribe(fold.task_id, after=last_id):
        fold.add(event)
    return await outcome(client, fold, before)


async def outcome(client, fold, before):
    task = await client.get(fold.task_id)
    kept = "".join(part["text"] for part in task["parts"])
    return {"before": before, "after": fold.text, "kept": kept, "said": task["said"], "state": fold.states[-1]}


STEPS = (card, send, stream, cancel, resubscribe, resume)


async def play(make_client):
    """Take every step with every agent and binding that the test names, and print what was seen, one line a step."""
    given = json.loads(sys.argv[1])
    for agent, url in given["agents"].items():
        for binding in given["bindings"]:
            client = make_client(binding, url, given["token"])
            for step in STEPS:
                try:
                    seen = await asyncio.wait_for(step(client), STEP_SECONDS)
                except Exception:
                    seen = traceback.format_exc()
                print(json.dumps([agent, binding, step.__name__, seen]), flush=True)
            await client.http.aclose()
