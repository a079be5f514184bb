"""An agent of Strands with a scripted model, served by its A2AServer: as it is by default, or `compliant`."""

import asyncio
import logging
import sys
import warnings

from scripted import QUESTION, forever, listening, pieces_of, serve
from strands import Agent, tool
from strands.models import Model
from strands.multiagent.a2a import A2AServer
from strands.types.tools import ToolContext


class Script(Model):
    """A model that says what the script says."""

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, output_model, prompt, system_prompt=None, **named):
        raise NotImplementedError
        yield

    async def stream(self, messages, tool_specs=None, system_prompt=None, **named):
        last = messages[-1]["content"]
        results = [block["toolResult"] for block in last if "toolResult" in block]
        text = last[0].get("text", "")
        yield {"messageStart": {"role": "assistant"}}
        if text == "ask":
            use = {"name": "ask_guests", "toolUseId": "use-1"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
            return
        if results:
            pieces = [f"A table for {results[0]['content'][0]['text']}."]
        elif text in ("files", "data"):
            pieces = ["; ".join(map(described, last[1:]))]
        else:
            pieces = pieces_of(text)
            if pieces is None:
                await forever()
        yield {"contentBlockStart": {"start": {}}}
        for piece in pieces:
            yield {"contentBlockDelta": {"delta": {"text": piece}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def described(block):
    if "image" in block:
        return f"image {block['image']['format']} {len(block['image']['source']['bytes'])}"
    return " ".join(block["text"].split())


@tool(context=True)
def ask_guests(tool_context: ToolContext) -> str:
    """Asks the user how many guests there are."""
    return tool_context.interrupt("guests", reason=QUESTION)


def agent(context_id):
    return Agent(
        name="Scenario",
        description="Does what the interop tests ask for.",
        model=Script(),
        tools=[ask_guests],
        callback_handler=None,
    )


async def main():
    door, url = listening()
    server = A2AServer(agent_factory=agent, http_url=url, enable_a2a_compliant_streaming="compliant" in sys.argv)
    await serve(server.to_starlette_app(), door, url)


if __name__ == "__main__":
    if "--log" not in sys.argv:
        logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
