"""A CrewAI agent with a scripted model, behind CrewAI's own functions for A2A tasks and the a2a-sdk it works with."""

import asyncio
import logging
import os
import re
import sys
import threading
import warnings

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
os.environ["OTEL_SDK_DISABLED"] = "true"

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from crewai import Agent, BaseLLM
from crewai.a2a import A2AServerConfig
from crewai.a2a.utils.task import cancel, execute
from scripted import forever, listening, pieces_of, serve


class Script(BaseLLM):
    """A model that says what the script says."""

    def call(self, messages, *arguments, **named):
        pieces = pieces_of(message_in(messages))
        if pieces is None:
            threading.Event().wait()
        return f"Thought: I now can give a great answer\nFinal Answer: {''.join(pieces)}"

    async def acall(self, messages, *arguments, **named):
        if message_in(messages) == "wait":
            await forever()
        return self.call(messages)

    def supports_function_calling(self):
        return False


def message_in(messages):
    """The caller's message in the prompt that CrewAI has made of it."""
    prompt = messages if isinstance(messages, str) else messages[-1]["content"]
    text = re.search(r"Current Task: (.*?)This is the expected criteria", prompt, re.DOTALL)[1]
    return " ".join(text.split())


class Executor(AgentExecutor):
    def __init__(self, agent):
        self.agent = agent

    async def execute(self, context, event_queue):
        await execute(self.agent, context, event_queue)

    async def cancel(self, context, event_queue):
        await cancel(context, event_queue)


async def main():
    door, url = listening()
    agent = Agent(
        role="Scenario",
        goal="Do what the interop tests ask for",
        backstory="Tests",
        llm=Script(model="scripted"),
        a2a=A2AServerConfig(url=url, default_input_modes=["text/plain", "application/json", "image/png"]),
        verbose=False,
    )
    handler = DefaultRequestHandler(Executor(agent), InMemoryTaskStore())
    await serve(A2AStarletteApplication(agent.to_agent_card(url), handler).build(), door, url)


if __name__ == "__main__":
    if "--log" not in sys.argv:
        logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
