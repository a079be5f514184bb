"""What the scripted models of the frameworks' agents say, and how their servers start.

    echo hello   says "hello"                       files   says which files reached the model
    count 3      says "1 ", "2 ", "3 "              data    says which data reached the model
    ask          asks by the framework's own way    fail    raises an error
    wait         never answers

Nothing of the Python here is newer than 3.11. The frameworks' environments have uvicorn and little else in common.
"""

import asyncio
import json
import socket

import uvicorn

QUESTION = "For how many?"


def pieces_of(text):
    """What a model says to a message, in the pieces in which it streams them; None if it never answers."""
    words = text.split()
    match words:
        case ["count", last]:
            return [f"{number} " for number in range(1, int(last) + 1)]
        case ["echo", *_]:
            return [text.removeprefix("echo ")]
        case ["fail"]:
            raise RuntimeError("The oven is broken.")
        case ["wait"]:
            return None
        case _:
            return [f"got {text}"]


async def forever():
    await asyncio.Event().wait()


def listening():
    """A socket on a free port, and its URL."""
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    door.bind(("127.0.0.1", 0))
    door.listen()
    return door, f"http://127.0.0.1:{door.getsockname()[1]}"


async def serve(app, door, url):
    """Serve an ASGI app on a socket; print the URL as a line of JSON when it answers."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    running = asyncio.create_task(server.serve(sockets=[door]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    print(json.dumps({"url": url}), flush=True)
    await running
