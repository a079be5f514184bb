"""The authorization server of an agent whose card names none: from the agent's protected resource metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from parley.cli.login.choice import LoginOptions
from parley.protocol.cards import AgentCard, HttpAuthScheme, SecurityScheme

if TYPE_CHECKING:
    from parley.client.transports.connections import Connections


async def with_server_of_metadata(card: AgentCard, options: LoginOptions, connections: Connections) -> AgentCard:
    """The card with the authorization server that the agent's metadata name, for schemes that take its tokens.

    A card that declares nothing gets a scheme `bearer`. Nothing changes if the caller has named the issuer or has no
    OAuth client, or if there are no such metadata.

    Raises:
        CredentialsError: the authorization server has no metadata.
        ForbiddenTargetError: it must not be called.
    """
    from parley.client.credentials.protected_resource import find_resource, scheme_of
    from parley.client.credentials.schemes import accepts_tokens, resolve_scheme

    if options.client is None or options.client.issuer is not None:
        return card
    declared: dict[str, SecurityScheme] = dict(card.security_schemes)
    if not declared and not card.security:
        declared = {"bearer": HttpAuthScheme("Bearer")}
    plain = [name for name, scheme in declared.items() if isinstance(resolve_scheme(scheme), HttpAuthScheme)]
    bearers = [name for name in plain if accepts_tokens(resolve_scheme(declared[name]))]
    found = await find_resource(connections.channel, options.agent.url) if bearers else None
    if found is None:
        return card
    server = await scheme_of(
        connections.channel, found, lambda url: connections.guard.check_interface(url, card_url=options.agent.url)
    )
    security = card.security or ({bearers[0]: found.scopes},)
    return structs.replace(card, security_schemes={**declared, **dict.fromkeys(bearers, server)}, security=security)
