"""Faults that are visible in the card itself: missing members, repeated ids, undeclared schemes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from parley.dialects.cards import detect_card_version
from parley.protocol.cards import AgentCard
from parley.protocol.versions import Version

V0_1, V0_2, V0_3, V1_0 = Version

REQUIRED: dict[Version, tuple[str, ...]] = {
    V1_0: (
        *("name", "description", "version", "supportedInterfaces", "capabilities"),
        *("defaultInputModes", "defaultOutputModes", "skills"),
    ),
    V0_3: (
        *("name", "description", "version", "url", "protocolVersion", "capabilities"),
        *("defaultInputModes", "defaultOutputModes", "skills"),
    ),
    V0_2: (
        *("name", "description", "version", "url", "capabilities"),
        *("defaultInputModes", "defaultOutputModes", "skills"),
    ),
    V0_1: ("name", "version", "url", "capabilities", "skills"),
}


def intended_version(members: Mapping[str, Any], raw: bytes) -> Version:
    """The version that a card was written for, even if it is not valid: before 1.0, a card had a `url`."""
    return detect_card_version(raw) if "url" in members else V1_0


def missing_members(members: Mapping[str, Any], version: Version) -> list[str]:
    """The required members that a card of this version lacks."""
    missing = [name for name in REQUIRED[version] if members.get(name) in (None, "")]
    return missing + (_unversioned(members) if version is V1_0 else [])


def _unversioned(members: Mapping[str, Any]) -> list[str]:
    """The interfaces without a version, which the decoder accepts."""
    faces: Any = members.get("supportedInterfaces")
    return [
        f"supportedInterfaces[{index}].protocolVersion"
        for index, face in enumerate(cast(list[Any], faces) if isinstance(faces, list) else [])
        if isinstance(face, dict) and not cast(dict[str, Any], face).get("protocolVersion")
    ]


def repeated_skills(card: AgentCard) -> list[str]:
    """The ids that more than one skill has."""
    return [id for id, number in Counter(skill.id for skill in card.skills).items() if number > 1]


def undeclared_schemes(card: AgentCard) -> list[str]:
    """The schemes that the card requires and does not declare."""
    demands = (*card.security, *(demand for skill in card.skills for demand in skill.security))
    return list(dict.fromkeys(name for demand in demands for name in demand if name not in card.security_schemes))
