"""Everything about an agent's card: decoded, as it is served, its problems, its signature, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct

from parley.check.card_documents import find_faulty_document
from parley.check.card_problems import CardReader
from parley.check.endpoints.discovery import verify_document
from parley.client.discovery.discovery import Authenticate, DiscoveredCard, Discovery
from parley.client.discovery.signatures import SignaturePolicy
from parley.client.guard import Guard
from parley.client.options import Retries
from parley.client.transports.connections import Connections
from parley.console.agents.connection import TIMEOUTS
from parley.console.agents.schemes import AgentSchemeView, view_schemes
from parley.dialects.v1_0 import DIALECT
from parley.protocol.cards import AgentCard, AgentInterface
from parley.protocol.errors import ParleyError, PeerProtocolError, SignatureInvalidError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.safe_text import printable_line
from parley.server.app import App

RETRIES = Retries(attempts=2)

UNSIGNED_POLICY = SignaturePolicy(mode="off")
"""Every card is shown, also an unsigned one; the report says whether the signature is valid."""

MOST_TEXT = 1_000


class ProblemView(Struct, frozen=True):
    """A problem, as `parley card` names it."""

    message: str
    is_fatal: bool


class SignatureView(Struct, frozen=True):
    """Whether a card is signed, and by whom."""

    state: Literal["valid", "invalid", "unsigned", "unknown_key"]
    detail: str


class InterfaceView(Struct, frozen=True):
    """One way to call the agent."""

    url: str
    binding: str
    version: str
    tenant: str | None
    is_used: bool


@dataclass(frozen=True, slots=True)
class CardReport:
    """What a card says, and what is wrong with it."""

    card: AgentCard | None
    card_version: str
    raw: JsonValue
    problems: list[ProblemView]
    signature: SignatureView
    interfaces: list[InterfaceView]
    schemes: list[AgentSchemeView]
    error: ParleyError | None = None
    """Why there is no card."""

    @property
    def card_json(self) -> JsonObject | None:
        """The card in the JSON of A2A 1.0."""
        return None if self.card is None else msgspec.json.decode(DIALECT.encode_card(self.card))


PUBLISHED = "which the agent's own host publishes"

UNSIGNED = SignatureView("unsigned", "The card is not signed.")


async def report_card(
    url: str,
    guard: Guard,
    *,
    authenticate: Authenticate | None = None,
    app: App | None = None,
    policy: SignaturePolicy | None = None,
    private_hint: str = "",
    used: AgentInterface | None = None,
) -> CardReport:
    """The report on the card at a URL, or in process at a URL of `app`. It raises nothing that the agent causes."""
    connections = Connections(guard=guard, timeouts=TIMEOUTS, app=app)
    discovery = Discovery(connections, UNSIGNED_POLICY, authenticate=authenticate, retries=RETRIES)
    try:
        try:
            found = await discovery.find(url)
        except SignatureInvalidError:
            raise
        except PeerProtocolError as error:
            return await _faulty_report(url, connections, error)
        except ParleyError as error:
            return CardReport(None, "", None, [], UNSIGNED, [], view_schemes(None), error)
        reader = CardReader(url=url, guard=guard, private_hint=private_hint)
        signature = await signature_of(found.document, connections, policy or SignaturePolicy())
        return _report(found, reader, signature, used)
    finally:
        await connections.close()


async def _faulty_report(url: str, connections: Connections, error: PeerProtocolError) -> CardReport:
    found = await find_faulty_document(url, connections)
    message = error.message if found is None else found.describe(error)
    problem = ProblemView(printable_line(message[:MOST_TEXT]), is_fatal=True)
    version = "" if found is None else found.version.value
    raw: Any = None if found is None else found.members
    return CardReport(None, version, raw, [problem], UNSIGNED, [], view_schemes(None), error)


def _report(
    found: DiscoveredCard, reader: CardReader, signature: SignatureView, used: AgentInterface | None
) -> CardReport:
    card = found.card
    used = used or reader.called_interface(card)
    return CardReport(
        card=card,
        card_version=found.version.value,
        raw=msgspec.json.decode(found.document),
        problems=_problems(card, reader),
        signature=signature,
        interfaces=[_interface(face, is_used=face is used) for face in card.interfaces],
        schemes=view_schemes(card),
    )


def _problems(card: AgentCard, reader: CardReader) -> list[ProblemView]:
    return [ProblemView(printable_line(one.message[:MOST_TEXT]), one.is_fatal) for one in reader.problems(card)]


def _interface(face: AgentInterface, *, is_used: bool) -> InterfaceView:
    return InterfaceView(face.url, str(face.binding), str(face.version), face.tenant, is_used)


async def signature_of(document: bytes, connections: Connections, policy: SignaturePolicy) -> SignatureView:
    """Whether the signature of a card is valid, by keys of the policy or keys that the agent's own host publishes."""
    found = await verify_document(document, connections, policy)
    if found.signature is not None:
        key = printable_line(found.signature.header.key_id[:200])
        whose = "a key that this server trusts" if found.signature.header.key_id in policy.keys else PUBLISHED
        return SignatureView("valid", f"Signed with the key {key}, {whose}.")
    if found.reason == "the card is not signed":
        return UNSIGNED
    reason = printable_line(found.reason[:MOST_TEXT])
    return SignatureView("invalid" if found.is_certain else "unknown_key", f"{reason[:1].upper()}{reason[1:]}.")
