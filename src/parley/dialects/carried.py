"""Values that a dialect has no member for, and how `metadata` carries them.

The keys below are the whole list; `docs/losses.md` says which dialect uses which. A carried value of the wrong type is
left where it is: it is then ordinary metadata. Rule: `unpack(pack(metadata, …))` gives back both, unless the
metadata used one of the keys itself.
"""

from __future__ import annotations

from msgspec import structs

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Message, Part

MEDIA_TYPE = "parley.mediaType"
"""The media type of a text or data part, before 1.0."""
FILENAME = "parley.filename"
"""The file name of a text or data part, before 1.0."""
REFERENCE_TASK_IDS = "parley.referenceTaskIds"
"""The tasks a message refers to, in 0.1 and in the protobuf of 0.3."""
EXTENSIONS = "parley.extensions"
"""The extensions of a message or an artifact, in 0.1."""
MESSAGE_ID = "parley.messageId"
"""A message's id, in 0.1."""
ARTIFACT_ID = "parley.artifactId"
"""An artifact's id, in 0.1."""
STATE = "parley.state"
"""A task state that 0.1 does not have: `rejected` or `auth-required`."""
DATA_VALUE = "data_part_compat"
"""Marks a data part whose content is `{"value": X}` because X is not an object; a2a-sdk's own convention before 1.0."""


def pack(metadata: JsonObject, values: JsonObject) -> JsonObject:
    """The metadata with these values added under the keys above, empty ones left out."""
    carried = {key: value for key, value in values.items() if value}
    return {**metadata, **carried} if carried else metadata


def unpack_text(metadata: JsonObject, key: str) -> tuple[str | None, JsonObject]:
    """A carried string, and the metadata without it."""
    value = metadata.get(key)
    if not isinstance(value, str) or not value:
        return None, metadata
    return value, _without(metadata, key)


def unpack_texts(metadata: JsonObject, key: str) -> tuple[tuple[str, ...], JsonObject]:
    """A carried list of strings, and the metadata without it."""
    value = metadata.get(key)
    if not isinstance(value, list) or not value:
        return (), metadata
    texts = [item for item in value if isinstance(item, str)]
    return (tuple(texts), _without(metadata, key)) if len(texts) == len(value) else ((), metadata)


def pack_part(part: Part) -> JsonObject:
    """The metadata of a text or data part before 1.0, where such parts have neither media type nor file name."""
    if part.media_type or part.filename:
        return pack(part.metadata, {MEDIA_TYPE: part.media_type, FILENAME: part.filename})
    return part.metadata


def unpack_part(metadata: JsonObject) -> tuple[str | None, str | None, JsonObject]:
    """What `pack_part` added: media type, file name, and the metadata without them."""
    if not metadata:
        return None, None, metadata
    media_type, metadata = unpack_text(metadata, MEDIA_TYPE)
    filename, metadata = unpack_text(metadata, FILENAME)
    return media_type, filename, metadata


def pack_references(message: Message) -> Message:
    """The message with the tasks that it refers to in its metadata."""
    if not message.reference_task_ids:
        return message
    metadata = pack(message.metadata, {REFERENCE_TASK_IDS: list(message.reference_task_ids)})
    return structs.replace(message, metadata=metadata, reference_task_ids=())


def unpack_references(message: Message) -> Message:
    """The message that `pack_references` changed."""
    if REFERENCE_TASK_IDS not in message.metadata:
        return message
    references, metadata = unpack_texts(message.metadata, REFERENCE_TASK_IDS)
    return structs.replace(message, metadata=metadata, reference_task_ids=references) if references else message


def wrap_data(part: DataPart) -> tuple[JsonObject, JsonObject]:
    """A data part's content as the object that dialects before 1.0 require, and the metadata that marks it."""
    metadata = pack_part(part)
    if isinstance(part.data, dict):
        return part.data, metadata
    return {"value": part.data}, {**metadata, DATA_VALUE: True}


def unwrap_data(data: JsonObject, metadata: JsonObject) -> DataPart:
    """The data part that `wrap_data` took apart."""
    content: JsonValue = data
    if metadata.get(DATA_VALUE) is True and data.keys() == {"value"}:
        content, metadata = data["value"], _without(metadata, DATA_VALUE)
    media_type, filename, metadata = unpack_part(metadata)
    return DataPart(content, media_type, filename, metadata)


def _without(metadata: JsonObject, key: str) -> JsonObject:
    return {name: value for name, value in metadata.items() if name != key}
