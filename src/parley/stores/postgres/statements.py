"""The statements in `queries/*.sql`, by name, and how parts are joined to one statement.

A file holds statements that begin with a line `-- name: …`. `{head}` in one stands for the columns of a task's head.
Other names in braces are filled in by the module that uses the statement; a caller's values are always parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources

from parley.stores.rows import HEAD

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"\$(\d+)")


def load_statements(file: str) -> Mapping[str, str]:
    """The statements in a file, without comments."""
    text = (resources.files("parley.stores.postgres") / "queries" / f"{file}.sql").read_text("utf-8")
    _, *parts = _NAME.split(text)
    return {
        name: _COMMENT.sub("", body).replace("{head}", HEAD).strip()
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def number_from(text: str, first: int) -> str:
    """A statement whose parameter $1 is that of another number, and so on."""
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + first - 1}", text)


def join_statements(parts: Sequence[tuple[str, str, int]], last: str) -> str:
    """One statement of parts (name, text, number of parameters), which the last one may refer to by name."""
    first, named = 1, list[str]()
    for name, text, count in parts:
        named.append(f"{name} AS ({number_from(text, first)})")
        first += count
    return f"WITH {', '.join(named)} {number_from(last, first)}"
