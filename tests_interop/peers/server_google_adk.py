"""An agent of Google's Agent Development Kit with a scripted model, served by `to_a2a`."""

import asyncio
import logging
import sys
import warnings
from urllib.parse import urlsplit

from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import LongRunningFunctionTool
from google.genai import types
from scripted import QUESTION, forever, listening, pieces_of, serve


class Script(BaseLlm):
    """A model that says what the script says."""

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1]
        answers = [part.function_response for part in last.parts if part.function_response]
        if answers:
            if answers[-1].response.get("status") == "pending":
                return
            yield said(f"A table for {answers[-1].response.get('result')}.")
            return
        text = " ".join(part.text for part in last.parts if part.text)
        match text.split():
            case ["ask"]:
                call = types.FunctionCall(name="ask_guests", args={"question": QUESTION})
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
                return
            case ["files", *_] | ["data", *_]:
                yield said("; ".join(map(described, last.parts[1:])))
                return
        pieces = pieces_of(text)
        if pieces is None:
            await forever()
        yield said("".join(pieces))


def said(text):
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def described(part):
    if part.inline_data:
        return f"{part.inline_data.display_name} {part.inline_data.mime_type} {len(part.inline_data.data)}"
    return part.text or str(part.model_dump(exclude_none=True))


def ask_guests(question: str) -> dict:
    """Asks the user how many guests there are."""
    return {"status": "pending"}


async def main():
    door, url = listening()
    agent = LlmAgent(
        name="scenario",
        description="Does what the interop tests ask for.",
        model=Script(model="scripted"),
        tools=[LongRunningFunctionTool(ask_guests)],
    )
    await serve(to_a2a(agent, host="127.0.0.1", port=urlsplit(url).port), door, url)


if __name__ == "__main__":
    if "--log" not in sys.argv:
        logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
