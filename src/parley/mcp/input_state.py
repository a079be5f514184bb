"""What a client of 2026-07-28 hands back when it calls again with the answer to a question: the task and the question.

It is not sealed: a caller of the tool may name any task in its arguments anyway, and the agent decides whose task that
is. So it stays valid when the server is restarted.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from parley.mcp.arguments import InvalidArgumentError
from parley.mcp.tools import MAX_ID


class InputState(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A question that waits for an answer."""

    task_id: Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
    question_id: Annotated[str, Meta(max_length=MAX_ID)]

    @property
    def text(self) -> str:
        """The state as the client gets it."""
        return msgspec.json.encode(self).decode()


_decoder = msgspec.json.Decoder(InputState)


def read_state(text: str) -> InputState:
    """The state that a client hands back. Raises InvalidArgumentError."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise InvalidArgumentError("$.params.requestState", "is not one that this server has given") from None
