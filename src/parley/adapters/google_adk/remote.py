"""A remote A2A agent as a sub-agent of google-adk: what it says is streamed, and what it asks is a question of ADK.

It is told the last text in the session that is not its own: the user's message, or what the agent before it in a
sequence said. Its task and its context are in the state of the session, so that answers and later messages find them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic import Field

from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.google_adk.parts import UNKNOWN_TYPE, text_of_event
from parley.adapters.google_adk.questions import INPUT
from parley.client.client import Client
from parley.client.errors import TaskFailedError
from parley.client.reply import Reply, Update
from parley.forms.fields import SCHEMA_TYPE
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, Message, RawPart, UrlPart
from parley.protocol.tasks import Task


def remote_agent(
    target: str, *, name: str | None = None, description: str | None = None, **client_options: Any
) -> BaseAgent:
    """A remote A2A agent as a sub-agent: `LlmAgent(…, sub_agents=[remote_agent("https://…")])`.

    Without a name and a description, its card is read for them. `client_options` are those of `parley.Client`.

    Raises:
        ParleyError: the card cannot be read.
    """
    remote = AgentAsTool(target, name=name, description=description, **client_options)
    name = remote.tool_name.removeprefix("ask_")
    return RemoteSubAgent(name=name, description=remote.description, target=target, client_options=client_options)


class RemoteSubAgent(BaseAgent):
    """A remote agent; `remote_agent` makes it."""

    target: str
    client_options: dict[str, Any] = Field(repr=False)  # credentials may be among them

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        key = f"a2a:{self.name}"
        before: dict[str, Any] = ctx.session.state.get(key) or {}
        answer = _answer(ctx.session.events, self.name) if "task" in before else None
        if answer is None:  # a message to a task that waits for nothing would be refused
            before = {"context": before.get("context")}
        message = _last_text(ctx.session.events, self.name) if answer is None else answer
        base: dict[str, Any] = {"invocation_id": ctx.invocation_id, "author": self.name, "branch": ctx.branch}
        streamed, last = "", None
        async with Client(self.target, **self.client_options) as client:
            async for last in client.stream(message, task=before.get("task"), context=before.get("context")):
                # A task that is continued begins with what it has said already.
                if text := last.text[before.get("text", 0) :] if isinstance(last.event, Task) else last.text:
                    streamed += text
                    yield Event(**base, partial=True, content=types.ModelContent(text))
            reply = _reply(client, last)
        after: dict[str, Any] = {"context": reply.content.context_id}
        if reply.needs_input and reply.task is not None:
            after |= {"task": reply.task.id, "text": len(reply.text), "parts": len(_others(reply))}
        actions = EventActions(state_delta={key: after})
        text = streamed or reply.text[before.get("text", 0) :]
        if parts := [*([types.Part(text=text)] if text else []), *_others(reply)[before.get("parts", 0) :]]:
            yield Event(**base, partial=False, content=types.ModelContent(parts), actions=actions)
        if "task" in after:
            call = types.FunctionCall(id=str(uuid4()), name=INPUT, args=_question(reply))
            content = types.ModelContent([types.Part(function_call=call)])
            yield Event(**base, content=content, long_running_tool_ids={str(call.id)}, actions=actions)


def _reply(client: Client, last: Update | None) -> Reply:
    """The answer at the end of a stream. Raises TaskFailedError."""
    content = (last.task or last.event) if last is not None else None
    if not isinstance(content, Task | Message):
        raise RuntimeError("The remote agent said nothing")
    reply = Reply(client, content)
    if reply.has_failed:
        raise TaskFailedError(reply)
    return reply


def _others(reply: Reply) -> list[types.Part]:
    """What is not text in an answer: data as JSON, and files."""
    parts: list[types.Part] = []
    for part in reply.parts:
        match part:
            case DataPart():
                parts.append(types.Part(text=msgspec.json.encode(part.data).decode()))
            case RawPart():
                parts.append(types.Part.from_bytes(data=part.raw, mime_type=part.media_type or UNKNOWN_TYPE))
            case UrlPart():
                parts.append(types.Part.from_uri(file_uri=part.url, mime_type=part.media_type or UNKNOWN_TYPE))
            case _:
                pass
    return parts


def _question(reply: Reply) -> dict[str, Any]:
    parts = reply.message.parts if reply.message else ()
    form = next((part.data for part in parts if isinstance(part, DataPart) and part.media_type == SCHEMA_TYPE), None)
    return {"message": reply.question, "response_schema": form}


def _answer(events: Sequence[Event], author: str) -> JsonValue | dict[str, Any]:
    """The response to the agent's last question."""
    asked = [call.id for event in events if event.author == author for call in event.get_function_calls()]
    for event in reversed(events) if asked else ():
        for response in event.get_function_responses():
            if response.id == asked[-1]:
                fields = response.response or {}
                return fields["result"] if list(fields) == ["result"] else fields
    return None


def _last_text(events: Sequence[Event], author: str) -> str:
    return next((text for event in reversed(events) if event.author != author and (text := text_of_event(event))), "")
