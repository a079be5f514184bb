"""The places that cards declare, which a check visits: an interface in a version."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from parley.check.endpoints.discovery import FoundCard
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.negotiation import version_of
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class Place:
    """An interface of a card in a version."""

    card: AgentCard
    interface: AgentInterface
    version: Version
    is_declared: bool = True
    """Whether the card says that this version is spoken there; otherwise the caller wants to know."""
    skill: str | None = None
    """The skill that messages ask for, if they do."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        skill = f" (skill {self.skill})" if self.skill else ""
        return f"{name_of(self.interface, self.version)}{skill}"

    @property
    def unspoken(self) -> str | None:
        """Why this check cannot visit it, if so."""
        if self.interface.binding not in list(Binding):
            return f"this check does not know the binding {self.interface.binding}"
        if self.interface.binding != Binding.JSONRPC and self.version not in (Version.V0_3, Version.V1_0):
            return f"this check does not know A2A {self.version} over {self.interface.binding}"
        return None


def name_of(interface: AgentInterface, version: str) -> str:
    """An interface's name in reports."""
    tenant = f" (tenant {interface.tenant})" if interface.tenant else ""
    return f"{version} {interface.binding} {interface.url}{tenant}"


def places_of(
    cards: Sequence[FoundCard],
    bindings: Collection[Binding],
    versions: Collection[Version],
    skills: Collection[str] = (),
) -> tuple[list[Place], dict[str, tuple[Version, str]]]:
    """Every interface in the versions that it declares, each once; and by name why nobody visits the others.

    A version that the caller names and no card declares is added where JSON-RPC is spoken. With skills, each place is
    visited once for each of them.
    """
    places: dict[str, Place] = {}
    unspoken: dict[str, tuple[Version, str]] = {}
    for found in cards:
        for face in found.card.interfaces:
            version = version_of(face)
            place = Place(found.card, face, version) if version is not None else None
            if place is None or version is None:
                unspoken[name_of(face, face.version)] = (found.version, f"this check does not know A2A {face.version}")
            elif place.unspoken:
                unspoken[place.name] = (version, place.unspoken)
            else:
                places.setdefault(place.name, place)
    declared = {place.version for place in places.values()}
    rpc = [place for place in places.values() if place.interface.binding == Binding.JSONRPC]
    for version in versions:
        if version not in declared and rpc:
            place = replace(rpc[0], version=version, is_declared=False)
            places[place.name] = place
    wanted = [
        place
        for place in places.values()
        if (not bindings or place.interface.binding in bindings) and (not versions or place.version in versions)
    ]
    return [replace(place, skill=skill) for place in wanted for skill in skills or (None,)], unspoken
