"""An agent of the BeeAI framework with a scripted model, served by its A2AServer."""

import json
import logging
import os
import sys
import threading
import time
import urllib.request
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise LiteLLM, which it imports, downloads its price list

from beeai_framework.adapters.a2a.serve.server import A2AServer, A2AServerConfig
from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.backend import AssistantMessage, ChatModel, ChatModelOutput, MessageToolCallContent, UserMessage
from beeai_framework.memory import UnconstrainedMemory
from beeai_framework.serve.utils import LRUMemoryManager
from scripted import forever, listening, pieces_of


class Script(ChatModel):
    """A model that gives what the script says as its final answer."""

    @property
    def model_id(self):
        return "scripted"

    @property
    def provider_id(self):
        return "openai"

    async def _create(self, input, run):
        message = [one for one in input.messages if isinstance(one, UserMessage)][-1]
        text = message.content[0].text.removeprefix("Your task: ")
        if text in ("files", "data"):
            pieces = ["; ".join(" ".join(str(content.model_dump()).split()) for content in message.content[1:])]
        else:
            pieces = pieces_of(text)
        if pieces is None:
            await forever()
        arguments = json.dumps({"response": "".join(pieces)})
        call = MessageToolCallContent(id="call-1", tool_name="final_answer", args=arguments)
        return ChatModelOutput(output=[AssistantMessage(call)], finish_reason="tool_calls")

    async def _create_stream(self, input, run):
        yield await self._create(input, run)


def announce(url):
    """Print where the agent is, as soon as it answers."""
    while True:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).read()
        except OSError:
            time.sleep(0.1)
        else:
            print(json.dumps({"url": url}), flush=True)
            return


if __name__ == "__main__":
    if "--log" not in sys.argv:
        logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    door, url = listening()
    port = door.getsockname()[1]
    door.close()
    threading.Thread(target=announce, args=(url,), daemon=True).start()
    agent = RequirementAgent(
        llm=Script(), memory=UnconstrainedMemory(), name="Scenario", description="Obeys the tests."
    )
    config = A2AServerConfig(host="127.0.0.1", port=port)
    A2AServer(config=config, memory_manager=LRUMemoryManager(maxsize=100)).register(agent).serve()
