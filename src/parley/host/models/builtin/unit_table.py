"""Units of measurement: their names, what they measure, and how much of the base unit they are.

Measures that differ between countries are those of the United States, and say so in their labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class MeasurementUnit:
    """A unit. A value in it, times `factor` plus `offset`, is a value in the base unit of its dimension."""

    label: str
    """How it is written after a number."""
    dimension: str
    factor: Fraction
    offset: Fraction = Fraction(0)


_FOOT = Fraction("0.3048")
_POUND = Fraction("0.45359237")
_GALLON = Fraction("3.785411784")

# label: (factor, its other names). Labels are names, too. Names are in lower case.
_DIMENSIONS: Mapping[str, Mapping[str, tuple[Fraction, tuple[str, ...]]]] = {
    "length": {
        "nm": (Fraction(1, 10**9), ("nanometer", "nanometers", "nanometre", "nanometres")),
        "µm": (Fraction(1, 10**6), ("μm", "um", "micrometer", "micrometers", "micron", "microns")),
        "mm": (Fraction(1, 1000), ("millimeter", "millimeters", "millimetre", "millimetres")),
        "cm": (Fraction(1, 100), ("centimeter", "centimeters", "centimetre", "centimetres")),
        "m": (Fraction(1), ("meter", "meters", "metre", "metres")),
        "km": (Fraction(1000), ("kms", "kilometer", "kilometers", "kilometre", "kilometres")),
        "inches": (_FOOT / 12, ("in", "inch")),
        "feet": (_FOOT, ("ft", "foot")),
        "yards": (_FOOT * 3, ("yd", "yard")),
        "miles": (_FOOT * 5280, ("mi", "mile")),
        "nautical miles": (Fraction(1852), ("nautical mile", "nmi")),
    },
    "mass": {
        "mg": (Fraction(1, 10**6), ("milligram", "milligrams")),
        "g": (Fraction(1, 1000), ("gram", "grams")),
        "kg": (Fraction(1), ("kgs", "kilo", "kilos", "kilogram", "kilograms")),
        "tonnes": (Fraction(1000), ("t", "tonne", "metric ton", "metric tons")),
        "ounces": (_POUND / 16, ("oz", "ounce")),
        "pounds": (_POUND, ("lb", "lbs", "pound")),
        "stone": (_POUND * 14, ("stones",)),
        "US tons": (_POUND * 2000, ("ton", "tons", "us ton", "short ton", "short tons")),
    },
    "volume": {
        "ml": (Fraction(1, 1000), ("milliliter", "milliliters", "millilitre", "millilitres")),
        "cl": (Fraction(1, 100), ("centiliter", "centiliters", "centilitre", "centilitres")),
        "liters": (Fraction(1), ("l", "liter", "litre", "litres")),
        "cubic meters": (Fraction(1000), ("cubic meter", "cubic metre", "cubic metres", "m3", "m³")),
        "US teaspoons": (_GALLON / 768, ("tsp", "teaspoon", "teaspoons")),
        "US tablespoons": (_GALLON / 256, ("tbsp", "tablespoon", "tablespoons")),
        "US fluid ounces": (_GALLON / 128, ("fl oz", "fluid ounce", "fluid ounces")),
        "US cups": (_GALLON / 16, ("cup", "cups")),
        "US pints": (_GALLON / 8, ("pt", "pint", "pints")),
        "US quarts": (_GALLON / 4, ("qt", "quart", "quarts")),
        "US gallons": (_GALLON, ("gal", "gallon", "gallons")),
    },
    "speed": {
        "m/s": (Fraction(1), ("mps", "meters per second", "metres per second")),
        "km/h": (Fraction(5, 18), ("kmh", "kph", "kilometers per hour", "kilometres per hour")),
        "mph": (_FOOT * 5280 / 3600, ("mi/h", "miles per hour")),
        "ft/s": (_FOOT, ("feet per second",)),
        "knots": (Fraction(1852, 3600), ("kn", "knot")),
    },
    "area": {
        "cm²": (Fraction(1, 10**4), ("cm2", "sq cm", "square centimeters", "square centimetres")),
        "m²": (Fraction(1), ("m2", "sq m", "square meter", "square meters", "square metre", "square metres")),
        "km²": (Fraction(10**6), ("km2", "sq km", "square kilometers", "square kilometres")),
        "hectares": (Fraction(10**4), ("ha", "hectare")),
        "acres": (_FOOT**2 * 43560, ("acre",)),
        "square inches": (_FOOT**2 / 144, ("sq in", "square inch")),
        "square feet": (_FOOT**2, ("sq ft", "square foot")),
        "square yards": (_FOOT**2 * 9, ("sq yd", "square yard")),
        "square miles": (_FOOT**2 * 5280**2, ("sq mi", "square mile")),
    },
    "time": {
        "ms": (Fraction(1, 1000), ("millisecond", "milliseconds")),
        "seconds": (Fraction(1), ("s", "sec", "secs", "second")),
        "minutes": (Fraction(60), ("min", "mins", "minute")),
        "hours": (Fraction(3600), ("h", "hr", "hrs", "hour")),
        "days": (Fraction(86400), ("day",)),
        "weeks": (Fraction(604800), ("week",)),
    },
    "data": {
        "bits": (Fraction(1, 8), ("bit",)),
        "bytes": (Fraction(1), ("b", "byte")),
        "kB": (Fraction(10**3), ("kilobyte", "kilobytes")),
        "MB": (Fraction(10**6), ("megabyte", "megabytes")),
        "GB": (Fraction(10**9), ("gigabyte", "gigabytes")),
        "TB": (Fraction(10**12), ("terabyte", "terabytes")),
        "KiB": (Fraction(2**10), ("kibibyte", "kibibytes")),
        "MiB": (Fraction(2**20), ("mebibyte", "mebibytes")),
        "GiB": (Fraction(2**30), ("gibibyte", "gibibytes")),
        "TiB": (Fraction(2**40), ("tebibyte", "tebibytes")),
        "Mbit": (Fraction(10**6, 8), ("megabit", "megabits")),
        "Gbit": (Fraction(10**9, 8), ("gigabit", "gigabits")),
    },
}

_TEMPERATURES: Mapping[str, tuple[MeasurementUnit, tuple[str, ...]]] = {
    "kelvin": (MeasurementUnit("K", "temperature", Fraction(1)), ("k", "kelvins")),
    "celsius": (
        MeasurementUnit("°C", "temperature", Fraction(1), Fraction("273.15")),
        ("c", "°c", "degrees celsius", "degrees c", "centigrade"),
    ),
    "fahrenheit": (
        MeasurementUnit("°F", "temperature", Fraction(5, 9), Fraction("273.15") - Fraction(160, 9)),
        ("f", "°f", "degrees fahrenheit", "degrees f"),
    ),
}


def _by_name() -> dict[str, MeasurementUnit]:
    units: dict[str, MeasurementUnit] = {}
    for dimension, labels in _DIMENSIONS.items():
        for label, (factor, names) in labels.items():
            unit = MeasurementUnit(label, dimension, factor)
            units |= dict.fromkeys((label.lower(), *names), unit)
    for name, (unit, names) in _TEMPERATURES.items():
        units |= dict.fromkeys((name, *names), unit)
    return units


UNITS: Mapping[str, MeasurementUnit] = _by_name()
"""The units by their names, in lower case."""
