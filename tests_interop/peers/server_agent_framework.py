"""An agent of Microsoft Agent Framework with a scripted chat client, behind its A2AExecutor, streaming or not."""

import asyncio
import logging
import sys
import warnings

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework.a2a import A2AExecutor
from scripted import forever, listening, pieces_of, serve
from starlette.applications import Starlette


class Script(FunctionInvocationLayer, BaseChatClient):
    """A model that says what the script says."""

    def _inner_get_response(self, *, messages, stream, options, **named):
        if stream:
            return self._build_response_stream(self.updates(messages))
        return self.whole(messages)

    async def updates(self, messages):
        for piece in await self.pieces(messages):
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(piece)])

    async def whole(self, messages):
        return ChatResponse(messages=[Message("assistant", ["".join(await self.pieces(messages))])])

    async def pieces(self, messages):
        last = messages[-1]
        if last.text in ("files", "data"):
            return ["reached by ", ", ".join(content.type for content in last.contents)]
        pieces = pieces_of(last.text)
        if pieces is None:
            await forever()
        return pieces


async def main():
    door, url = listening()
    card = AgentCard(
        name="Scenario",
        description="Does what the interop tests ask for.",
        version="4.2.0",
        default_input_modes=["text"],
        default_output_modes=["text"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=f"{url}/", protocol_binding="JSONRPC")],
    )
    handler = DefaultRequestHandler(
        agent_executor=A2AExecutor(Agent(client=Script(), name="Scenario"), stream="stream" in sys.argv),
        task_store=InMemoryTaskStore(),
        agent_card=card,
    )
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
    await serve(app, door, url)


if __name__ == "__main__":
    if "--log" not in sys.argv:
        logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
