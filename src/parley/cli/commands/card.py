"""`parley card`: who an agent is, where it listens, what it can do and demands, and whether its card is in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from parley.check.card_faults import intended_version, missing_members, repeated_skills, undeclared_schemes
from parley.cli.options.client import AsJson, Calling, HowToCall
from parley.cli.options.groups import unfolded
from parley.cli.output.exit_codes import DONE, REFUSED, run
from parley.cli.output.transcript import console, say_json, show_rows
from parley.client.errors import DiscoveryError, ForbiddenTargetError
from parley.dialects.v1_0 import DIALECT
from parley.protocol.cards import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    ApiKeyScheme,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityScheme,
)
from parley.protocol.errors import ParleyError, PeerProtocolError, SignatureInvalidError
from parley.safe_text import printable_json, printable_line

if TYPE_CHECKING:
    from parley.client.transports.connections import Connections


@unfolded
def card(
    how: HowToCall,
    extended: Annotated[bool, typer.Option("--extended", help="The card for authenticated callers.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show an agent's card: what it can do, where it listens, what it demands.

    The arrow is at the interface that a call goes to. What is not in order in the card stands below it, with --json on
    standard error. A card that nobody can call the agent by ends with 1.

    \b
    Examples:
      parley card http://127.0.0.1:8080
      parley card https://agents.example.com --extended --token "$TOKEN"
      parley card https://agents.example.com --json
    """
    run(_show(how, extended=extended, as_json=as_json), as_json=as_json, how=how)


async def _show(how: Calling, *, extended: bool, as_json: bool) -> int:
    found = await (_extended_card(how) if extended else _card(how))
    if as_json:
        say_json(DIALECT.encode_card(found))
        for problem in problems(found, how):
            typer.echo(printable_json(msgspec.json.encode({"problem": problem})).encode(), err=True)
    else:
        show_card(found, how, console())
    return DONE if _used(found, how) is not None else REFUSED


async def _card(how: Calling) -> AgentCard:
    """The card, also of an agent that this client could not talk to."""
    from parley.client.discovery.discovery import Discovery
    from parley.client.discovery.selection import newest_of
    from parley.client.transports.connections import Connections

    connections = Connections(timeouts=how.timeouts(), guard=how.guard(), tls=how.tls)
    try:
        return await Discovery(connections, version=newest_of(how.versions)).card(how.url)
    except SignatureInvalidError:
        raise
    except PeerProtocolError as error:
        raise await _explained(error, how.url, connections) from error
    except DiscoveryError:
        pass  # perhaps it is there for those only who say who they are
    finally:
        await connections.close()
    async with how.client() as client:
        return client.card


async def _explained(error: PeerProtocolError, target: str, connections: Connections) -> PeerProtocolError:
    """The same error with the URL of the card and all members that it lacks: a decoder stops at the first fault."""
    from parley.client.discovery.discovery import card_urls
    from parley.client.transports.transport import CallOptions

    sent = CallOptions({"accept": "application/json"}, timeout=connections.timeouts.card)
    for url in card_urls(target):
        with suppress(ParleyError, ValueError):
            reply = await connections.channel.exchange("GET", url, b"", sent, limit=connections.bounds.card_bytes)
            value: Any = msgspec.json.decode(reply.body) if reply.status == 200 else None
            if isinstance(value, dict):
                members = cast(dict[str, Any], value)
                missing = ", ".join(missing_members(members, intended_version(members, reply.body)))
                also = f"; it lacks {missing}" if missing else ""
                return PeerProtocolError(f"The card at {url.partition('?')[0]} is not in order: {error}{also}")
    return error


async def _extended_card(how: Calling) -> AgentCard:
    async with how.client() as client:
        return await client.get_extended_card()


def show_card(found: AgentCard, how: Calling, to: Console) -> None:
    """Show a card to people."""
    to.print(Text.assemble((printable_line(found.name), "bold"), f" {printable_line(found.version)}"))
    if found.description:
        to.print(Text(printable_line(found.description)))
    to.print()
    show_rows(to, _facts(found))
    to.print(Text("\nInterfaces", "bold"))
    used = _used(found, how)
    for face in found.interfaces:
        mark = "→" if face is used else " "
        tenant = f"  tenant {printable_line(face.tenant)}" if face.tenant else ""
        name = f"{printable_line(face.binding)} {printable_line(face.version)}"
        to.print(Text.assemble((mark, "green"), f" {name:<14} {printable_line(face.url)}{tenant}"))
    if found.skills:
        to.print(Text("\nSkills", "bold"))
    for skill in found.skills:
        to.print(Text.assemble("  ", (printable_line(skill.id), "cyan"), f"  {printable_line(skill.name)}"))
        show_rows(to, _skill_facts(skill), width=14)
    if found.security_schemes or found.security:
        to.print(Text("\nSecurity", "bold"))
        show_rows(to, [(printable_line(name), describe(scheme)) for name, scheme in found.security_schemes.items()])
        show_rows(to, [("demanded", _demanded(found))])
    wrong = list(problems(found, how))
    to.print(Text("\nNot in order" if wrong else "\nThe card is in order.", "bold" if wrong else ""))
    for problem in wrong:
        to.print(Text.assemble(("! ", "yellow"), printable_line(problem)))


# --- whether it is in order -------------------------------------------------------------------------------------------


def problems(found: AgentCard, how: Calling) -> Iterator[str]:
    """What is not in order in a card, in sentences."""
    facts = {"name": found.name, "description": found.description, "version": found.version}
    if empty := [name for name, fact in facts.items() if not fact]:
        yield f"It lacks {', '.join(empty)}."
    if not found.interfaces:
        yield "It lists no interfaces: nobody can call the agent."
    elif not _spoken(found, how):
        yield "It lists no interface that this client speaks, or that you asked for."
    for face in found.interfaces:
        if face.binding in list(Binding) and (reason := _refusal(face, how)):
            yield f"{face.url} is not called: {reason}"
    if repeated := repeated_skills(found):
        yield f"More than one skill has the id {', '.join(repeated)}."
    if undeclared := undeclared_schemes(found):
        yield f"It demands {', '.join(undeclared)}, and declares no such security scheme."
    if not found.skills:
        yield "It lists no skills."


def _spoken(found: AgentCard, how: Calling) -> list[AgentInterface]:
    """The interfaces that this client speaks, in the order in which they are tried."""
    from parley.client.discovery.selection import interfaces_in_order

    try:
        order = interfaces_in_order(found, bindings=how.bindings, versions=how.versions)
    except PeerProtocolError:
        return []
    return [face for face, _ in order]


def _used(found: AgentCard, how: Calling) -> AgentInterface | None:
    """The interface that a call would go to."""
    return next((face for face in _spoken(found, how) if not _refusal(face, how)), None)


def _refusal(face: AgentInterface, how: Calling) -> str:
    """Why the guard does not let a call go to an interface, and what would; empty if it does."""
    from parley.client.guard import Guard

    try:
        how.guard().check_interface(face.url, card_url=how.url)
    except ForbiddenTargetError as error:
        reason = error.message.partition(";")[0]
    else:
        return ""
    try:
        Guard(allow_private=True).check_interface(face.url, card_url=how.url)
    except ForbiddenTargetError:
        return f"{reason}."
    return f"{reason}. --allow-private allows it."


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
