"""The scenario, played by the remote agent of Microsoft Agent Framework."""

import asyncio
import logging
import uuid
import warnings

import httpx
from a2a.client import A2ACardResolver
from a2a.client.auth import AuthInterceptor, CredentialService
from agent_framework import AgentSession, Content, Message
from agent_framework.a2a import A2AAgent
from steps import play, say, settings


class Token(CredentialService):
    """Gives the same token for every scheme that a card names."""

    def __init__(self, token):
        self.token = token

    async def get_credentials(self, security_scheme_name, context):
        return self.token


class Client:
    lacks = ("data", "cancel")

    def __init__(self, url, *, guarded=None, token=None):
        self.url, self.guarded, self.token = url, guarded, token

    def known(self):
        return Client(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return Client(self.guarded[0])

    async def agent(self):
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, self.url).get_agent_card()
        return A2AAgent(agent_card=card, auth_interceptor=AuthInterceptor(Token(self.token)) if self.token else None)

    async def card(self):
        agent = await self.agent()
        return {"name": agent.name, "description": agent.description}

    async def converse(self, *messages):
        agent = await self.agent()
        session = AgentSession()
        return [seen(await agent.run(framework_message(message), session=session)) for message in messages]

    async def stream(self, message):
        agent = await self.agent()
        updates = [update async for update in agent.run(framework_message(message), stream=True)]
        return {"pieces": [update.text for update in updates if update.text]}

    async def long_running(self):
        """Started in the background, polled while it waits, and followed to its end by its continuation token."""
        agent, gate = await self.agent(), str(uuid.uuid4())
        text = f"count 6 pausing after 3 at {gate}"
        started = await agent.run(framework_message(say(text)), background=True)
        token = started.continuation_token
        polled = await agent.poll_task(token)
        rest = []
        async for update in agent.run(continuation_token=token, stream=True, background=True):
            if not rest:  # from now on it is subscribed
                await agent.run(framework_message(say(f"open {gate}")))
            rest.append(update.text)
        ended = await agent.poll_task(token)
        return {
            "still runs": bool(polled.continuation_token),
            "followed": "".join(rest)[-6:],
            "ended": ended.text,
            "runs in the end": bool(ended.continuation_token),
        }


def framework_message(message):
    return Message("user", [content(part) for part in message])


def content(part):
    if "text" in part:
        return Content.from_text(part["text"])
    if "raw" in part:
        return Content.from_uri(f"data:{part['type']};base64,{part['raw']}", media_type=part["type"])
    return Content.from_uri(part["url"], media_type=part["type"])


def seen(response):
    shown = {"text": response.text}
    contents = [content for message in response.messages for content in message.contents]
    others = [content for content in contents if content.type != "text"]
    if others:
        shown["contents"] = [[one.type, getattr(one, "uri", None), getattr(one, "media_type", None)] for one in others]
    return shown


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    given = settings()
    asyncio.run(play(Client(given["url"], guarded=(given["guarded_url"], given["token"]))))
