"""Agents of google-adk for the shared set, with models that follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from threading import Event
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from pydantic import BaseModel

from parley.adapters.google_adk import remote_tool

ANSWER = "yes"
ANSWERED = "Deployed: deployed to rome."
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
CARD = ("worker", "Charges and says so.", ["charge"])

Said = Sequence[str] | types.Part | Sequence[types.Part]
"""What a model answers: the pieces of a text, or parts such as calls."""


class ScriptedModel(BaseLlm):
    """Streams as Gemini does: the pieces of a text as partial responses, then the whole text."""

    model: str = "scripted"
    script: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said: Said = self.script(llm_request)
        answer = [said] if isinstance(said, types.Part) else list(said)
        pieces = [piece for piece in answer if isinstance(piece, str)]
        whole = types.Part(text="".join(pieces))
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=3)
        for piece in pieces if stream else ():
            yield LlmResponse(content=types.ModelContent(piece), partial=True)
        parts = [whole] if pieces else answer
        yield LlmResponse(content=types.ModelContent(parts), partial=False, usage_metadata=usage)


def scripted(script: Callable[[LlmRequest], Said]) -> ScriptedModel:
    """A model with a script."""
    return ScriptedModel(script=script)


def call(name: str, **arguments: Any) -> types.Part:
    """A call of a tool."""
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


def results(request: LlmRequest) -> list[dict[str, Any]]:
    """What the tools have returned since the user's last text, oldest first."""
    parts = [part for content in request.contents for part in content.parts or ()]
    last = max((number for number, part in enumerate(parts) if part.text and not part.thought), default=-1)
    return [part.function_response.response or {} for part in parts[last + 1 :] if part.function_response]


def user_texts(request: LlmRequest) -> list[str]:
    """All texts of the user."""
    said = [part for content in request.contents if content.role == "user" for part in content.parts or ()]
    return [part.text for part in said if part.text]


speaker = LlmAgent(name="speaker", model=scripted(lambda request: ["Hello", ", ", "world", "."]))


def deploy(to: str) -> str:
    """Deploys."""
    return f"deployed to {to}"


def ask_to_deploy(request: LlmRequest) -> Said:
    done = results(request)
    return ["Deployed: ", f"{done[-1]['result']}", "."] if done else call("deploy", to="rome")


asker = LlmAgent(
    name="deployer", model=scripted(ask_to_deploy), tools=[FunctionTool(deploy, require_confirmation=True)]
)


async def wait() -> str:
    """Waits."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        STOPPED.set()
    return "never"


hanger = LlmAgent(name="hanger", model=scripted(lambda request: call("wait")), tools=[wait])


def say_file(request: LlmRequest) -> Said:
    blobs = [part.inline_data for content in request.contents for part in content.parts or () if part.inline_data]
    return [f"It says: {(blobs[0].data or b'').decode()} ", f"({blobs[0].mime_type})"]


reader = LlmAgent(name="reader", model=scripted(say_file))


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int


structured = LlmAgent(
    name="planner", model=scripted(lambda request: ['{"city": ', '"Rome", ', '"days": 3}']), output_schema=Trip
)


def fail(request: LlmRequest) -> Said:
    raise RuntimeError("secret of the framework")


failer = LlmAgent(name="failer", model=scripted(fail))

rememberer = LlmAgent(name="rememberer", model=scripted(lambda request: [", ".join(user_texts(request))]))


async def charge(amount: int) -> str:
    """Charges an amount."""
    EFFECTS.append("charged")
    return f"charged {amount}"


def work(request: LlmRequest) -> Said:
    return ["All", " done", "."] if results(request) else call("charge", amount=5)


worker = LlmAgent(name="worker", description="Charges and says so.", model=scripted(work), tools=[charge])


def pass_on(request: LlmRequest) -> Said:
    if done := results(request):
        return [f"It answered: {done[-1]['result']}"]
    return call(*request.tools_dict, message=user_texts(request)[-1])


def caller(url: str) -> LlmAgent:
    return LlmAgent(name="caller", model=scripted(pass_on), tools=[remote_tool(url)])
