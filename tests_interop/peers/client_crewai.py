"""The scenario, played by a CrewAI agent that delegates to the agent under test.

Its model is scripted: it delegates the messages of a conversation one after the other, and then says that it is done.
"""

import asyncio
import json
import logging
import os
import warnings

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
os.environ["OTEL_SDK_DISABLED"] = "true"

from crewai import Agent, BaseLLM
from crewai.a2a import A2AClientConfig
from crewai.a2a.auth import BearerTokenAuth
from crewai.a2a.updates import PollingConfig, StreamingConfig
from crewai.events import crewai_event_bus
from crewai.events.types.a2a_events import (
    A2AAgentCardFetchedEvent,
    A2AArtifactReceivedEvent,
    A2ADelegationCompletedEvent,
)
from steps import play, settings


class Script(BaseLLM):
    """A model that delegates the given messages and then ends the conversation."""

    def __init__(self, endpoint, texts):
        super().__init__(model="scripted")
        self._endpoint, self._texts = endpoint, list(texts)

    def call(self, messages, *arguments, **named):
        if self._texts:
            reply = {"a2a_ids": [self._endpoint], "message": self._texts.pop(0), "is_a2a": True}
        else:
            reply = {"a2a_ids": [], "message": "done", "is_a2a": False}
        return json.dumps(reply)

    async def acall(self, messages, *arguments, **named):
        return self.call(messages)

    def supports_function_calling(self):
        return False


class Client:
    lacks = ("files", "data", "long_running", "cancel")

    def __init__(self, url, *, updates, guarded=None, token=None):
        self.url, self.updates, self.guarded, self.token = url, updates, guarded, token

    def known(self):
        return Client(self.guarded[0], updates=self.updates, token=self.guarded[1])

    def stranger(self):
        return Client(self.guarded[0], updates=self.updates)

    async def delegate(self, *messages):
        """All events that CrewAI emits while an agent of its own delegates the messages."""
        endpoint = f"{self.url}/.well-known/agent-card.json"
        remote = A2AClientConfig(
            endpoint=endpoint, auth=BearerTokenAuth(token=self.token) if self.token else None, updates=self.updates
        )
        script = Script(endpoint, [message[0]["text"] for message in messages])
        agent = Agent(role="Caller", goal="Delegate", backstory="Tests", llm=script, a2a=remote, verbose=False)
        events = []
        with crewai_event_bus.scoped_handlers():
            for kind in (A2AAgentCardFetchedEvent, A2AArtifactReceivedEvent, A2ADelegationCompletedEvent):
                crewai_event_bus.on(kind)(lambda source, event: events.append(event))
            await agent.kickoff_async("Do it.")
            await asyncio.to_thread(crewai_event_bus.flush)
        return events

    async def card(self):
        [event, *_] = [
            event
            for event in await self.delegate([{"text": "echo hello"}])
            if isinstance(event, A2AAgentCardFetchedEvent)
        ]
        return {"name": event.a2a_agent_name, "version": event.agent_card["version"]}

    async def converse(self, *messages):
        events = [event for event in await self.delegate(*messages) if isinstance(event, A2ADelegationCompletedEvent)]
        return [{"status": event.status, "text": event.result, "error": event.error} for event in events]

    async def stream(self, message):
        events = [event for event in await self.delegate(message) if isinstance(event, A2AArtifactReceivedEvent)]
        return {"pieces": [[event.artifact_name, event.append, event.last_chunk] for event in events]}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    given = settings()
    how = PollingConfig(interval=0.05) if given.get("how") == "polling" else StreamingConfig()
    asyncio.run(play(Client(given["url"], updates=how, guarded=(given["guarded_url"], given["token"]))))
