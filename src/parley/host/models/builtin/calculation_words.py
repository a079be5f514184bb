"""Calculations in words: from "sum of 3, 4 and 5", "15% of 80" or "add 5 to 7" to expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from parley.host.models.builtin.number_text import NUMBER

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

FUNCTION_NAMES: Mapping[str, str] = {
    "sum": "sum",
    "total": "sum",
    "add": "sum",
    "average": "mean",
    "mean": "mean",
    "median": "median",
    "product": "product",
    "multiply": "product",
    "minimum": "min",
    "smallest": "min",
    "lowest": "min",
    "min": "min",
    "maximum": "max",
    "largest": "max",
    "highest": "max",
    "biggest": "max",
    "max": "max",
}
"""The function of an expression for each word that is followed by a list of numbers."""


def spoken_order(text: str) -> str:
    """What an order asks to calculate: `add 5 to 7` → `7 + 5`. Other texts stay as they are."""
    for pattern, template in _ORDERS:
        found = pattern.fullmatch(text)
        if found is not None:
            return template.format(**{name: _operand(part) for name, part in found.groupdict().items()})
    return text


def _operand(text: str) -> str:
    return text if re.fullmatch(rf"-?{NUMBER}%?", text) else f"({text})"


_ORDERS = [
    (re.compile(pattern, re.IGNORECASE), template)
    for pattern, template in (
        (r"add (?P<a>.+?) to (?P<b>.+)", "{b} + {a}"),
        (r"increase (?P<a>.+?) by (?P<b>.+)", "{a} + {b}"),
        (r"(?:subtract|take|deduct) (?P<a>.+?) from (?P<b>.+)", "{b} - {a}"),
        (r"(?:decrease|reduce) (?P<a>.+?) by (?P<b>.+)", "{a} - {b}"),
        (r"multiply (?P<a>.+?) (?:by|with) (?P<b>.+)", "{a} * {b}"),
        (r"divide (?P<a>.+?) by (?P<b>.+)", "{a} / {b}"),
        (r"(?:double|twice) (?P<a>.+)", "2 * {a}"),
        (r"triple (?P<a>.+)", "3 * {a}"),
        (r"(?:halve|half of|half) (?P<a>.+)", "{a} / 2"),
    )
]


def to_expression(text: str) -> str:
    """The text with words and signs replaced by the operators and functions of expressions."""
    text = text.lower()
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


def _call(name: str, items: str) -> str:
    return f"{FUNCTION_NAMES[name]}({', '.join(_items(items))})"


def _items(text: str) -> list[str]:
    """The numbers of a list. Commas without spaces separate, unless the list is also separated in another way."""
    parts = [part for part in re.split(r",\s+and\s+|,\s+|\s+and\s+|\s*;\s*|\s+", text.strip()) if part]
    if len(parts) == 1:
        return parts[0].split(",")
    return [part.replace(",", "") for part in parts]


_N = rf"({NUMBER})"
_LIST = r"((?:[-\d.,;\s]|and\b)*\d)"
_TABLE: tuple[tuple[str, Replacement], ...] = (
    # functions of lists; before anything else, because commas mean something here
    (rf"^(?:the )?({'|'.join(FUNCTION_NAMES)})(?: of| value of| up)?:?\s+{_LIST}$", lambda it: _call(it[1], it[2])),
    (rf"^{_LIST} (?:added(?: together| up)?|summed)$", lambda it: _call("sum", it[1])),
    (rf"^{_LIST} multiplied(?: together)?$", lambda it: _call("product", it[1])),
    (rf"^(?:the )?difference (?:between|of) {_N} and {_N}$", r"abs(\1 - \2)"),
    # thousands separators, and signs of other keyboards
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),
    (r"[×·]", "*"),
    (r"÷", "/"),
    (r"[−–]", "-"),
    (r"\^", "**"),
    (r"²", "**2"),
    (r"³", "**3"),
    (r"√", "sqrt"),
    (r"(?<=[\d)])(?:\s+x\s+|(?<!\b0)x)(?=[\d(])", "*"),
    # percentages
    (r"\s+percent\b", "%"),
    (rf"^(.+?)\s*(?:\+|plus)\s*{_N}%$", r"(\1) * (1 + \2/100)"),
    (rf"^(.+?)\s*(?:-|minus)\s*{_N}%$", r"(\1) * (1 - \2/100)"),
    (rf"{_N}%\s+off\s+(?:of\s+)?{_N}", r"(\2 * (1 - \1/100))"),
    (rf"{_N}%\s+of\s+", r"(\1/100) * "),
    (rf"{_N}%(?!\s*[\d(])", r"(\1/100)"),
    # roots and powers
    (rf"\b(?:the )?(?:square root|sqrt)(?: of)? ?{_N}", r"sqrt(\1)"),
    (rf"\b(?:the )?cube root of {_N}", r"(\1) ** (1/3)"),
    (r"\s+squared\b", "**2"),
    (r"\s+cubed\b", "**3"),
    (r"\s+to the power of\s+", "**"),
    # operators
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied by)\b", "*"),
    (r"\b(?:divided by|over)\b", "/"),
    (r"\bmod(?:ulo)?\b", "%"),
    (r"(?<=[\d)])\s*\(", "*("),
)
_REWRITES = [(re.compile(pattern), replacement) for pattern, replacement in _TABLE]
