"""Agents of Microsoft Agent Framework for the shared set, with chat clients that follow a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from threading import Event
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)
from pydantic import BaseModel

from parley.adapters.agent_framework import remote_tool

ANSWER = "yes"
ANSWERED = "Deployed: deployed to rome."
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
CARD = ("Worker", "Charges and says so.", ["charge"])

Call = tuple[str, dict[str, Any]]
Script = Callable[[list[Message], list[Any]], Iterable[str | Call]]
"""Takes the messages and the tools. A text is a piece of the answer, and a name with arguments a tool call."""


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A chat client that says and calls what its script yields. `calls` counts how often it was asked."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script
        self.calls = 0

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        updates = self._updates(list(messages), list(options.get("tools") or []))
        if stream:
            return ResponseStream(updates, finalizer=self._finalize_response_updates)

        async def whole() -> ChatResponse[Any]:
            return ChatResponse.from_updates([update async for update in updates])

        return whole()

    async def _updates(self, messages: list[Message], tools: list[Any]) -> AsyncIterator[ChatResponseUpdate]:
        self.calls += 1
        earlier = sum(content.type == "function_call" for message in messages for content in message.contents)
        for number, piece in enumerate(self._script(messages, tools), start=earlier + 1):
            if isinstance(piece, str):
                content = Content.from_text(piece)
            else:
                name, arguments = piece
                content = Content.from_function_call(f"{name}-{number}", name, arguments=json.dumps(arguments))
            yield ChatResponseUpdate(contents=[content], role="assistant", message_id=f"message-{earlier}")
        usage = Content.from_usage({"input_token_count": 10, "output_token_count": 5})
        yield ChatResponseUpdate(contents=[usage], role="assistant", message_id=f"message-{earlier}")


def user_texts(messages: list[Message]) -> list[str]:
    """All texts of the user."""
    contents = [content for message in messages if message.role == "user" for content in message.contents]
    return [content.text for content in contents if content.type == "text" and content.text]


def tool_results(messages: list[Message]) -> list[Any]:
    """What tools returned since the user's last text."""
    last = max(number for number, message in enumerate(messages) if message.role == "user" and message.text)
    contents = [content for message in messages[last:] for content in message.contents]
    return [content.result for content in contents if content.type == "function_result"]


def agent(name: str, script: Script, **options: Any) -> Agent:
    return Agent(ScriptedClient(script), name=name, **options)


def speak(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    yield from ("Hello", ", ", "world", ".")


speaker = agent("Speaker", speak)


def ask_to_deploy(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    if results := tool_results(messages):
        yield from (f"Deployed: {results[0]}", ".")
    else:
        yield "deploy", {"to": "rome"}


@tool(approval_mode="always_require")
def deploy(to: str) -> str:
    """Deploys."""
    return f"deployed to {to}"


asker = agent("Deployer", ask_to_deploy, tools=[deploy])


def call_wait(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    yield "wait", {}


@tool(approval_mode="never_require")
async def wait() -> str:
    """Waits."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    finally:
        STOPPED.set()
    return "never"


hanger = agent("Hanger", call_wait, tools=[wait])


def say_file(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    yield f"It says: {user_texts(messages)[-1]}"


reader = agent("Reader", say_file)


class Trip(BaseModel):
    city: str
    days: int


def plan(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    yield from ('{"city": "Rome", ', '"days": 3}')


structured = agent("Planner", plan, default_options={"response_format": Trip})


def fail(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    raise RuntimeError("secret of the framework")


failer = agent("Failer", fail)


def recall(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    yield ", ".join(user_texts(messages))


rememberer = agent("Rememberer", recall)


def work(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    if tool_results(messages):
        yield from ("All", " done", ".")
    else:
        yield "charge", {"amount": 5}


@tool(approval_mode="never_require")
async def charge(amount: int) -> str:
    """Charges an amount."""
    EFFECTS.append("charged")
    return f"charged {amount}"


worker = agent("Worker", work, tools=[charge], description="Charges and says so.")


def pass_on(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
    if results := tool_results(messages):
        yield f"It answered: {results[0]}"
    else:
        yield tools[0].name, {"message": user_texts(messages)[-1]}


def caller(url: str) -> Agent:
    return agent("Caller", pass_on, tools=[remote_tool(url)])
