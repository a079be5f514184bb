"""Arithmetic expressions: what `2 * (3 + 4) ** 2` or `sqrt(16)` comes to, exactly where that is possible.

The expression is parsed by Python's parser and never run by it. Bounds on its length, its nesting and the size of every
number along the way keep an evaluation short.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, DecimalException, localcontext
from fractions import Fraction
from math import ceil, floor, isqrt

from parley.host.models.builtin.number_text import is_number

_MOST_CHARACTERS = 300
_MOST_PARENTHESES = 32
_MOST_BITS = 8192  # about 2,500 decimal digits
_MOST_DECIMAL_EXPONENT = 2400
_MOST_EXPONENT = 10_000
_DIGITS = 40  # of roots and other results that are not exact

_ALLOWED = re.compile(r"[0-9a-z_+\-*/%()., ]+")
_GLUED = re.compile(r"[0-9][a-z_]|[a-z_][0-9]")  # 0x10, 1e9, 2j: Python knows them, calculators do not
_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")


class ExpressionError(Exception):
    """An expression has no value. The message is a sentence for the user."""


def evaluate(expression: str) -> Fraction | None:
    """The value of an expression; None if the text is not an expression.

    Raises:
        ExpressionError: it is one, but it has no value, or the numbers in it become too large.
    """
    source = _LEADING_ZEROS.sub("", expression.strip())
    if not _ALLOWED.fullmatch(source) or _GLUED.search(source):
        return None
    if len(source) > _MOST_CHARACTERS:
        raise ExpressionError(f"An expression may have at most {_MOST_CHARACTERS} characters.")
    if source.count("(") > _MOST_PARENTHESES:
        raise ExpressionError(f"An expression may have at most {_MOST_PARENTHESES} pairs of parentheses.")
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError:
        return None
    try:
        return _Evaluation(source).value(tree.body)
    except ZeroDivisionError:
        raise ExpressionError("Division by zero has no value.") from None
    except _NotAnExpression:
        return None


class _NotAnExpression(Exception):
    """The text is valid Python, but not arithmetic."""


class _Evaluation:
    def __init__(self, source: str) -> None:
        self._source = source

    def value(self, node: ast.expr) -> Fraction:
        match node:
            case ast.Constant():
                return self._literal(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return _bounded(_OPERATORS[type(operator)](self.value(left), self.value(right)))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
                return _bounded(_FUNCTIONS[name]([self.value(arg) for arg in args]))
            case ast.Name(id="pi"):
                return Fraction("3.141592653589793238462643383279502884197")
            case _:
                raise _NotAnExpression

    def _literal(self, node: ast.Constant) -> Fraction:
        # The text instead of the value: a float would have lost digits.
        text = self._source[node.col_offset : node.end_col_offset]
        if not is_number(text):
            raise _NotAnExpression
        return Fraction(text)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise ExpressionError("The numbers in this calculation become too large.")
    return value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        return _fractional_power(base, exponent)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) > _MOST_EXPONENT or bits * abs(exponent) > _MOST_BITS:
        raise ExpressionError("The numbers in this calculation become too large.")
    return base**exponent.numerator


def _fractional_power(base: Fraction, exponent: Fraction) -> Fraction:
    if base < 0:
        raise ExpressionError("A root of a negative number is not a real number.")
    if exponent == Fraction(1, 2):
        return _square_root(base)
    return _approximate(lambda: _to_decimal(base) ** _to_decimal(exponent))


def _square_root(value: Fraction) -> Fraction:
    if value < 0:
        raise ExpressionError("The square root of a negative number is not a real number.")
    exact = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    return exact if exact * exact == value else _approximate(lambda: _to_decimal(value).sqrt())


def _approximate(calculate: Callable[[], Decimal]) -> Fraction:
    with localcontext() as context:
        context.prec = _DIGITS
        try:
            result = calculate()
        except DecimalException:
            raise ExpressionError("The numbers in this calculation become too large.") from None
    if result and abs(result.adjusted()) > _MOST_DECIMAL_EXPONENT:
        raise ExpressionError("The numbers in this calculation become too large.")
    return Fraction(result)


def _to_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _one(function: Callable[[Fraction], Fraction | int]) -> Callable[[list[Fraction]], Fraction]:
    def apply(values: list[Fraction]) -> Fraction:
        if len(values) != 1:
            raise _NotAnExpression
        return Fraction(function(values[0]))

    return apply


def _product(values: list[Fraction]) -> Fraction:
    result = Fraction(1)
    for value in values:
        result = _bounded(result * value)
    return result


def _median(values: list[Fraction]) -> Fraction:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _round(values: list[Fraction]) -> Fraction:
    """To a whole number, or to as many decimals as the second value says; halves go away from zero."""
    value, *rest = values
    places = rest[0] if rest else Fraction(0)
    if len(rest) > 1 or places.denominator != 1 or not 0 <= places <= _DIGITS:
        raise _NotAnExpression
    scale = Fraction(10) ** places.numerator
    rounded = floor(abs(value) * scale + Fraction(1, 2)) / scale
    return -rounded if value < 0 else rounded


_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: lambda left, right: left % right,
    ast.Pow: _power,
}

_FUNCTIONS: Mapping[str, Callable[[list[Fraction]], Fraction]] = {
    "abs": _one(abs),
    "average": lambda values: Fraction(sum(values), len(values)),
    "ceil": _one(ceil),
    "floor": _one(floor),
    "max": max,
    "mean": lambda values: Fraction(sum(values), len(values)),
    "median": _median,
    "min": min,
    "product": _product,
    "round": _round,
    "sqrt": _one(_square_root),
    "sum": lambda values: Fraction(sum(values)),
}
