"""The scenario, played by the remote agent of the BeeAI framework."""

import asyncio
import logging
import os
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise LiteLLM, which it imports, downloads its price list

from a2a.types import TaskArtifactUpdateEvent
from beeai_framework.adapters.a2a.agents import A2AAgent
from beeai_framework.adapters.a2a.agents.agent import A2AAgentParameters, HttpxAsyncClientParameters
from beeai_framework.backend import MessageFileContent, MessageImageContent, MessageTextContent, UserMessage
from beeai_framework.memory import UnconstrainedMemory
from steps import play, settings


class Client:
    lacks = ("data", "long_running", "cancel")

    def __init__(self, url, *, guarded=None, token=None):
        self.url, self.guarded, self.token = url, guarded, token

    def known(self):
        return Client(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return Client(self.guarded[0])

    def agent(self):
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        parameters = A2AAgentParameters(httpx_async_client=HttpxAsyncClientParameters(headers=headers))
        return A2AAgent(url=self.url, memory=UnconstrainedMemory(), parameters=parameters)

    async def card(self):
        agent = self.agent()
        await agent.check_agent_exists()
        card = agent.agent_card
        return {"name": card.name, "version": card.version, "skills": [skill.id for skill in card.skills]}

    async def converse(self, *messages):
        agent = self.agent()
        return [seen(await agent.run(framework_message(message))) for message in messages]

    async def stream(self, message):
        agent, pieces = self.agent(), []

        def note(data, meta):
            update = data.value[1]
            if isinstance(update, TaskArtifactUpdateEvent):
                pieces.append("".join(part.root.text for part in update.artifact.parts))

        await agent.run(framework_message(message)).on("update", note)
        return {"pieces": pieces}


def framework_message(message):
    return UserMessage([content(part) for part in message])


def content(part):
    if "text" in part:
        return MessageTextContent(text=part["text"])
    if "raw" in part:
        return MessageImageContent(image_url={"url": f"data:{part['type']};base64,{part['raw']}"})
    return MessageFileContent(file_id=part["url"], format=part["type"], filename=part["name"])


def seen(output):
    [message] = output.output
    shown = {"text": message.text}
    if others := [content.type for content in message.content if content.type != "text"]:
        shown["contents"] = others
    return shown


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    given = settings()
    asyncio.run(play(Client(given["url"], guarded=(given["guarded_url"], given["token"]))))
