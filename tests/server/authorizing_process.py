"""Serves an agent that needs an authorization, until it is killed: `authorizing_process.py STORE PORT ISSUER`.

It prints a line when it listens, and one with each credential that its handler gets.
"""

import asyncio
import socket
import sys

from parley import Agent, OAuthCode, Turn
from parley.server.app import App
from parley.server.listener.listener import Listener
from tests.server.authorization_server import CLIENT


async def main(store: str, port: int, issuer: str) -> None:
    agent = Agent("Calendar")
    oauth = OAuthCode(client_id=CLIENT[0], client_secret=CLIENT[1], issuer=issuer)

    @agent.on_message
    async def handle(turn: Turn) -> str:
        authorized = await turn.require_auth("Sign in", oauth=oauth)

        async def use() -> str:
            print(authorized.credential, flush=True)
            if turn.text == "hang":
                await asyncio.Event().wait()
            return "used"

        return await turn.step("use", use)

    app = App(agent, store=f"sqlite:///{store}", public_url=f"http://127.0.0.1:{port}")
    async with app.running():
        listener = Listener(app)
        await listener.start([socket.create_server(("127.0.0.1", port))])
        print("listening", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
