"""Answers to `auth-required` in the log: encrypted, because they may be credentials.

The log, and so every reader of the task, has masks in place of the parts and of the metadata, apart from members of
Parley itself. The whole message is beside them in the metadata, encrypted for this message of this task; only the
handler that has asked gets it. In a store without a key, messages stay as they are.

An answer that another host has encrypted cannot be read here. So it is left out of what moves between hosts, which
leaves the masks and a note: the handler that has asked asks again, instead of taking the masks for the answer. So it
does where the key is lost: the operator then marks what it encrypted as unreadable, as docs/secrets.md says.
"""

from __future__ import annotations

from msgspec import structs

from parley.protocol.events import MessageAdded, TaskEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.masking import MASK, SEALED_MESSAGE, without_sealed_message
from parley.protocol.messages import SKILL_KEY, Message, TextPart
from parley.sealed.sealer import Sealer, key_of
from parley.stores.encoding import decode_message, encode
from parley.stores.interface import TaskKey

_OWN = "urn:parley:"
"""Begins the names of metadata that Parley itself reads in the log. Credentials in them were taken out before."""

_LEFT_OUT = "left out"
"""Stands for the encrypted message where it was left out."""


def _is_own(name: str) -> bool:
    return name.startswith(_OWN) or name == SKILL_KEY


def masked_answer(message: Message) -> Message:
    """An answer as readers may see it: without its parts and its metadata, apart from members of Parley itself."""
    metadata: JsonObject = {name: value if _is_own(name) else MASK for name, value in message.metadata.items()}
    return structs.replace(message, parts=(TextPart(MASK),), metadata=metadata)


def seal_answer(sealer: Sealer, key: TaskKey, message: Message) -> Message:
    """A message as the log has it. Raises StoreError if it holds what cannot be kept."""
    if sealer.current is None:
        return message
    sealed = sealer.seal(encode(message), *_place(key, message))
    shown = masked_answer(message)
    return structs.replace(shown, metadata={**shown.metadata, SEALED_MESSAGE: sealed})


def open_answer(sealer: Sealer, key: TaskKey, message: Message) -> Message:
    """A message of the log as it was sent, unless it `is_left_out`. Raises SecretError."""
    sealed = message.metadata.get(SEALED_MESSAGE)
    if not isinstance(sealed, str):
        return message
    return decode_message(sealer.open(sealed, *_place(key, message)))


def readable_event(event: TaskEvent) -> TaskEvent:
    """An event of the log as readers may see it: with the masks, and without what is encrypted beside them."""
    if not isinstance(event, MessageAdded) or SEALED_MESSAGE not in event.message.metadata:
        return event
    return structs.replace(event, message=without_sealed_message(event.message))


def movable_event(event: TaskEvent) -> TaskEvent:
    """An event of the log as another host may have it: with the masks, and a note that the answer was left out."""
    if not isinstance(event, MessageAdded) or SEALED_MESSAGE not in event.message.metadata:
        return event
    metadata: JsonObject = {**event.message.metadata, SEALED_MESSAGE: _LEFT_OUT}
    return structs.replace(event, message=structs.replace(event.message, metadata=metadata))


def is_left_out(message: Message) -> bool:
    """Whether a message of the log has nothing but masks: it was sent at another host, or its key is lost for good."""
    sealed = message.metadata.get(SEALED_MESSAGE)
    return isinstance(sealed, str) and key_of(sealed) is None


def _place(key: TaskKey, message: Message) -> tuple[str, ...]:
    return "answer", key.owner.tenant, key.task_id, message.message_id or ""
