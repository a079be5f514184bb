"""Which interface of a card to call, and in which order to try the others.

By the specification's rules: the card's order, unless the caller prefers a binding or a version; every version that the
client speaks, the newest first where the card leaves it open. An interface of 0.3 may also answer older dialects, and
says so by the card's version. Spec: 1.0 section 8.3.2, 0.3 section 5.6.3.
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
"""Versions that have no other binding. SDKs of 0.2 serve gRPC too, but lose half of each task's id on the way."""


def interfaces_in_order(
    card: AgentCard, *, bindings: Sequence[Binding] = (), versions: Sequence[Version] = ()
) -> list[tuple[AgentInterface, Version]]:
    """The interfaces that the client can call, the best first, each with its version.

    `bindings` and `versions` are what the caller accepts, in the order of its preference; empty is everything, in the
    card's order.

    Raises:
        LocalProtocolError: the caller accepts nothing that there is.
        PeerProtocolError: the card has none.
    """
    wanted = _wanted(bindings or BINDINGS, versions or NEWEST_FIRST)
    spoken = [
        (face, version)
        for face in card.interfaces
        if (version := version_of(face)) is not None and face.binding in wanted.get(version, ())
    ]
    if not spoken:
        offered = ", ".join(f"{face.binding} {face.version}" for face in card.interfaces) or "nothing"
        speaks = "; ".join(f"in {version} {', '.join(wanted[version])}" for version in wanted)
        raise PeerProtocolError(f"No interface fits: the card offers {offered}; this client speaks {speaks}")
    # Sorting is stable: what the caller does not care about stays in the card's order.
    spoken.sort(key=lambda pair: versions.index(pair[1]) if versions else NEWEST_FIRST.index(pair[1]))
    if bindings:
        spoken.sort(key=lambda pair: bindings.index(Binding(pair[0].binding)))
    return spoken


def _wanted(bindings: Sequence[Binding], versions: Sequence[Version]) -> dict[Version, list[Binding]]:
    """What is spoken of what the caller accepts: the bindings of each version."""
    spoken = {
        version: [binding for binding in bindings if binding == Binding.JSONRPC or version not in JSONRPC_ONLY]
        for version in versions
    }
    wanted = {version: bindings for version, bindings in spoken.items() if bindings}
    if not wanted:
        only, asked = " and ".join(versions), ", ".join(bindings)
        raise LocalProtocolError(f"A2A {only} is spoken here over {Binding.JSONRPC} alone, not over {asked}")
    return wanted


def read_bindings(bindings: Sequence[Binding | str] | str) -> tuple[Binding, ...]:
    """Bindings as a caller writes them, such as `"grpc"`. Raises LocalProtocolError if there is none of that name."""
    return tuple(_read(name, BINDINGS, "binding") for name in _listed(bindings))


def read_versions(versions: Sequence[Version | str] | str) -> tuple[Version, ...]:
    """Versions as a caller writes them, such as `"1.0"`. Raises LocalProtocolError if there is none of that name."""
    return tuple(_read(without_patch(name), NEWEST_FIRST, "version") for name in _listed(versions))


def _listed(names: Sequence[str] | str) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _read(name: str, known: Sequence[N], kind: str) -> N:
    for one in known:
        if one.upper() == name.upper():
            return one
    raise LocalProtocolError(f"There is no {kind} {name!r}; there are {', '.join(known)}")


def newest_of(versions: Sequence[Version]) -> Version:
    """The newest of the versions that a caller accepts, of all if it does not care."""
    return next(version for version in NEWEST_FIRST if version in (versions or NEWEST_FIRST))
