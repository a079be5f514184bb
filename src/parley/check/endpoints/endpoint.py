"""The endpoints that cards declare: an interface in a version."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from parley.check.endpoints.discovery import FoundCard
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.negotiation import version_of
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An interface of a card, in one version."""

    card: AgentCard
    interface: AgentInterface
    version: Version
    is_declared: bool = True
    """Whether the card declares this version; otherwise the caller asked for it."""
    skill: str | None = None
    """The skill that messages ask for, if any."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        skill = f" (skill {self.skill})" if self.skill else ""
        return f"{name_of(self.interface, self.version)}{skill}"

    @property
    def unsupported(self) -> str | None:
        """Why this check cannot call it, or None."""
        if self.interface.binding not in list(Binding):
            return f"the check does not support the binding {self.interface.binding}"
        if self.interface.binding != Binding.JSONRPC and self.version not in (Version.V0_3, Version.V1_0):
            return f"the check does not support A2A {self.version} over {self.interface.binding}"
        return None


def name_of(interface: AgentInterface, version: str) -> str:
    """An interface's name in reports."""
    tenant = f" (tenant {interface.tenant})" if interface.tenant else ""
    return f"{version} {interface.binding} {interface.url}{tenant}"


def endpoints_of(
    cards: Sequence[FoundCard],
    bindings: Collection[Binding],
    versions: Collection[Version],
    skills: Collection[str] = (),
) -> tuple[list[Endpoint], dict[str, tuple[Version, str]]]:
    """The endpoints to check; and by name, with its version, why another one is not supported.

    A version that the caller asks for and no card declares is added for the first JSON-RPC interface. With skills,
    each endpoint is checked once for each of them.
    """
    endpoints: dict[str, Endpoint] = {}
    unsupported: dict[str, tuple[Version, str]] = {}
    for found in cards:
        for face in found.card.interfaces:
            version = version_of(face)
            endpoint = Endpoint(found.card, face, version) if version is not None else None
            if endpoint is None or version is None:
                unsupported[name_of(face, face.version)] = (
                    found.version,
                    f"the check does not support A2A {face.version}",
                )
            elif endpoint.unsupported:
                unsupported[endpoint.name] = (version, endpoint.unsupported)
            else:
                endpoints.setdefault(endpoint.name, endpoint)
    declared = {endpoint.version for endpoint in endpoints.values()}
    rpc = [endpoint for endpoint in endpoints.values() if endpoint.interface.binding == Binding.JSONRPC]
    for version in versions:
        if version not in declared and rpc:
            endpoint = replace(rpc[0], version=version, is_declared=False)
            endpoints[endpoint.name] = endpoint
    wanted = [
        endpoint
        for endpoint in endpoints.values()
        if (not bindings or endpoint.interface.binding in bindings) and (not versions or endpoint.version in versions)
    ]
    return [replace(endpoint, skill=skill) for endpoint in wanted for skill in skills or (None,)], unsupported
