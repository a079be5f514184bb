"""The protocol versions Parley knows, as a closed set: two versions are equal or different, never ordered by text."""

from __future__ import annotations

from enum import StrEnum


class Version(StrEnum):
    """A release line of A2A, Major.Minor. Patch numbers never matter to peers."""

    V0_1 = "0.1"
    V0_2 = "0.2"
    V0_3 = "0.3"
    V1_0 = "1.0"
