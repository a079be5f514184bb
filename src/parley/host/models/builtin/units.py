"""The model `parley/units`: converts length, mass, volume, temperature, speed, area, time and data."""

from __future__ import annotations

import re
from fractions import Fraction

from parley.host.models.builtin.number_text import NUMBER, expand_scales, read_number, write_number
from parley.host.models.builtin.questions import answer_all
from parley.host.models.builtin.references import question_of, with_values
from parley.host.models.builtin.unit_table import UNITS, MeasurementUnit
from parley.host.models.model import ModelRequest

HELP = (
    "I convert length, mass, volume, temperature, speed, area, time and data. "
    "For example: “5 miles in km”, “72 F to C” or “3 cups in ml”."
)

_UNIT = rf"(?:{'|'.join(re.escape(name) for name in sorted(UNITS, key=len, reverse=True))})(?![\w/²³])"
_QUANTITY = rf"-?{NUMBER}\s*(?:{_UNIT})"
_QUANTITIES = rf"(?P<quantities>(?<![\w.]){_QUANTITY}(?:(?:\s+and\s+|\s*,\s*|\s+){_QUANTITY}){{0,3}})"
_QUESTIONS = [
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_QUANTITIES}\s*(?:in|to|into|as|=|equals?|is how many|are how many)\s*\??\s*(?P<target>{_UNIT})",
        rf"how (?:many|much) (?P<target>{_UNIT}) (?:are |is )?(?:there )?(?:in |is |are |make |makes )*{_QUANTITIES}",
        rf"how (?:many|much) (?P<target>{_UNIT}) (?:are |is )?(?:there )?in (?P<one>an? {_UNIT})",
    )
]
_PLURALS = (
    "yards", "miles", "tonnes", "ounces", "pounds", "tons", "liters", "meters", "spoons", "cups", "pints", "quarts",
    "gallons", "knots", "hectares", "acres", "seconds", "minutes", "hours", "days", "weeks", "bits", "bytes",
)  # fmt: skip
_PART = re.compile(rf"(?P<number>-?{NUMBER})\s*(?P<unit>{_UNIT})", re.IGNORECASE | re.ASCII)
_UNKNOWN_UNIT = re.compile(rf"(?<![\w.])-?{NUMBER}\s*([^\W\d]{{1,20}})\s+(?:in|to|into)\s+([^\W\d]{{1,20}})\W*$")


def reply(request: ModelRequest) -> str:
    """The quantities of a request in the units that it asks for."""
    return answer_all(with_values(question_of(request)), answer, otherwise=HELP)


def answer(question: str) -> str | None:
    """A sentence with one converted quantity; None if the question does not hold exactly one."""
    question = expand_scales(question)
    found = [match for pattern in _QUESTIONS for match in pattern.finditer(question)]
    if len(found) != 1:
        return _unknown_unit(question) if not found else None
    parts = found[0].groupdict()
    target = UNITS[parts["target"].lower()]
    if parts.get("one"):
        unit = UNITS[parts["one"].split(" ", 1)[1].lower()]
        return _converted([(Fraction(1), unit)], target)
    quantities = [
        (read_number(part["number"]), UNITS[part["unit"].lower()]) for part in _PART.finditer(parts["quantities"])
    ]
    return _converted(quantities, target)


def _converted(quantities: list[tuple[Fraction, MeasurementUnit]], target: MeasurementUnit) -> str | None:
    for _, unit in quantities:
        if unit.dimension != target.dimension:
            return f"“{unit.label}” measures {unit.dimension} and “{target.label}” measures {target.dimension}: " + (
                "one cannot be converted to the other."
            )
    if len(quantities) > 1 and target.dimension == "temperature":
        return None
    base = sum((value * unit.factor + unit.offset for value, unit in quantities), Fraction(0))
    if target.dimension == "temperature" and base < 0:
        return "There is no such temperature: it is below absolute zero."
    result = (base - target.offset) / target.factor
    given = " ".join(_quantity(write_number(value), unit) for value, unit in quantities)
    return f"{given} is {_quantity(write_number(result, digits=6), target)}."


def _quantity(number: str, unit: MeasurementUnit) -> str:
    label = _SINGULAR.get(unit.label, unit.label) if number == "1" else unit.label
    return f"{number} {label}"


_SINGULAR = {"inches": "inch", "feet": "foot", "square inches": "square inch", "square feet": "square foot"} | {
    unit.label: unit.label[:-1] for unit in UNITS.values() if unit.label.endswith(_PLURALS)
}


def _unknown_unit(question: str) -> str | None:
    """Which of two words is not a unit, if the other one is."""
    found = _UNKNOWN_UNIT.search(question)
    if found is None:
        return None
    unknown = [word for word in found.groups() if word.lower() not in UNITS]
    return f"I do not know the unit “{unknown[0]}”. {HELP}" if len(unknown) == 1 else None
