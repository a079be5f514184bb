"""Cards for encodings that allow one OAuth flow per scheme: 1.0 and both protobufs.

A scheme with several flows means "any of these"; so it becomes several schemes, and every requirement that names it
becomes one requirement per flow, up to `MAX_ALTERNATIVES`.
"""

from __future__ import annotations

from itertools import chain, count, product
from math import prod

from msgspec import structs

from parley.protocol.cards import AgentCard, OAuth2Scheme, OAuthFlows, SecurityRequirement, SecurityScheme

FLOW_NAMES = {
    "authorization_code": "authorizationCode",
    "client_credentials": "clientCredentials",
    "implicit": "implicit",
    "password": "password",
    "device_code": "deviceCode",
}


MAX_ALTERNATIVES = 32
"""How many requirements one may become: two schemes with all five flows make 25. They multiply with each scheme, and a
card may come from any server; beyond this the requirement keeps the first flow of each scheme."""


def one_flow_per_scheme(card: AgentCard) -> AgentCard:
    """The card with each multi-flow scheme split: `oauth` becomes `oauth`, `oauth-clientCredentials`, …"""
    schemes: dict[str, SecurityScheme] = {}
    alternatives: dict[str, list[str]] = {}
    taken = set(card.security_schemes)
    for name, scheme in card.security_schemes.items():
        split = _split(name, scheme, taken)
        alternatives[name] = list(split)
        schemes.update(split)
    if all(len(names) == 1 for names in alternatives.values()):
        return card
    return structs.replace(
        card,
        security_schemes=schemes,
        security=_expand(card.security, alternatives),
        skills=tuple(structs.replace(s, security=_expand(s.security, alternatives)) for s in card.skills),
    )


def _split(name: str, scheme: SecurityScheme, taken: set[str]) -> dict[str, SecurityScheme]:
    if not isinstance(scheme, OAuth2Scheme):
        return {name: scheme}
    flows = {attribute: flow for attribute in FLOW_NAMES if (flow := getattr(scheme.flows, attribute)) is not None}
    if len(flows) < 2:
        return {name: scheme}
    first = next(iter(flows))
    return {
        name if attribute == first else _unused(f"{name}-{FLOW_NAMES[attribute]}", taken): structs.replace(
            scheme, flows=OAuthFlows(**{attribute: flow})
        )
        for attribute, flow in flows.items()
    }


def _unused(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in count(2))
    free = next(candidate for candidate in chain([name], numbered) if candidate not in taken)
    taken.add(free)
    return free


def _expand(
    requirements: tuple[SecurityRequirement, ...], alternatives: dict[str, list[str]]
) -> tuple[SecurityRequirement, ...]:
    expanded: list[SecurityRequirement] = []
    for requirement in requirements:
        choices = [alternatives.get(name, [name]) for name in requirement]
        if prod(map(len, choices)) > MAX_ALTERNATIVES:
            expanded.append(requirement)
        else:
            expanded += [dict(zip(names, requirement.values(), strict=True)) for names in product(*choices)]
    return tuple(expanded)
