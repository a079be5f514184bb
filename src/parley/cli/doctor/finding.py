"""What a check of `parley doctor` has found."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """How grave a finding is."""

    FINE = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class HostFinding(Struct, frozen=True):
    """One finding: what was looked at, what is the case, and what to do about it."""

    severity: Severity
    about: str
    text: str
    advice: str = ""


def fine(about: str, text: str) -> HostFinding:
    """Something is as it should be."""
    return HostFinding(Severity.FINE, about, text)


def warning(about: str, text: str, advice: str) -> HostFinding:
    """Something will cause trouble, or hides it."""
    return HostFinding(Severity.WARNING, about, text, advice)


def problem(about: str, text: str, advice: str) -> HostFinding:
    """Something does not work."""
    return HostFinding(Severity.PROBLEM, about, text, advice)
