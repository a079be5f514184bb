"""The extension that declares in the card that a repeated message does not create a second task.

Callers need not activate it: the engine does this for all, for `Limits.idempotency_seconds`, which the card states.
Without it, a caller whose reply was lost cannot know whether it is safe to send the message again.
"""

from __future__ import annotations

from parley.protocol import extensions
from parley.protocol.cards import AgentExtension


def idempotent_send(seconds: float) -> AgentExtension:
    """The extension of a server that recognizes a repeated message for this many seconds."""
    return AgentExtension(
        extensions.IDEMPOTENT_SEND,
        description="A message that is sent again, with the same id and content, gets the same task.",
        params={"seconds": seconds, "header": "Idempotency-Key"},
    )
