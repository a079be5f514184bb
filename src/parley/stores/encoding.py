"""How canonical values are kept: as JSON, where people may want to read them, and moments as microseconds.

JSON and not msgpack: msgspec writes both about equally fast, and JSON can be read in any database shell and searched
with its JSON functions. Bytes become base64. Only canonical values pass here, never a dialect's spelling. What is
written here is part of a store's format: a change that an earlier Parley cannot read needs a new number of the schema.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from parley.protocol.events import TaskEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Artifact, Task
from parley.stores.interface import DeadLetter, DeliveryFailure, InboxItem, StoreError

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encoder = msgspec.json.Encoder()
decode_events = msgspec.json.Decoder(list[TaskEvent]).decode
decode_task = msgspec.json.Decoder(Task).decode
decode_artifacts = msgspec.json.Decoder(tuple[Artifact, ...]).decode
decode_message = msgspec.json.Decoder(Message).decode
decode_push_config = msgspec.json.Decoder(PushConfig).decode
decode_failure = msgspec.json.Decoder(DeliveryFailure).decode
decode_dead_letters = msgspec.json.Decoder(tuple[DeadLetter, ...]).decode
decode_inbox_item = msgspec.json.Decoder(InboxItem).decode
decode_object = msgspec.json.Decoder[JsonObject](JsonObject).decode
decode_value = msgspec.json.Decoder[JsonValue](JsonValue).decode


def encode(
    value: tuple[TaskEvent, ...]
    | tuple[Artifact, ...]
    | tuple[DeadLetter, ...]
    | Task
    | Message
    | PushConfig
    | DeliveryFailure
    | InboxItem
    | JsonValue,
) -> str:
    """A value as JSON text.

    Raises:
        StoreError: it holds something that JSON cannot, such as half of a surrogate pair.
    """
    try:
        return _encoder.encode(value).decode()
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"This value cannot be kept: {error}.") from error


def encode_time(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    passed = moment - _EPOCH
    # Dividing by a microsecond takes five times as long.
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def decode_time(microseconds: int) -> datetime:
    """A moment, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def require_encodable(*texts: str) -> None:
    """Refuse names that no database can hold.

    Raises:
        StoreError: half of a surrogate pair is in one of them.
    """
    for text in texts:
        if not text.isascii():  # known without looking at the characters
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise StoreError(f"{text!a} cannot be kept: it is not valid Unicode.") from error


def require_64_bits(number: int) -> None:
    """Refuse a number that no database can hold.

    Raises:
        StoreError: it needs more than 64 bits.
    """
    if not -(2**63) <= number < 2**63:
        raise StoreError(f"{number} cannot be kept or looked for: it needs more than 64 bits.")
