"""Numbers in text: how the built-in models read and write them. Values are exact fractions."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from fractions import Fraction

NUMBER = r"(?>\d{1,3}(?:,\d{3}){1,12}(?!\d)(?:\.\d{1,40})?|\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})"
"""A number without a sign, with thousands separators or without. It is matched whole or not at all."""

_PLAIN = re.compile(r"\d{1,40}(?:\.\d{1,40})?|\.\d{1,40}")
_SCALED = re.compile(rf"({NUMBER})\s*(thousand|million|billion)\b", re.IGNORECASE | re.ASCII)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_LONGEST_INTEGER = 10**40
_ALL_DIGITS = 60  # of the longest integer, and its decimals
_SMALLEST_DECIMAL = Fraction(1, 10**9)


def read_number(text: str) -> Fraction:
    """The value of a text that matches `NUMBER`, with or without a sign."""
    return Fraction(text.replace(",", "").replace("−", "-").replace(" ", ""))


def is_number(text: str) -> bool:
    """Whether the whole text is a number without sign and separators."""
    return _PLAIN.fullmatch(text) is not None


def expand_scales(text: str) -> str:
    """The text with numbers like `2.5 million` written in digits."""
    return _SCALED.sub(lambda found: _scaled(found[1], found[2]), text)


def _scaled(number: str, scale: str) -> str:
    value = read_number(number) * _SCALES[scale.lower()]
    return f"{value.numerator:,}" if value.denominator == 1 else number + " " + scale


def write_number(value: Fraction, *, digits: int = 10) -> str:
    """The number in full if it has at most six decimals; otherwise `about` and the number to so many digits."""
    if abs(value) < _LONGEST_INTEGER and (value * 10**6).denominator == 1:
        return _grouped(_decimal(value, _ALL_DIGITS))
    rounded = _decimal(value, digits)
    if abs(value) >= _LONGEST_INTEGER or abs(value) < _SMALLEST_DECIMAL:
        return "about " + _scientific(rounded)
    return "about " + _grouped(rounded)


def write_rounded(value: Fraction, decimals: int) -> str:
    """The number with so many decimals, as amounts of money are written."""
    cents = Fraction(round(value * 10**decimals), 10**decimals)
    return f"{_decimal(cents, _ALL_DIGITS):,.{decimals}f}"


def _decimal(value: Fraction, digits: int) -> Decimal:
    with localcontext() as context:
        context.prec = digits
        return Decimal(value.numerator) / Decimal(value.denominator)


def _grouped(value: Decimal) -> str:
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scientific(value: Decimal) -> str:
    mantissa, _, exponent = f"{value:e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa} × 10^{int(exponent)}"
