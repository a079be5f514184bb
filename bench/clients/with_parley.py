"""The measured client of Parley: sends, or one stream."""

import uvloop
from measuring import measured, options

from parley.client.client import Client
from parley.protocol.cards import Binding
from parley.protocol.events import ArtifactUpdate


async def main() -> None:
    chosen = options()
    async with Client(chosen.url, bindings=[Binding(chosen.binding)]) as client:

        async def send() -> None:
            reply = await client.send("echo hello")
            assert reply.text == "hello"

        async def stream() -> int:
            return len([u async for u in client.stream(f"talk {chosen.chunks}") if isinstance(u.event, ArtifactUpdate)])

        await measured(send, stream, chosen)


uvloop.run(main())
