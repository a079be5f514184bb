"""Names that come twice in one object of a JSON text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.json_names import SHORT, find_repeated_name


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a":1,"a":1}', "$.a"),
        ('{"a":1,"b":{},"a":2}', "$.a"),
        ('{"x": [1, {"a": {"b": 1, "c": [], "b": 2}}]}', "$.x[1].a.b"),
        (r'{"a":1,"\u0061":2}', "$.a"),
        (r'{"/":1,"\/":2}', "$./"),
        (r'{"\"":1,"\u0022":2}', '$."'),
        ('{"\u00e9":1,"\\u00e9":2}', "$.\u00e9"),
        ('{"":1,"":2}', "$."),
        ('{"n":1e400,"a":1,"a":2}', "$.a"),
        ('{"n":%s,"a":1,"a":2}' % ("9" * 5_000), "$.a"),
        ('{"n":1.50,"m":1E2,"a":1,"a":2}', "$.a"),
        ('{"t":"%s","a":1,"a":2}' % ("x" * SHORT), "$.a"),
        ('[[],[{"a":{"b":1,"b":2},"a":3}]]', "$[1][0].a"),
        ('{"a": {"x": 1, "x": 2}, "b": 3}', "$.a.x"),
    ],
    ids=lambda value: value if len(value) < 50 else "long",
)
def test_a_name_that_comes_twice_is_found(text: str, path: str) -> None:
    assert find_repeated_name(text.encode()) == path


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"a":[{"a":1},{"a":1}]},"b":"a"}',
        r'{"a":"\",\"a\":","b":"\\","c":"a"}',
        r'{"\u00e9":1,"e":2, "n" : 1.50}',
        '{"A":1,"a":2,"a ":3}',
        '{"t":"%s","a":{"t":1}}' % ("x" * SHORT),
        "1",
        '""',
        "",
        '{"a":1,"a":',
    ],
    ids=lambda value: value if len(value) < 50 else "long",
)
def test_what_names_nothing_twice_passes(text: str) -> None:
    assert find_repeated_name(text.encode()) is None


NAMES = st.sampled_from(["a", "b", "\u00e9", '"', "\\", "/", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
    max_leaves=8,
)


def write(value: Any, *, ascii: bool) -> tuple[str, bool]:
    """JSON text for a value in which tuples of pairs are objects, and whether a name comes twice in one."""
    if not isinstance(value, tuple | list):
        return json.dumps(value, ensure_ascii=ascii), False
    members = [write(pair[1] if isinstance(value, tuple) else pair, ascii=ascii) for pair in value]
    texts, is_found = [text for text, _ in members], any(found for _, found in members)
    if isinstance(value, list):
        return f"[{','.join(texts)}]", is_found
    names = [name for name, _ in value]
    inner = ", ".join(
        f"{json.dumps(name, ensure_ascii=ascii)}: {text}" for name, text in zip(names, texts, strict=True)
    )
    return f"{{{inner}}}", is_found or len(set(names)) < len(names)


@given(JSON, st.booleans(), st.booleans())
def test_it_is_found_exactly_if_it_is_there(value: object, ascii: bool, compact: bool) -> None:
    text, is_repeated = write(value, ascii=ascii)
    raw = msgspec.json.format(text.encode(), indent=-1) if compact else text.encode()
    assert (find_repeated_name(raw) is not None) == is_repeated
