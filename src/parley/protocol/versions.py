"""The protocol versions that Parley supports: a closed set, compared for equality and never ordered by text."""

from __future__ import annotations

import re
from enum import StrEnum


class Version(StrEnum):
    """A release line of A2A, Major.Minor. Patch numbers never matter to peers."""

    V0_1 = "0.1"
    V0_2 = "0.2"
    V0_3 = "0.3"
    V1_0 = "1.0"


_PATCHED = re.compile(r"([0-9]+\.[0-9]+)\.[0-9]+")


def without_patch(text: str) -> str:
    """A version as Major.Minor: `"1.0.1"` → `"1.0"`. Any other text stays as it is."""
    match = _PATCHED.fullmatch(text)
    return match[1] if match else text
