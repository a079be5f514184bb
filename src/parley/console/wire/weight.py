"""How much a value weighs, found without encoding it, so that the wire keeps no long bodies."""

from __future__ import annotations

from typing import cast

MOST_NODES = 20_000
"""Values that are looked at: some milliseconds. A value of more nodes counts as long, whatever they hold."""

NODE_BYTES = 8
"""What quotes, names and commas come to."""


def weight_of(value: object) -> int:
    """About as many bytes as the value has in JSON."""
    total = nodes = 0
    left = [value]
    while left:
        one = left.pop()
        nodes += 1
        kind = type(one)
        if kind is str or kind is bytes:
            total += len(cast(str, one))
        elif kind is tuple or kind is list:
            left.extend(cast(list[object], one))
        elif kind is dict:
            items = cast(dict[str, object], one)
            total += sum(map(len, items))
            left.extend(items.values())
        else:
            for name in getattr(kind, "__struct_fields__", ()):
                if member := getattr(one, name):  # most members are empty
                    left.append(member)
        if nodes > MOST_NODES:
            break  # what is left counts by its number alone
    return total + (nodes + len(left)) * NODE_BYTES
