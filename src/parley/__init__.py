"""Parley: a durable Agent2Agent (A2A) runtime and toolkit.

Importing it does nothing but define names. The layers, from the ground up: `protocol` (what A2A says), `dialects` (how
each release spells it), `wire` (how bytes carry it), `stores` (where tasks are kept), `engine` (what happens over
time), `agents` (what authors write). ARCHITECTURE.md has the picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.agents.agent import Agent
from parley.agents.authorization import Authorized, OAuthCode
from parley.agents.delegation.result import DelegateFailedError, DelegateResult
from parley.agents.files import ReceivedFile
from parley.agents.handlers import HandlerResult
from parley.agents.retries import StepTimeoutError
from parley.agents.turn import ReceivedMessage, Turn
from parley.contents import Content, File
from parley.engine.program import Recovery
from parley.protocol.jsonvalue import JsonValue

if TYPE_CHECKING:
    from typing import Unpack

    from parley.client.client import Client, ClientArguments

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Authorized",
    "Client",
    "Content",
    "DelegateFailedError",
    "DelegateResult",
    "File",
    "HandlerResult",
    "JsonValue",
    "OAuthCode",
    "ReceivedFile",
    "ReceivedMessage",
    "Recovery",
    "StepTimeoutError",
    "Turn",
    "__version__",
    "ask",
]


if not TYPE_CHECKING:  # type checkers know the name from above, and that there are no others

    def __getattr__(name: str) -> object:
        if name != "Client":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from parley.client.client import Client  # not above: an agent that calls no other needs no HTTP client

        return Client


def __dir__() -> list[str]:
    return __all__


async def ask(url: str, *contents: Content, **options: Unpack[ClientArguments]) -> str:
    """Ask an agent something and get its text, or what it asks back: `await parley.ask(url, "100 USD in EUR")`.

    `options` are those of `Client`. Who must know a question from an answer uses a `Client`.

    Raises:
        TaskFailedError: the agent has not done it; the message says why.
    """
    from parley.client.client import ask as ask_agent

    return await ask_agent(url, *contents, **options)
