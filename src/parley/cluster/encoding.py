"""Hints as bytes: a MessagePack array of hints, each of them an array of texts and integers that begins with its kind.

Releases run side by side during an upgrade, so a reader ignores the kinds that it does not know. Anything else that is
not such an array is a `ValueError`, whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from parley.cluster.hints import AnyHint, Hint, HintKind, LookHint, RecordsHint
from parley.stores.interface import Owner, TaskKey

_Encoded: TypeAlias = tuple[str | int, ...]
_KINDS = {kind.value: kind for kind in HintKind}
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Encoded])


def encode(hints: Sequence[AnyHint], *, max_bytes: int) -> Iterator[bytes]:
    """Messages of at most so many bytes that hold these hints. A hint that is longer by itself is left out."""
    yield from _messages([_values(hint) for hint in hints], max_bytes)


def _messages(hints: list[_Encoded], max_bytes: int) -> Iterator[bytes]:
    message = _encoder.encode(hints)
    if len(message) <= max_bytes:
        yield message
    elif len(hints) > 1:
        middle = len(hints) // 2
        yield from _messages(hints[:middle], max_bytes)
        yield from _messages(hints[middle:], max_bytes)


def _values(hint: AnyHint) -> _Encoded:
    match hint:
        case Hint(kind=kind, key=key, seq=seq):
            return (kind.value, key.owner.tenant, key.owner.name, key.task_id, seq)
        case RecordsHint(collection=collection, tenant=tenant, id=id):
            return ("records", collection, tenant, id)
        case LookHint():
            return ("look",)


def decode(message: bytes) -> list[AnyHint]:
    """The hints of a message, without those of unknown kinds.

    Raises:
        ValueError: it is not a message of hints.
    """
    try:
        decoded = _decoder.decode(message)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    return [hint for values in decoded if (hint := _hint(values)) is not None]


def _hint(values: _Encoded) -> AnyHint | None:
    match values:
        case (str() as kind, str() as tenant, str() as owner, str() as task_id, int() as seq) if kind in _KINDS:
            return Hint(_KINDS[kind], TaskKey(Owner(tenant, owner), task_id), seq)
        case ("records", str() as collection, str() as tenant, str() as id):
            return RecordsHint(collection, tenant, id)
        case ("look",):
            return LookHint()
        case _:
            return None
