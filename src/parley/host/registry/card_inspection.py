"""Fetches the card of an agent, guarded and verified, and makes sure that the agent can be called.

What is kept of it is a summary, with the faults that do not prevent calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress

from msgspec import structs

from parley.check.card_faults import repeated_skills, undeclared_schemes
from parley.client.discovery.signatures import SignaturePolicy
from parley.client.guard import HINT
from parley.dialects.v1_0 import DIALECT
from parley.host.data.registered_agents import CardSummary, SkillSummary
from parley.host.remote.client import remote_client, signature_policy
from parley.host.remote.config import RemoteAgentConfig
from parley.host.remote.known_card import ADVICE
from parley.protocol.cards import AgentCard, AgentSkill
from parley.protocol.errors import ParleyError, SignatureInvalidError
from parley.protocol.signing import signature_headers

MOST_SKILLS = 50
MOST_TAGS = 20
MOST_EXAMPLES = 5
MOST_LINE = 300
MOST_TEXT = 1_000


class CardRefusedError(ParleyError):
    """The card cannot be fetched, or the agent cannot be called."""


class SignatureRefusedError(CardRefusedError):
    """The card is not signed as the tenant demands."""


async def inspect_card(agent: RemoteAgentConfig, *, allowed_hosts: tuple[str, ...]) -> CardSummary:
    """The card of an agent that this host can call.

    Raises:
        SignatureRefusedError: its card is not signed as demanded.
        CardRefusedError: it has no card, cannot be reached, must not be called, or speaks nothing that we speak.
    """
    try:
        async with remote_client(agent, allowed_hosts=allowed_hosts, cards=None) as client:
            return summary_of(client.card, signature_policy(agent))
    except SignatureInvalidError as error:
        raise SignatureRefusedError(error.message) from error
    except ParleyError as error:
        raise CardRefusedError(error.message.replace(HINT, ADVICE)) from error


def summary_of(card: AgentCard, policy: SignaturePolicy) -> CardSummary:
    """What is kept of a card that the policy has accepted."""
    is_verified = policy.mode != "off" and policy.can_verify and bool(card.signatures)
    return CardSummary(
        name=card.name[:MOST_TEXT],
        description=card.description[:MOST_TEXT],
        version=card.version[:MOST_TEXT],
        skills=tuple([_skill(skill) for skill in card.skills[:MOST_SKILLS]]),
        organization=card.provider.organization[:MOST_TEXT] if card.provider is not None else "",
        signers=_signers(card),
        is_verified=is_verified,
        digest=hashlib.sha256(DIALECT.encode_card(structs.replace(card, signatures=()))).hexdigest(),
        problems=tuple(_problems(card)),
    )


def changes_between(accepted: CardSummary, found: CardSummary) -> str:
    """What has changed in a card, in words; empty if nothing has."""
    changes: list[str] = []
    if accepted.signers != found.signers:
        before, after = ", ".join(accepted.signers) or "no key", ", ".join(found.signers) or "no key"
        changes.append(f"it was signed with {before} and is signed with {after}")
    if accepted.digest != found.digest:
        shown = [
            name
            for name in ("name", "description", "version", "skills")
            if getattr(accepted, name) != getattr(found, name)
        ]
        changes.append(f"its {', '.join(shown) or 'interfaces or requirements'} changed")
    return "; ".join(changes)


def _skill(skill: AgentSkill) -> SkillSummary:
    return SkillSummary(
        id=skill.id[:100],
        name=skill.name[:200],
        description=skill.description[:MOST_LINE],
        tags=tuple([tag[:100] for tag in skill.tags[:MOST_TAGS]]),
        examples=tuple([example[:MOST_LINE] for example in skill.examples[:MOST_EXAMPLES]]),
    )


def _signers(card: AgentCard) -> tuple[str, ...]:
    with suppress(SignatureInvalidError):
        return tuple(sorted({header.key_id[:200] for header in signature_headers(DIALECT.encode_card(card))}))
    return ()


def _problems(card: AgentCard) -> Iterator[str]:
    missing = [name for name in ("name", "description", "version") if not getattr(card, name)]
    if missing:
        yield f"It lacks {', '.join(missing)}."
    if repeated := repeated_skills(card):
        yield f"More than one skill has the id {', '.join(repeated)[:200]}."
    if undeclared := undeclared_schemes(card):
        yield f"It requires {', '.join(undeclared)[:200]}, and declares no such security scheme."
