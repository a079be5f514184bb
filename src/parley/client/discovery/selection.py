"""Which interface of a card to call, and in which order to try the others.

By the rules of the specification: in the card's order, unless the caller prefers a binding or a version; the newest
version first. Spec: 1.0 section 8.3.2, 0.3 section 5.6.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import LocalProtocolError, PeerProtocolError
from parley.protocol.negotiation import version_of
from parley.protocol.versions import Version, without_patch

N = TypeVar("N", Binding, Version)

NEWEST_FIRST: tuple[Version, ...] = (Version.V1_0, Version.V0_3, Version.V0_2, Version.V0_1)
BINDINGS: tuple[Binding, ...] = (Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC)
JSONRPC_ONLY = (Version.V0_2, Version.V0_1)
"""Versions without other bindings. SDKs of 0.2 also serve gRPC, but lose half of each task's id."""


def interfaces_in_order(
    card: AgentCard, *, bindings: Sequence[Binding] = (), versions: Sequence[Version] = ()
) -> list[tuple[AgentInterface, Version]]:
    """The interfaces that the client can call, the best first, each with its version.

    `bindings` and `versions` are those that the caller accepts, the preferred first; if empty, all, in the card's
    order.

    Raises:
        LocalProtocolError: no accepted version has an accepted binding.
        PeerProtocolError: the card has no such interface.
    """
    accepted = _accepted(bindings or BINDINGS, versions or NEWEST_FIRST)
    usable = [
        (face, version)
        for face in card.interfaces
        if (version := version_of(face)) is not None and face.binding in accepted.get(version, ())
    ]
    if not usable:
        offered = ", ".join(f"{face.binding} {face.version}" for face in card.interfaces) or "nothing"
        speaks = "; ".join(f"in {version} {', '.join(accepted[version])}" for version in accepted)
        raise PeerProtocolError(f"No interface fits: the card offers {offered}; this client speaks {speaks}")
    # Sorting is stable: the card's order stays where the caller has no preference.
    usable.sort(key=lambda pair: versions.index(pair[1]) if versions else NEWEST_FIRST.index(pair[1]))
    if bindings:
        usable.sort(key=lambda pair: bindings.index(Binding(pair[0].binding)))
    return usable


def _accepted(bindings: Sequence[Binding], versions: Sequence[Version]) -> dict[Version, list[Binding]]:
    """The accepted bindings of each accepted version."""
    usable = {
        version: [binding for binding in bindings if binding == Binding.JSONRPC or version not in JSONRPC_ONLY]
        for version in versions
    }
    accepted = {version: bindings for version, bindings in usable.items() if bindings}
    if not accepted:
        only, asked = " and ".join(versions), ", ".join(bindings)
        raise LocalProtocolError(f"A2A {only} is supported over {Binding.JSONRPC} only, not over {asked}")
    return accepted


def read_bindings(bindings: Sequence[Binding | str] | str) -> tuple[Binding, ...]:
    """Bindings as a caller writes them, such as `"grpc"`. Raises LocalProtocolError for an unknown name."""
    return tuple(_read(name, BINDINGS, "binding") for name in _listed(bindings))


def read_versions(versions: Sequence[Version | str] | str) -> tuple[Version, ...]:
    """Versions as a caller writes them, such as `"1.0"`. Raises LocalProtocolError for an unknown name."""
    return tuple(_read(without_patch(name), NEWEST_FIRST, "version") for name in _listed(versions))


def _listed(names: Sequence[str] | str) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _read(name: str, known: Sequence[N], kind: str) -> N:
    for one in known:
        if one.upper() == name.upper():
            return one
    raise LocalProtocolError(f"Unknown {kind} {name!r}; known are {', '.join(known)}")


def newest_of(versions: Sequence[Version]) -> Version:
    """The newest of the versions that a caller accepts; the newest of all if none are given."""
    return next(version for version in NEWEST_FIRST if version in (versions or NEWEST_FIRST))
