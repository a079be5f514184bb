"""Agents of the OpenAI Agents SDK for the shared set, with models that follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from threading import Event
from typing import Any

from agents.testing import assistant_message, function_call
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent, ResponseUsage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from parley.adapters.openai_agents import remote_tool

set_tracing_disabled(True)

ANSWER = "yes"
ANSWERED = "Deployed: deployed to rome."
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
CARD = ("Worker", "Charges and says so.", ["charge"])

Call = tuple[str, dict[str, Any]]
Script = Callable[[list[Any], list[Any]], Iterable[str | Call]]
"""Takes the input items and the tools. A text is a piece of the message, and the name and arguments a tool call."""


def response_with(output: list[Any], *, number: int) -> Response:
    """A response of a model, with some usage."""
    return Response(
        id=f"response-{number}",
        created_at=0,
        model="scripted",
        object="response",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage(
            input_tokens=10,
            output_tokens=5,
            total_tokens=15,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        ),
    )


class ScriptedModel(Model):
    """A model that says and calls what its script yields. `calls` counts how often it was asked."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.calls = 0

    async def stream_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *rest: Any, **more: Any
    ) -> AsyncIterator[Any]:
        self.calls += 1
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        text, calls = "", list[Call]()
        for piece in self._script(items, tools):
            if isinstance(piece, str):
                text += piece
                yield ResponseTextDeltaEvent(
                    content_index=0,
                    delta=piece,
                    item_id="message",
                    logprobs=[],
                    output_index=0,
                    sequence_number=0,
                    type="response.output_text.delta",
                )
            else:
                calls.append(piece)
        before = sum(1 for item in items if item.get("type") == "function_call")
        output = [assistant_message(text)] if text else []
        output += [function_call(*call, call_id=f"{call[0]}-{before + n}") for n, call in enumerate(calls, start=1)]
        response = response_with(output, number=self.calls)
        yield ResponseCompletedEvent(response=response, sequence_number=1, type="response.completed")

    async def get_response(self, *arguments: Any, **options: Any) -> ModelResponse:
        events = [event async for event in self.stream_response(*arguments, **options)]
        return ModelResponse(output=events[-1].response.output, usage=Usage(), response_id=None)


def user_texts(items: list[Any]) -> list[str]:
    """All texts of the user."""
    contents = [item["content"] for item in items if item.get("role") == "user"]
    parts = [part for content in contents for part in ([content] if isinstance(content, str) else content)]
    return [
        part if isinstance(part, str) else part["text"] for part in parts if isinstance(part, str) or "text" in part
    ]


def tool_results(items: list[Any]) -> list[Any]:
    """What tools returned since the user's last message, without handoffs."""
    last = max(number for number, item in enumerate(items) if item.get("role") == "user")
    outputs = [item["output"] for item in items[last:] if item.get("type") == "function_call_output"]
    return [output for output in outputs if not str(output).startswith('{"assistant":')]


def agent(name: str, script: Script, **options: Any) -> Agent[Any]:
    return Agent(name, model=ScriptedModel(script), **options)


def speak(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    yield from ("Hello", ", ", "world", ".")


speaker = agent("Speaker", speak)


def ask_to_deploy(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    if results := tool_results(items):
        yield from (f"Deployed: {results[0]}", ".")
    else:
        yield "deploy", {"to": "rome"}


@function_tool(needs_approval=True)
def deploy(to: str) -> str:
    """Deploys."""
    return f"deployed to {to}"


asker = agent("Deployer", ask_to_deploy, tools=[deploy])


def call_wait(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    yield "wait", {}


@function_tool
async def wait() -> str:
    """Waits."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        STOPPED.set()
    return "never"


hanger = agent("Hanger", call_wait, tools=[wait])


def say_file(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    yield f"It says: {user_texts(items)[-1]}"


reader = agent("Reader", say_file)


class Trip(BaseModel):
    city: str
    days: int


def plan(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    yield from ('{"city": "Rome", ', '"days": 3}')


structured = agent("Planner", plan, output_type=Trip)


def fail(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    raise RuntimeError("secret of the framework")


failer = agent("Failer", fail)


def recall(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    yield ", ".join(user_texts(items))


rememberer = agent("Rememberer", recall)


def work(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    if tool_results(items):
        yield from ("All", " done", ".")
    else:
        yield "charge", {"amount": 5}


@function_tool
async def charge(amount: int) -> str:
    """Charges an amount."""
    EFFECTS.append("charged")
    return f"charged {amount}"


worker = agent("Worker", work, tools=[charge], handoff_description="Charges and says so.")


def pass_on(items: list[Any], tools: list[Any]) -> Iterator[str | Call]:
    if results := tool_results(items):
        yield f"It answered: {results[0]}"
    else:
        yield tools[0].name, {"message": user_texts(items)[-1], "reply_to": None}


def caller(url: str) -> Agent[Any]:
    return agent("Caller", pass_on, tools=[remote_tool(url)])
