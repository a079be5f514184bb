"""Which interface of a card to call, and in which order to try the others.

By the specification's rules: the card's order, unless the caller prefers a binding or a version; every version that the
client speaks, the newest first where the card leaves it open. An interface of 0.3 may also answer older dialects, and
says so by the card's version. Spec: 1.0 section 8.3.2, 0.3 section 5.6.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import PeerProtocolError
from parley.protocol.negotiation import version_of
from parley.protocol.versions import Version

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
        PeerProtocolError: there is none.
    """
    spoken = [
        (face, version)
        for face in card.interfaces
        if face.binding in (bindings or BINDINGS)
        and (version := version_of(face)) is not None
        and version in (versions or NEWEST_FIRST)
        and (face.binding == Binding.JSONRPC or version not in JSONRPC_ONLY)
    ]
    if not spoken:
        offered = ", ".join(f"{face.binding} {face.version}" for face in card.interfaces) or "nothing"
        wanted = f"{', '.join(bindings or BINDINGS)} in {', '.join(versions or NEWEST_FIRST)}"
        raise PeerProtocolError(f"No interface fits: the card offers {offered}; this client speaks {wanted}")
    # Sorting is stable: what the caller does not care about stays in the card's order.
    spoken.sort(key=lambda pair: versions.index(pair[1]) if versions else NEWEST_FIRST.index(pair[1]))
    if bindings:
        spoken.sort(key=lambda pair: bindings.index(Binding(pair[0].binding)))
    return spoken


def newest_of(versions: Sequence[Version]) -> Version:
    """The newest of the versions that a caller accepts, of all if it does not care."""
    return next(version for version in NEWEST_FIRST if version in (versions or NEWEST_FIRST))
