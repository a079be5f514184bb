"""Every rule has a test, and every test a rule."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from tests.conformance.rules import OTHERS, RULES

HERE = Path(__file__).parent


def rules_by_test() -> dict[str, set[str]]:
    """The rules that each test function names."""
    found: dict[str, set[str]] = {}
    for file in sorted(HERE.glob("test_*.py")):
        if file.stem == "test_ledger":
            continue
        module = importlib.import_module(f"tests.conformance.{file.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                marks = getattr(function, "pytestmark", [])
                found[f"{file.stem}.{name}"] = {id for mark in marks if mark.name == "rule" for id in mark.args}
    return found


def test_every_rule_has_a_test() -> None:
    tried = set[str]().union(*rules_by_test().values())
    assert sorted(set(RULES) - tried) == []


def test_every_test_has_a_rule_that_exists() -> None:
    assert {
        name: sorted(ids - set(RULES)) for name, ids in rules_by_test().items() if not ids or ids - set(RULES)
    } == {}


def test_every_number_of_the_checklist_is_accounted_for() -> None:
    numbers = {f"G1.{n}" for n in range(1, 60)} | {f"G2.{n}" for n in range(1, 21)} | {f"G3.{n}" for n in range(1, 5)}
    assert set(RULES) | set(OTHERS) == numbers
    assert set(RULES) & set(OTHERS) == set()
