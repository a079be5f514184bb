"""What a model is: something that continues a conversation, piece by piece.

A request holds the prompt as text, which is all that the models of providers read. The built-in models read the agents
and the results of commands instead, so that they need not parse text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject


class TokenUsage(Struct, frozen=True, omit_defaults=True):
    """The tokens of one model call. It is the last piece of every stream."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0


Piece: TypeAlias = str | TokenUsage
"""Some text, or the tokens of the call."""


class ModelMessage(Struct, frozen=True):
    """One message of the conversation with a model."""

    role: Literal["user", "assistant"]
    text: str


class RosterEntry(Struct, frozen=True):
    """An agent that may be called, as the model is told of it."""

    id: str
    name: str
    description: str
    skills: tuple[str, ...] = ()
    """The names, descriptions and tags of its skills."""
    examples: tuple[str, ...] = ()
    is_remote: bool = False
    """Whether it is called with `/a2a call` instead of `/agent`."""


class CommandResult(Struct, frozen=True):
    """What a command of the model's last reply came to."""

    name: str
    """The command without its slash: `agent`, `fetch`."""
    args: str
    body: str
    """The result without its frame; for a sub-agent, what it answered."""
    ok: bool


class ModelTool(Struct, frozen=True):
    """A function that a model may call in place of writing a command. Models that cannot call functions ignore it."""

    name: str
    """1 to 64 letters, digits, hyphens and underscores."""
    description: str
    parameters: JsonObject
    """The JSON Schema of its arguments, which are an object."""
    command: str
    """The command that a call means, without the arguments, which follow it as JSON: `/mcp call time get_time`."""


class ModelRequest(Struct, frozen=True):
    """What a model is asked to continue."""

    agent_id: str
    system: str
    messages: tuple[ModelMessage, ...]
    """The conversation, oldest first. The last message is the user's, or the results of commands."""
    query: str
    """What the user wants, without anything that the host put before it."""
    roster: tuple[RosterEntry, ...] = ()
    results: tuple[CommandResult, ...] = ()
    """The results of all commands of this turn, in order; empty in the first call."""
    last_results: int = 0
    """How many of them belong to the model's last reply."""
    max_tokens: int = 1024
    temperature: float = 0.3
    tools: tuple[ModelTool, ...] = ()
    """The functions that the model may call. A call becomes its command in the text."""


class ModelFailure(StrEnum):
    """Why a model gave no answer. The values are the error codes of the native API."""

    AUTH_FAILED = "auth_failed"
    RATE_LIMITED = "rate_limited"
    INVALID_REQUEST = "invalid_request"
    NOT_FOUND = "not_found"
    REQUEST_TOO_LARGE = "request_too_large"
    PROVIDER_ERROR = "provider_error"
    CIRCUIT_OPEN = "circuit_open"


class ModelError(ParleyError):
    """A model gave no answer. `kind` says why; the message names no secret and may be shown to callers."""

    def __init__(self, message: str, kind: ModelFailure = ModelFailure.PROVIDER_ERROR) -> None:
        super().__init__(message)
        self.kind = kind


class Model(Protocol):
    """A language model."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Text as it comes, and in the end the tokens of the call.

        Raises, also in the middle:
            ModelError: there is no answer, or no more of it.
        """
        ...
