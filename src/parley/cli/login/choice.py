"""Chooses the schemes to log in for, and the flow of OAuth 2.0."""

from __future__ import annotations

from dataclasses import dataclass

from parley.cli.options.client import ClientOptions
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

UNSUPPORTED = 9
"""The rank of a scheme that has no login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOptions:
    """The options of `parley login`."""

    agent: ClientOptions
    scheme: str | None
    flow: Flow | None
    client: OAuthClient | None
    redirect: str | None
    opens_browser: bool


def chosen_requirement(card: AgentCard, options: LoginOptions) -> SecurityRequirement:
    """The schemes to log in for: the best of the card's alternatives.

    Raises:
        CredentialsError: no alternative can be met by a login.
    """
    schemes = schemes_for(card, options)
    declared: list[SecurityRequirement] = [{name: ()} for name in schemes]
    demanded = [requirement for requirement in card.security if requirement]
    if options.scheme is not None:
        if options.scheme not in schemes:
            known = ", ".join(map(repr, schemes)) or "none"
            raise CredentialsError(f"The card has no scheme {options.scheme!r}; it has {known}")
        return next({options.scheme: one[options.scheme]} for one in (*demanded, *declared) if options.scheme in one)
    alternatives = demanded or declared
    if not alternatives:
        return {}

    def rank(requirement: SecurityRequirement) -> int:
        return max(_rank(schemes[name], options) if name in schemes else UNSUPPORTED for name in requirement)

    best = min(alternatives, key=rank)
    if rank(best) == UNSUPPORTED:
        unexplained = next((name for one in alternatives for name in one if name not in schemes), None)
        if unexplained is not None:
            raise CredentialsError(f"The agent requires “{unexplained}”, which its card does not declare")
        cause = (
            f"offers no {options.flow} flow" if options.flow else "requires credentials that parley login cannot get"
        )
        raise CredentialsError(f"The agent {cause}")
    return best


def schemes_for(card: AgentCard, options: LoginOptions) -> dict[str, SecurityScheme]:
    """The card's schemes. A bearer scheme without an issuer counts as OAuth if the caller gives the issuer."""
    from parley.client.credentials.oauth import UNKNOWN_SERVER
    from parley.client.credentials.schemes import accepts_tokens, resolve_scheme

    schemes = {name: resolve_scheme(scheme) for name, scheme in card.security_schemes.items()}
    if options.client is None or options.client.issuer is None:
        return schemes
    return {
        name: UNKNOWN_SERVER if isinstance(scheme, HttpAuthScheme) and accepts_tokens(scheme) else scheme
        for name, scheme in schemes.items()
    }


def _rank(scheme: SecurityScheme, options: LoginOptions) -> int:
    """How suitable a scheme is: lower is better."""
    if isinstance(scheme, MutualTlsScheme):
        return UNSUPPORTED
    if not isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
        return UNSUPPORTED if options.flow else 0
    flows = flows_for(scheme, options)
    return _preferred(options).index(flows[0]) if flows else UNSUPPORTED


def flows_for(scheme: OAuth2Scheme | OpenIdConnectScheme, options: LoginOptions) -> list[Flow]:
    """The flows of a scheme, the best first; all of them if the card does not list them."""
    from parley.client.credentials.oauth import UNKNOWN_SERVER, flow_of

    is_bare = isinstance(scheme, OAuth2Scheme) and scheme.metadata_url and scheme.flows == OAuthFlows()
    if isinstance(scheme, OpenIdConnectScheme) or is_bare or scheme is UNKNOWN_SERVER:
        return list(_preferred(options))
    return [flow for flow in _preferred(options) if flow_of(scheme, flow) is not None]


def _preferred(options: LoginOptions) -> tuple[Flow, ...]:
    """The flows, the best first: a client with a secret needs no person; a person has a browser or a code."""
    if options.flow:
        return (options.flow,)
    people = (Flow.AUTHORIZATION_CODE, Flow.DEVICE_CODE)
    people = people if options.opens_browser else people[::-1]
    is_machine = options.client is not None and options.client.client_secret is not None
    return (Flow.CLIENT_CREDENTIALS, *people) if is_machine else people
