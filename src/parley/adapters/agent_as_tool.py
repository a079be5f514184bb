"""A remote A2A agent as a tool of a framework: its name, its description, and one function that models can call.

The calls are those of `parley.client`: the card is found, credentials are sent, broken streams are resumed. What the
function returns is text for a model. If the agent asks something back, the text says so, and how to answer; if it fails
or cannot be reached, the text says why.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from threading import Thread
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from parley.client.client import Client, ClientArguments
from parley.client.errors import TaskFailedError
from parley.client.reply import Reply
from parley.protocol.errors import ParleyError
from parley.protocol.messages import DataPart, Message
from parley.protocol.tasks import Task

if TYPE_CHECKING:
    from parley.protocol.cards import AgentCard

NO_ID = ("", "null", "none")
"""What models write where they mean no id."""

MAX_SKILLS = 20
"""Skills of an agent that its description names: a model reads it with every request."""


class AgentAsTool:
    """A remote agent, by its URL or that of its card. Without a name and a description, its card is read for them."""

    def __init__(
        self,
        target: str,
        *,
        name: str | None = None,
        description: str | None = None,
        **client_options: Unpack[ClientArguments],
    ) -> None:
        """`client_options` are those of `parley.Client`: credentials, timeouts, guard and so on.

        Raises:
            ParleyError: the card cannot be read.
        """
        self.target = target
        self._options = client_options
        card = None if name and description else _in_thread(self._card())
        self.name = name or (card.name if card else target)
        self.description = description or (_described(card) if card else self.name)

    @property
    def tool_name(self) -> str:
        """The name in the form that all models accept: `ask_currency_agent`."""
        return "ask_" + (re.sub(r"\W+", "_", self.name, flags=re.ASCII).strip("_").lower()[:50] or "agent")

    async def ask(self, message: str, reply_to: str | None = None) -> str:
        """Send a message to the agent and get its answer.

        Args:
            message: What the agent is to do, or the answer to its question.
            reply_to: The id that came with the agent's question, if this message answers it.
        """
        try:
            return await self._exchange(message, None if (reply_to or "").lower() in NO_ID else reply_to)
        except ParleyError as error:  # for the model to read, which may try something else
            return f"The agent has not done it: {error}"

    async def _exchange(self, message: str, reply_to: str | None) -> str:
        async with Client(self.target, **self._options) as client:
            updates = [update async for update in client.stream(message, task=reply_to)]
            content = (updates[-1].task or updates[-1].event) if updates else None
            if not isinstance(content, Task | Message):
                return "The agent said nothing."
            reply = Reply(client, content)
            if reply.has_failed:
                raise TaskFailedError(reply)
            return _text_of(reply)

    async def _card(self) -> AgentCard:
        async with Client(self.target, **self._options) as client:
            return client.card


def _text_of(reply: Reply) -> str:
    """The answer as text for a model: its text, data as JSON, the names of its files, and what it asks."""
    said = [reply.text] if reply.text else []
    said += [msgspec.json.encode(part.data).decode() for part in reply.parts if isinstance(part, DataPart)]
    said += [f"[file {file.filename or 'without a name'}, {file.media_type}]" for file in reply.files]
    if reply.needs_input and reply.task is not None:
        said.append(
            f"The agent asks: {reply.question or 'for input'}\n"
            f"To answer, call this tool again with the answer as the message and reply_to={reply.task.id!r}."
        )
    return "\n".join(said) or "The agent has finished and said nothing."


def _described(card: AgentCard) -> str:
    skills = "".join(f"\n- {skill.name}: {skill.description}" for skill in card.skills[:MAX_SKILLS])
    return f"{card.description or card.name}{skills}"


def _in_thread(work: Coroutine[Any, Any, AgentCard]) -> AgentCard:
    """The result of a coroutine, also where an event loop is running already."""
    results: list[AgentCard | BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:
            results.append(error)

    thread = Thread(target=run, name="parley-card", daemon=True)
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]
