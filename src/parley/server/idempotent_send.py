"""The extension by which the card says that the same message twice is one task: callers may repeat a send safely.

There is nothing to activate: the engine does so for everybody, for `Limits.idempotency_seconds`. Without
this word a caller whose reply got lost cannot know whether sending again would begin a second task.
"""

from __future__ import annotations

from parley.protocol import extensions
from parley.protocol.cards import AgentExtension

IDEMPOTENT_SEND = AgentExtension(
    extensions.IDEMPOTENT_SEND,
    description="A message that is sent again, with the same id and content, gets the same task.",
)
