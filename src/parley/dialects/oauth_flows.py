"""Cards for encodings that allow one OAuth flow per scheme: 1.0 and both protobufs.

A scheme with several flows means "any of these"; so it becomes several schemes, and every requirement that names it
becomes one requirement per flow.
"""

from __future__ import annotations

from itertools import product

from msgspec import structs

from parley.protocol.cards import AgentCard, OAuth2Scheme, OAuthFlows, SecurityRequirement, SecurityScheme

FLOW_NAMES = {
    "authorization_code": "authorizationCode",
    "client_credentials": "clientCredentials",
    "implicit": "implicit",
    "password": "password",
    "device_code": "deviceCode",
}


def one_flow_per_scheme(card: AgentCard) -> AgentCard:
    """The card with each multi-flow scheme split: `oauth` becomes `oauth`, `oauth-clientCredentials`, …"""
    schemes: dict[str, SecurityScheme] = {}
    alternatives: dict[str, list[str]] = {}
    for name, scheme in card.security_schemes.items():
        split = _split(name, scheme)
        alternatives[name] = list(split)
        schemes.update(split)
    if len(schemes) == len(card.security_schemes):
        return card
    return structs.replace(
        card,
        security_schemes=schemes,
        security=_expand(card.security, alternatives),
        skills=tuple(structs.replace(s, security=_expand(s.security, alternatives)) for s in card.skills),
    )


def _split(name: str, scheme: SecurityScheme) -> dict[str, SecurityScheme]:
    if not isinstance(scheme, OAuth2Scheme):
        return {name: scheme}
    flows = {attribute: flow for attribute in FLOW_NAMES if (flow := getattr(scheme.flows, attribute)) is not None}
    if len(flows) < 2:
        return {name: scheme}
    first = next(iter(flows))
    return {
        name if attribute == first else f"{name}-{FLOW_NAMES[attribute]}": structs.replace(
            scheme, flows=OAuthFlows(**{attribute: flow})
        )
        for attribute, flow in flows.items()
    }


def _expand(
    requirements: tuple[SecurityRequirement, ...], alternatives: dict[str, list[str]]
) -> tuple[SecurityRequirement, ...]:
    return tuple(
        dict(zip(names, requirement.values(), strict=True))
        for requirement in requirements
        for names in product(*(alternatives.get(name, [name]) for name in requirement))
    )
