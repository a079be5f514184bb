"""A2A 0.2 (0.2.0 to 0.2.6) in JSON: the objects of 0.3, with a smaller card and without the extended-card method.

Spec: the 0.2.x documents and types.ts of tags v0.2.0 to v0.2.6.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from parley.dialects import v0_3
from parley.dialects.dialect import Codec
from parley.dialects.fields import Reader
from parley.dialects.v0_3 import V03Send
from parley.dialects.v0_3_card import V03Card, V03Interface, V03MutualTls, V03OAuth2, decode_card, interfaces_for
from parley.dialects.v0_3_card import encode_card as encode_card_0_3
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard
from parley.protocol.requests import SendMessageRequest
from parley.protocol.versions import Version


def encode_send(request: SendMessageRequest) -> V03Send:
    """A send in 0.2, where a configuration must list the accepted output modes until 0.2.5, even if none."""
    send = v0_3.encode_send(request)
    assert send.configuration is not None  # 0.3 always writes one
    send.configuration.accepted_output_modes = list(request.configuration.accepted_output_modes)
    return send


def encode_card(card: AgentCard) -> V03Card:
    """A card in 0.2: no signatures, no mutual TLS, no security of single skills, no OAuth metadata URL.

    A requirement that names mutual TLS goes with it: a reader could not meet it.
    """
    wire = encode_card_0_3(card)
    interfaces = interfaces_for(card.interfaces, "0.2", "0.3", "0.1")
    if interfaces:
        wire.url, wire.preferred_transport = interfaces[0].url, interfaces[0].binding
    wire.additional_interfaces = [V03Interface(i.url, i.binding) for i in interfaces] or None
    wire.protocol_version = "0.2.6"
    wire.signatures = None
    for skill in wire.skills:
        skill.security = None
    schemes = wire.security_schemes or {}
    for scheme in schemes.values():
        if isinstance(scheme, V03OAuth2):
            scheme.metadata_url = None
    unknown = {name for name, scheme in schemes.items() if isinstance(scheme, V03MutualTls)}
    wire.security_schemes = {name: scheme for name, scheme in schemes.items() if name not in unknown} or None
    wire.security = [needed for needed in wire.security or () if not needed.keys() & unknown] or None
    return wire


SEND = Codec(Reader(V03Send, guesses_tags=False), v0_3.decode_send, encode_send)
CARDS = Codec(Reader(V03Card), partial(decode_card, unstated=Version.V0_2), encode_card)

DIALECT = replace(
    v0_3.DIALECT,
    version=Version.V0_2,
    requests={
        **{name: codec for name, codec in v0_3.DIALECT.requests.items() if name != ops.GET_EXTENDED_CARD.name},
        ops.SEND_MESSAGE.name: SEND,
        ops.SEND_STREAMING_MESSAGE.name: SEND,
    },
    cards=CARDS,
)
