"""`${NAME}` in a configured text stands for a secret, which is looked up when it is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from parley.protocol.errors import ParleyError

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class PlaceholderError(ParleyError):
    """A placeholder cannot be replaced: its variable is not set, or its name is not valid."""


def placeholders(text: str) -> list[str]:
    """The names in a text, in their order. Raises PlaceholderError if one is not the name of a variable."""
    names = _PLACEHOLDER.findall(text)
    for name in names:
        if not _NAME.fullmatch(name):
            raise PlaceholderError("A placeholder is written ${NAME}, with letters, digits and underscores")
    return names


def expand(text: str, environment: Mapping[str, str], *, prefix: str = "") -> tuple[str, tuple[str, ...]]:
    """The text with its placeholders replaced, and the secrets that this took. `prefix` begins each variable's name.

    Raises:
        PlaceholderError: a variable is not set or empty; the message names it.
    """
    secrets: list[str] = []
    for name in placeholders(text):
        value = environment.get(f"{prefix}{name}")
        if not value:
            raise PlaceholderError(f"The environment variable {prefix}{name} is not set")
        secrets.append(value)
    values = iter(secrets)
    return _PLACEHOLDER.sub(lambda _: next(values), text), tuple(secrets)
