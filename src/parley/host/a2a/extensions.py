"""The extensions that every agent of a host has, as its card declares them. Callers need not activate them."""

from __future__ import annotations

from parley.host.priorities import LEVELS, MOST
from parley.host.when_busy import WhenBusy
from parley.protocol.cards import AgentExtension
from parley.protocol.extensions import PRIORITY, WHEN_BUSY

HOST_EXTENSIONS = (
    AgentExtension(
        WHEN_BUSY,
        description=(
            "The metadata of a message says what becomes of it while its task, or another task of its context, is at "
            "work: it waits, it interrupts the work, or it is refused."
        ),
        params={"values": [choice.value for choice in WhenBusy]},
    ),
    AgentExtension(
        PRIORITY,
        description="The metadata of a message says how urgent it is among the messages of the caller's tenant.",
        params={"values": [*LEVELS], "most": MOST},
    ),
)
