"""What becomes of a message that comes while its task, or another task of its conversation, is at work.

`queue`: the message waits, and nothing is lost. `interrupt`: the work is cancelled, and the agent begins with the
message at once. `refuse`: the caller gets an error that names the task, and nothing changes. A message may say it
itself; otherwise its agent decides.
"""

from __future__ import annotations

from enum import StrEnum

from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import WHEN_BUSY
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message


class WhenBusy(StrEnum):
    """What to do with a message while there is other work."""

    QUEUE = "queue"
    INTERRUPT = "interrupt"
    REFUSE = "refuse"


def when_busy_of(message: Message, default: WhenBusy) -> WhenBusy:
    """What a message wants, or else what its agent does by default.

    Raises:
        InvalidParamsError: the message wants something unknown.
    """
    wanted = message.metadata.get(WHEN_BUSY)
    if wanted is None:
        return default
    if not isinstance(wanted, str) or wanted not in set(WhenBusy):
        choices = ", ".join(f"'{choice}'" for choice in WhenBusy)
        raise InvalidParamsError(f"Must be one of: {choices}", path=f"$.message.metadata['{WHEN_BUSY}']")
    return WhenBusy(wanted)


def when_busy_metadata(when_busy: WhenBusy | None) -> JsonObject:
    """The metadata of a message that wants this; empty if it leaves it to its agent."""
    return {} if when_busy is None else {WHEN_BUSY: when_busy.value}
