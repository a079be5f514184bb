"""What to log in for: the schemes of a card that a login can meet, and the flows of OAuth 2.0 that fit who is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.errors import CredentialsError
from parley.protocol.cards import (
    AgentCard,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)

if TYPE_CHECKING:
    from parley.client.transports.connections import Tls

IMPOSSIBLE = 9
"""The rank of a scheme that nobody can log in for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How to log in."""

    url: str
    scheme: str | None
    flow: Flow | None
    client: OAuthClient | None
    redirect: str | None
    opens_browser: bool
    allow_private: bool
    tls: Tls | None = None


def chosen_requirement(card: AgentCard, wish: Wish) -> SecurityRequirement:
    """The schemes to log in for: the best alternative of the card that a login can meet.

    Raises:
        CredentialsError: there is none.
    """
    schemes = schemes_for(card, wish)
    declared: list[SecurityRequirement] = [{name: ()} for name in schemes]
    demanded = [requirement for requirement in card.security if requirement]
    if wish.scheme is not None:
        if wish.scheme not in schemes:
            known = ", ".join(map(repr, schemes)) or "none"
            raise CredentialsError(f"The card has no scheme {wish.scheme!r}; it has {known}")
        return next({wish.scheme: one[wish.scheme]} for one in (*demanded, *declared) if wish.scheme in one)
    alternatives = demanded or declared
    if not alternatives:
        return {}

    def rank(requirement: SecurityRequirement) -> int:
        return max(_rank(schemes[name], wish) if name in schemes else IMPOSSIBLE for name in requirement)

    best = min(alternatives, key=rank)
    if rank(best) == IMPOSSIBLE:
        unexplained = next((name for one in alternatives for name in one if name not in schemes), None)
        if unexplained is not None:
            raise CredentialsError(f"The agent demands “{unexplained}”, which its card does not explain")
        cause = f"offers no {wish.flow} flow" if wish.flow else "demands what cannot be logged in for"
        raise CredentialsError(f"The agent {cause}")
    return best


def schemes_for(card: AgentCard, wish: Wish) -> dict[str, SecurityScheme]:
    """The card's schemes. What wants tokens and does not say whose is OAuth for who knows the issuer."""
    from parley.client.credentials.oauth import UNKNOWN_SERVER
    from parley.client.credentials.schemes import accepts_tokens, resolve_scheme

    schemes = {name: resolve_scheme(scheme) for name, scheme in card.security_schemes.items()}
    if wish.client is None or wish.client.issuer is None:
        return schemes
    return {
        name: UNKNOWN_SERVER if isinstance(scheme, HttpAuthScheme) and accepts_tokens(scheme) else scheme
        for name, scheme in schemes.items()
    }


def _rank(scheme: SecurityScheme, wish: Wish) -> int:
    """How well a scheme fits who is there: a low number is good."""
    if isinstance(scheme, MutualTlsScheme):
        return IMPOSSIBLE
    if not isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
        return IMPOSSIBLE if wish.flow else 0
    flows = flows_for(scheme, wish)
    return _preferred(wish).index(flows[0]) if flows else IMPOSSIBLE


def flows_for(scheme: OAuth2Scheme | OpenIdConnectScheme, wish: Wish) -> list[Flow]:
    """The flows that a scheme offers, the best first; where the card leaves that to its server, all of them."""
    from parley.client.credentials.oauth import UNKNOWN_SERVER, flow_of

    is_bare = isinstance(scheme, OAuth2Scheme) and scheme.metadata_url and scheme.flows == OAuthFlows()
    if isinstance(scheme, OpenIdConnectScheme) or is_bare or scheme is UNKNOWN_SERVER:
        return list(_preferred(wish))
    return [flow for flow in _preferred(wish) if flow_of(scheme, flow) is not None]


def _preferred(wish: Wish) -> tuple[Flow, ...]:
    """The flows, the one that fits best first: a machine has a secret, a person a browser or a code."""
    if wish.flow:
        return (wish.flow,)
    people = (Flow.AUTHORIZATION_CODE, Flow.DEVICE_CODE)
    people = people if wish.opens_browser else people[::-1]
    is_machine = wish.client is not None and wish.client.client_secret is not None
    return (Flow.CLIENT_CREDENTIALS, *people) if is_machine else people
