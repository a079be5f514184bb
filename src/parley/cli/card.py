"""`parley card`: who an agent is, where it listens, what it can do and what it demands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from parley.cli.calling import AsJson, Calling, HowToCall
from parley.cli.ending import DONE, run
from parley.cli.harmless import harmless_line
from parley.cli.option_groups import unfolded
from parley.cli.transcript import console, say_json, show_rows
from parley.client.errors import DiscoveryError
from parley.dialects.v1_0 import DIALECT
from parley.protocol.cards import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    ApiKeyScheme,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityScheme,
)
from parley.protocol.errors import PeerProtocolError


@unfolded
def card(
    how: HowToCall,
    extended: Annotated[bool, typer.Option("--extended", help="The card for authenticated callers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show an agent's card: what it can do, where it listens, what it demands.

    \b
    Examples:
      parley card http://127.0.0.1:8080
      parley card https://agents.example.com --extended --token "$TOKEN"
      parley card https://agents.example.com --json
    """
    run(_show(how, extended=extended, as_json=as_json), as_json=as_json)


async def _show(how: Calling, *, extended: bool, as_json: bool) -> int:
    found = await (_extended_card(how) if extended else _card(how))
    if as_json:
        say_json(DIALECT.encode_card(found))
    else:
        show_card(found, how, console())
    return DONE


async def _card(how: Calling) -> AgentCard:
    """The card, also of an agent that this client could not talk to."""
    from parley.client.connecting import Connections
    from parley.client.discovery import Discovery
    from parley.client.selection import newest_of

    connections = Connections(timeouts=how.timeouts(), guard=how.guard(), tls=how.tls)
    try:
        return await Discovery(connections, version=newest_of(how.versions)).card(how.url)
    except DiscoveryError:
        pass  # perhaps it is there for those only who say who they are
    finally:
        await connections.close()
    async with how.client() as client:
        return client.card


async def _extended_card(how: Calling) -> AgentCard:
    async with how.client() as client:
        return await client.get_extended_card()


def show_card(found: AgentCard, how: Calling, to: Console) -> None:
    """Show a card to people."""
    to.print(Text.assemble((harmless_line(found.name), "bold"), f" {harmless_line(found.version)}"))
    if found.description:
        to.print(Text(harmless_line(found.description)))
    to.print()
    show_rows(to, _facts(found))
    to.print(Text("\nInterfaces", "bold"))
    used = _used(found, how)
    for face in found.interfaces:
        mark = "→" if face is used else " "
        tenant = f"  tenant {harmless_line(face.tenant)}" if face.tenant else ""
        name = f"{harmless_line(face.binding)} {harmless_line(face.version)}"
        to.print(Text.assemble((mark, "green"), f" {name:<14} {harmless_line(face.url)}{tenant}"))
    if found.skills:
        to.print(Text("\nSkills", "bold"))
    for skill in found.skills:
        to.print(Text.assemble("  ", (harmless_line(skill.id), "cyan"), f"  {harmless_line(skill.name)}"))
        show_rows(to, _skill_facts(skill), width=14)
    if found.security_schemes:
        to.print(Text("\nSecurity", "bold"))
        show_rows(to, [(harmless_line(name), describe(scheme)) for name, scheme in found.security_schemes.items()])
        show_rows(to, [("demanded", _demanded(found))])


def _used(found: AgentCard, how: Calling) -> AgentInterface | None:
    """The interface that a call would go to."""
    from parley.client.selection import interfaces_in_order

    try:
        order = interfaces_in_order(found, bindings=how.bindings, versions=how.versions)
    except PeerProtocolError:
        return None
    return order[0][0]


def _facts(found: AgentCard) -> Iterator[tuple[str, str]]:
    if found.provider:
        yield "provider", f"{found.provider.organization} {found.provider.url}"
    if found.documentation_url:
        yield "docs", found.documentation_url
    yield "can", ", ".join(_capabilities(found.capabilities)) or "answer"
    yield "takes", ", ".join(found.default_input_modes)
    yield "gives", ", ".join(found.default_output_modes)
    for extension in found.capabilities.extensions:
        yield "extension", f"{extension.uri}{' (required)' if extension.required else ''}"
    if found.signatures:
        yield "signatures", str(len(found.signatures))


def _capabilities(capabilities: AgentCapabilities) -> Iterator[str]:
    if capabilities.streaming:
        yield "stream"
    if capabilities.push_notifications:
        yield "push notifications"
    if capabilities.extended_card:
        yield "an extended card for authenticated callers"


def _skill_facts(skill: AgentSkill) -> Iterator[tuple[str, str]]:
    if skill.description and skill.description != skill.name:
        yield "  ", skill.description
    for example in skill.examples:
        yield "  such as", example
    if skill.tags:
        yield "  tags", ", ".join(skill.tags)


def describe(scheme: SecurityScheme) -> str:
    """A security scheme in words."""
    match scheme:
        case ApiKeyScheme():
            return f"API key in the {scheme.location} {scheme.name}"
        case HttpAuthScheme():
            return f"HTTP {scheme.scheme}{f' ({scheme.bearer_format})' if scheme.bearer_format else ''}"
        case OAuth2Scheme():
            return f"OAuth 2: {', '.join(_flows(scheme.flows)) or 'no flow'}"
        case OpenIdConnectScheme():
            return f"OpenID Connect at {scheme.url}"
        case MutualTlsScheme():
            return "a client certificate (mutual TLS)"


def _flows(flows: OAuthFlows) -> Iterator[str]:
    for name in flows.__struct_fields__:
        if getattr(flows, name) is not None:
            yield name.replace("_", " ")


def _demanded(found: AgentCard) -> str:
    ways = [
        " and ".join(f"{name} ({', '.join(scopes)})" if scopes else name for name, scopes in way.items()) or "nothing"
        for way in found.security
    ]
    return ", or ".join(ways) or "nothing"
