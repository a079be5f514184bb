"""The scenario, played by the remote agent of Strands Agents."""

import asyncio
import logging
import warnings

import httpx
from a2a.client import ClientConfig
from a2a.types import TaskArtifactUpdateEvent
from steps import play, settings
from strands.agent.a2a_agent import A2AAgent


class Client:
    # Its content blocks of other kinds than text are left out of a message, without an error.
    lacks = ("data", "long_running", "cancel")

    def __init__(self, url, *, guarded=None, token=None):
        self.url, self.guarded, self.token = url, guarded, token

    def known(self):
        return Client(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return Client(self.guarded[0])

    def agent(self):
        if not self.token:
            return A2AAgent(self.url)
        http = httpx.AsyncClient(headers={"authorization": f"Bearer {self.token}"}, timeout=30)
        return A2AAgent(self.url, client_config=ClientConfig(httpx_client=http))

    async def card(self):
        card = await self.agent().get_agent_card()
        return {"name": card.name, "version": card.version, "skills": [skill.id for skill in card.skills]}

    async def converse(self, *messages):
        agent = self.agent()
        return [seen(await agent.invoke_async(prompt(message))) for message in messages]

    async def stream(self, message):
        pieces = []
        async for event in self.agent().stream_async(prompt(message)):
            if event.get("type") == "a2a_stream" and isinstance(event["event"][1], TaskArtifactUpdateEvent):
                pieces.append("".join(part.root.text for part in event["event"][1].artifact.parts))
        return {"pieces": pieces}


def prompt(message):
    return [block(part) for part in message]


def block(part):
    if "text" in part:
        return {"text": part["text"]}
    if "raw" in part:
        return {"image": {"format": "png", "source": {"bytes": part["raw"].encode()}}}
    return {"document": {"format": "pdf", "name": part["name"], "source": {"location": {"uri": part["url"]}}}}


def seen(result):
    text = "".join(block["text"] for block in result.message["content"] if "text" in block)
    return {"text": text, "stop": result.stop_reason, **result.state}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    given = settings()
    asyncio.run(play(Client(given["url"], guarded=(given["guarded_url"], given["token"]))))
