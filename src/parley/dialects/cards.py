"""Cards for readers of every version: one superset document, and the detection of a received card's version.

The superset holds the 1.0 card and the 0.3 card side by side: a reader takes the members of its version. Where both
have a member, they agree or are merged member by member.
"""

from __future__ import annotations

from typing import cast

import msgspec

from parley.dialects import v0_3, v1_0
from parley.dialects.fields import Fault, parse
from parley.dialects.oauth_flows import one_flow_per_scheme
from parley.dialects.registry import DIALECTS
from parley.protocol.cards import AgentCard
from parley.protocol.errors import PeerProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.versions import Version


def encode_superset_card(card: AgentCard) -> bytes:
    """One document that readers of 0.3 and 1.0 accept, and those of 0.2 unless the card requires mutual TLS."""
    card = one_flow_per_scheme(card)  # both forms must have the same schemes: a reader refuses one it cannot read
    newer = msgspec.json.decode(v1_0.DIALECT.encode_card(card))
    older = msgspec.json.decode(v0_3.DIALECT.encode_card(card))
    # The client of a2a-sdk 1.x reads a scheme that has both forms by the older one alone. So that gets all of the newer
    # one's flows, with `deviceCode` and `pkceRequired`, which readers of 0.3 skip.
    for name, scheme in older.get("securitySchemes", {}).items():
        if scheme["type"] == "oauth2":
            scheme["flows"] = newer["securitySchemes"][name]["oauth2SecurityScheme"]["flows"]
    return msgspec.json.encode(_merge(newer, older))


def _merge(newer: JsonValue, older: JsonValue) -> JsonValue:
    if isinstance(newer, dict) and isinstance(older, dict):
        names = dict.fromkeys([*newer, *older])
        return {
            name: _merge(newer[name], older[name]) if name in newer and name in older else {**older, **newer}[name]
            for name in names
        }
    if isinstance(newer, list) and isinstance(older, list) and len(newer) == len(older):
        return [_merge(a, b) for a, b in zip(newer, older, strict=True)]
    return newer


def decode_any_card(raw: bytes) -> tuple[AgentCard, Version]:
    """A card of any version, and that version.

    Raises:
        PeerProtocolError: it is not a valid card.
    """
    version = detect_card_version(raw)
    return DIALECTS[version].decode_card(raw), version


def detect_card_version(raw: bytes) -> Version:
    """The version whose members a card has: `supportedInterfaces` is 1.0's; a card without `protocolVersion` is older
    than 0.2.5, and 0.1's if it has `authentication`, lacks members that 0.2 requires, or calls a media type "text".

    Raises:
        PeerProtocolError: it is not a JSON object.
    """
    try:
        value = parse(raw)
    except Fault as fault:
        raise PeerProtocolError(f"Invalid card: {fault.reason}", path=fault.path) from None
    if not isinstance(value, dict):
        raise PeerProtocolError("Invalid card: not a JSON object", path="$")
    members = cast(JsonObject, value)
    if "supportedInterfaces" in members:
        return Version.V1_0
    stated = members.get("protocolVersion")
    if stated is None:
        is_0_1 = "authentication" in members or not {"defaultInputModes", "description"} <= members.keys()
        is_0_1 = is_0_1 or _has_short_modes(members)
        return Version.V0_1 if is_0_1 and "securitySchemes" not in members else Version.V0_2
    return Version.V0_2 if isinstance(stated, str) and stated.startswith("0.2") else Version.V0_3


def _has_short_modes(card: JsonObject) -> bool:
    modes = card.get("defaultInputModes")
    return isinstance(modes, list) and any(isinstance(mode, str) and "/" not in mode for mode in modes)
