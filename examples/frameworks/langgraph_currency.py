"""Currency conversion with LangGraph: a model with tools, which asks for what is missing and streams its answer.

    pip install . langchain langgraph
    parley serve examples/frameworks/langgraph_currency.py

Say "How much is 100 USD in EUR?"; or say "How much is 100 USD?" and be asked; then, in the same conversation, say
"And in JPY?". It runs on a real model if GOOGLE_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY is set, which needs
LangChain's package for it, such as langchain-google-genai, else on a model with a script. Nothing here knows of A2A.
"""

import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.types import interrupt

PER_DOLLAR = {"USD": 1.0, "EUR": 0.92, "GBP": 0.79, "INR": 83.0, "JPY": 150.0}

MODELS = {
    "GOOGLE_API_KEY": "google_genai:gemini-2.5-flash",
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
}


@tool
def get_exchange_rate(currency_from: str, currency_to: str) -> float:
    """Looks up what one unit of a currency is worth in another one. Imagine a slow, paid service here."""
    return PER_DOLLAR[currency_to] / PER_DOLLAR[currency_from]


@tool
def ask_user(question: str) -> str:
    """Asks the user for what is missing, such as the currency to convert to."""
    return interrupt(question)


class ScriptedConverter(BaseChatModel):
    """A model for trying it out: asks for the missing currency, looks the rate up, and says what comes out."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, Any]:
        return self

    def _chunks(self, messages: list[BaseMessage]) -> list[AIMessageChunk]:
        said = [message for message in messages if isinstance(message, HumanMessage) or message.name == ask_user.name]
        text = " ".join(str(message.text) for message in said).upper()
        amounts = list(re.finditer(r"(\d+(?:\.\d+)?) *([A-Z]{3})\b", text))
        if not amounts:
            return _words("I convert money, and nothing else. Ask me how much 100 USD is in EUR.")
        amount, source = float(amounts[-1][1]), amounts[-1][2]
        targets = re.findall(r"\b(?:IN|TO) ([A-Z]{3})\b", text[amounts[-1].end() :])
        if not targets:
            return [_call(ask_user.name, question="To which currency would you like to convert?")]
        if unknown := {source, targets[-1]} - PER_DOLLAR.keys():
            return _words(f"I do not know {', '.join(sorted(unknown))}.")
        last = messages[-1]
        if not isinstance(last, ToolMessage) or last.name == ask_user.name:
            return [_call(get_exchange_rate.name, currency_from=source, currency_to=targets[-1])]
        return _words(f"{amount:g} {source} is {amount * float(str(last.text)):.2f} {targets[-1]}.")

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages):
            yield ChatGenerationChunk(message=chunk)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        first, *others = self._chunks(messages)
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(sum(others, first)))])


def _words(text: str) -> list[AIMessageChunk]:
    return [AIMessageChunk(word) for word in re.findall(r"\S+\s*", text)]


def _call(name: str, **arguments: str) -> AIMessageChunk:
    call: Any = {
        "name": name,
        "args": json.dumps(arguments),
        "id": f"call-{name}",
        "index": 0,
        "type": "tool_call_chunk",
    }
    return AIMessageChunk("", tool_call_chunks=[call])


def model() -> BaseChatModel:
    """The model of the first key that is set, or the one with the script."""
    for variable, name in MODELS.items():
        if os.environ.get(variable):
            from langchain.chat_models import init_chat_model  # not above: it is not needed for the script

            return init_chat_model(name)
    return ScriptedConverter()


agent = create_agent(
    model(),
    [get_exchange_rate, ask_user],
    name="Currency",
    system_prompt=(
        "You convert money from one currency into another, and do nothing else. Look every rate up with "
        "get_exchange_rate; never invent one. If a currency or the amount is missing, ask for it with ask_user. "
        "Answer in one short sentence."
    ),
)
