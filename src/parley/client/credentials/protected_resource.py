"""Finds out from an agent itself where its tokens come from: protected resource metadata, RFC 9728.

A 401 names the document; without one, it is at the well-known URL. The document counts only if it is about the agent
that was called. An authorization server that it names is treated like one in the agent's card: it may be asked for
tokens, but a client's secret goes there only if the caller named it, or it has the agent's own origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parley.client.credentials.oauth import Metadata, discover, get_json
from parley.client.credentials.origins import may_carry_secrets, origin_of
from parley.client.errors import CredentialsError
from parley.client.guard import read_target
from parley.client.transports.http import HttpChannel
from parley.protocol.cards import OAuth2Scheme, OAuthFlow, OAuthFlows
from parley.protocol.errors import quoted
from parley.protocol.jsonvalue import JsonValue

WELL_KNOWN = "/.well-known/oauth-protected-resource"

MAX_SERVERS = 3
"""Authorization servers that are tried, of those that the document names."""


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """What an agent says of the tokens that it accepts."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


def metadata_urls(agent_url: str) -> tuple[str, ...]:
    """Where the document of an agent may be: the URL that RFC 9728 section 3.1 makes of its own, and of its host."""
    target = read_target(agent_url)
    path = target.path.rstrip("/")
    return tuple(dict.fromkeys((f"{target.origin}{WELL_KNOWN}{path}", f"{target.origin}{WELL_KNOWN}")))


async def read_resource(channel: HttpChannel, url: str, agent_url: str) -> ProtectedResource:
    """The metadata at a URL, for an agent.

    Raises:
        CredentialsError: there is none, it is about another resource, or it names no authorization server.
    """
    status, facts = await get_json(channel, url)
    resource = facts.get("resource")
    if status != 200 or not isinstance(resource, str):
        raise CredentialsError(f"No protected resource metadata at {quoted(url)} (status {status})")
    if not _covers(resource, agent_url):
        raise CredentialsError(f"The metadata at {quoted(url)} are about another resource: {quoted(resource)}")
    servers = _texts(facts.get("authorization_servers"))[:MAX_SERVERS]
    if not servers:
        raise CredentialsError(f"The metadata at {quoted(url)} name no authorization server")
    return ProtectedResource(resource, servers, _texts(facts.get("scopes_supported")))


async def find_resource(channel: HttpChannel, agent_url: str) -> ProtectedResource | None:
    """The metadata of an agent from its well-known URLs; None if it has none that can be used."""
    for url in metadata_urls(agent_url):
        try:
            return await read_resource(channel, url, agent_url)
        except CredentialsError:
            continue
    return None


async def scheme_of(channel: HttpChannel, found: ProtectedResource, check: Callable[[str], None]) -> OAuth2Scheme:
    """The first authorization server that has metadata, as a card would declare it.

    Raises:
        CredentialsError: none has.
        ForbiddenTargetError: it must not be called.
    """
    for issuer in found.authorization_servers:
        if not may_carry_secrets(issuer):
            continue
        check(issuer)
        metadata = await discover(channel, issuer)
        if metadata is not None:
            return OAuth2Scheme(_flows(metadata, found.scopes))
    named = ", ".join(quoted(issuer) for issuer in found.authorization_servers)
    raise CredentialsError(f"The agent's authorization servers have no metadata: {named}")


def _flows(metadata: Metadata, scopes: tuple[str, ...]) -> OAuthFlows:
    described = dict.fromkeys(scopes, "")
    token_url = metadata.url("token_endpoint")
    login_url, device_url = metadata.url("authorization_endpoint"), metadata.url("device_authorization_endpoint")
    return OAuthFlows(
        authorization_code=OAuthFlow(described, login_url, token_url) if login_url else None,
        client_credentials=OAuthFlow(described, token_url=token_url),
        device_code=OAuthFlow(described, token_url=token_url, device_authorization_url=device_url)
        if device_url
        else None,
    )


def _covers(resource: str, agent_url: str) -> bool:
    """Whether a resource is the agent, or something that the agent is below: an app with several agents, or a host."""
    if "://" not in agent_url:  # a gRPC target, whose port is another one than that of HTTP
        return read_target(resource).host == read_target(f"https://{agent_url}").host
    if origin_of(resource) != origin_of(agent_url):
        return False
    path, below = read_target(resource).path.rstrip("/"), read_target(agent_url).path.rstrip("/")
    return below == path or below.startswith(f"{path}/")


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()
