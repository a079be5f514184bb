"""What is wrong with a card, in sentences for people: `parley card` and the console show the same ones.

A problem is fatal if it keeps this client from calling the agent. The rules of the specification are in `rules`; a
check of a server reports those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parley.check.card_faults import repeated_skills, undeclared_schemes
from parley.client.discovery.selection import interfaces_in_order
from parley.client.errors import ForbiddenTargetError
from parley.client.guard import Guard
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import PeerProtocolError
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class CardProblem:
    """One problem of a card; a fatal one keeps this client from calling the agent."""

    message: str
    is_fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReader:
    """Who reads a card: the URL that it named, where its guard lets it go, and what it accepts (empty: everything).

    `private_hint` is what allows private addresses, for people: a sentence, or nothing.
    """

    url: str
    guard: Guard
    bindings: Sequence[Binding] = ()
    versions: Sequence[Version] = ()
    private_hint: str = ""

    def problems(self, card: AgentCard) -> Iterator[CardProblem]:
        """The problems of a card."""
        facts = {"name": card.name, "description": card.description, "version": card.version}
        if empty := [name for name, fact in facts.items() if not fact]:
            yield CardProblem(f"It lacks {', '.join(empty)}.")
        if not card.interfaces:
            yield CardProblem("It lists no interfaces, so the agent cannot be called.", is_fatal=True)
        elif not self.supported_interfaces(card):
            message = "It lists no interface that this client supports or that you asked for."
            yield CardProblem(message, is_fatal=True)
        is_callable = self.called_interface(card) is not None
        for face in card.interfaces:
            if face.binding in list(Binding) and (reason := self.refusal(face)):
                yield CardProblem(f"{face.url} is not called: {reason}", is_fatal=not is_callable)
        if repeated := repeated_skills(card):
            yield CardProblem(f"More than one skill has the id {', '.join(repeated)}.")
        if undeclared := undeclared_schemes(card):
            yield CardProblem(f"It requires {', '.join(undeclared)}, and declares no such security scheme.")
        if not card.skills:
            yield CardProblem("It lists no skills.")

    def supported_interfaces(self, card: AgentCard) -> list[AgentInterface]:
        """The interfaces that this client supports, in the order in which they are tried."""
        try:
            order = interfaces_in_order(card, bindings=self.bindings, versions=self.versions)
        except PeerProtocolError:
            return []
        return [face for face, _ in order]

    def called_interface(self, card: AgentCard) -> AgentInterface | None:
        """The interface that would be called."""
        return next((face for face in self.supported_interfaces(card) if not self.refusal(face)), None)

    def refusal(self, face: AgentInterface) -> str:
        """Why the guard forbids an interface, and what allows it; empty if it is allowed."""
        try:
            self.guard.check_interface(face.url, card_url=self.url)
        except ForbiddenTargetError as error:
            reason = error.message.partition(";")[0]
        else:
            return ""
        try:
            Guard(allow_private=True).check_interface(face.url, card_url=self.url)
        except ForbiddenTargetError:
            return f"{reason}."
        return f"{reason}. {self.private_hint}".rstrip()
