"""The extension by which the card says that the same message twice is one task: callers may repeat a send safely.

There is nothing to activate: the engine does so for everybody, for `Limits.idempotency_seconds`, which the card tells.
Without this word a caller whose reply got lost cannot know whether sending again would begin a second task.
"""

from __future__ import annotations

from parley.protocol import extensions
from parley.protocol.cards import AgentExtension


def idempotent_send(seconds: float) -> AgentExtension:
    """The extension of a server that remembers a message for so long."""
    return AgentExtension(
        extensions.IDEMPOTENT_SEND,
        description="A message that is sent again, with the same id and content, gets the same task.",
        params={"seconds": seconds},
    )
