"""`parley card`: shows an agent's card and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from parley.cli.options.client import AsJson, ClientOptions, WithClientOptions
from parley.cli.options.groups import with_option_groups
from parley.cli.output.exit_codes import DONE, FAILED
from parley.cli.output.transcript import console, print_json, show_rows
from parley.client.errors import DiscoveryError, ForbiddenTargetError
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
from parley.protocol.errors import PeerProtocolError, SignatureInvalidError
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.check.card_problems import CardReader
    from parley.client.transports.connections import Connections

CAPABILITIES = ("streaming", "push_notifications", "extended_card")


@with_option_groups
async def card(
    options: WithClientOptions,
    extended: Annotated[bool, typer.Option("--extended", help="The card for authenticated callers.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show an agent's card: its interfaces, skills and security requirements.

    The arrow marks the interface that the other commands call. Problems of the card are listed below it, with --json on
    standard error. The exit code is 1 if the card has no interface that can be called.

    \b
    Examples:
      parley card http://127.0.0.1:8080
      parley card https://agents.example.com --extended --token "$TOKEN"
      parley card https://agents.example.com --json
    """
    found = await (_extended_card(options) if extended else _card(options))
    if as_json:
        print_json(DIALECT.encode_card(found))
        for problem in problems(found, options):
            print_json(msgspec.json.encode({"problem": problem}), err=True)
    else:
        show_card(found, options, console())
    return DONE if _called_interface(found, options) is not None else FAILED


async def _card(options: ClientOptions) -> AgentCard:
    """The card, even if this client could not call the agent."""
    if options.has_credentials or options.named_url != options.url:
        # Otherwise a host's own card would be shown, which is for everyone, instead of its agent's, which is not.
        with suppress(PeerProtocolError, ForbiddenTargetError):
            async with options.client() as client:
                return client.card
    from parley.client.discovery.discovery import Discovery
    from parley.client.discovery.selection import newest_of
    from parley.client.transports.connections import Connections

    connections = Connections(timeouts=options.timeouts(), guard=options.guard(), tls=options.tls)
    try:
        return await Discovery(connections, version=newest_of(options.versions)).card(options.url)
    except SignatureInvalidError:
        raise
    except PeerProtocolError as error:
        raise await _with_missing_members(error, options.url, connections) from error
    except DiscoveryError:
        pass  # it may require credentials
    finally:
        await connections.close()
    async with options.client() as client:
        return client.card


async def _with_missing_members(error: PeerProtocolError, target: str, connections: Connections) -> PeerProtocolError:
    """The same error with the URL of the card and all members that it lacks: a decoder stops at the first fault."""
    from parley.check.card_documents import find_faulty_document

    found = await find_faulty_document(target, connections)
    return error if found is None else PeerProtocolError(found.describe(error))


async def _extended_card(options: ClientOptions) -> AgentCard:
    async with options.client() as client:
        return await client.get_extended_card()


def show_card(found: AgentCard, options: ClientOptions, to: Console) -> None:
    """Print a card for people."""
    to.print(Text.assemble((printable_line(found.name), "bold"), f" {printable_line(found.version)}"))
    if found.description:
        to.print(Text(printable_line(found.description)))
    to.print()
    show_rows(to, _facts(found))
    to.print(Text("\nInterfaces", "bold"))
    used = _called_interface(found, options)
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
        show_rows(to, [("required", _requirements(found))])
    wrong = list(problems(found, options))
    to.print(Text("\nProblems" if wrong else "\nThe card has no problems.", "bold" if wrong else ""))
    for problem in wrong:
        to.print(Text.assemble(("! ", "yellow"), printable_line(problem)))


# --- problems of a card -------------------------------------------------------------------------------------------


def problems(found: AgentCard, options: ClientOptions) -> Iterator[str]:
    """The problems of a card, in sentences."""
    return (problem.message for problem in _reader(options).problems(found))


def _called_interface(found: AgentCard, options: ClientOptions) -> AgentInterface | None:
    """The interface that would be called."""
    return _reader(options).called_interface(found)


def _reader(options: ClientOptions) -> CardReader:
    from parley.check.card_problems import CardReader

    return CardReader(
        url=options.named_url,
        guard=options.guard(),
        bindings=options.bindings,
        versions=options.versions,
        private_hint="--allow-private allows it.",
    )


def _facts(found: AgentCard) -> Iterator[tuple[str, str]]:
    if found.provider:
        yield "provider", f"{found.provider.organization} {found.provider.url}"
    if found.documentation_url:
        yield "docs", found.documentation_url
    yield "features", _present(found.capabilities, CAPABILITIES) or "–"
    yield "input", ", ".join(found.default_input_modes)
    yield "output", ", ".join(found.default_output_modes)
    for extension in found.capabilities.extensions:
        yield "extension", f"{extension.uri}{' (required)' if extension.required else ''}"
    if found.signatures:
        yield "signatures", str(len(found.signatures))


def _skill_facts(skill: AgentSkill) -> Iterator[tuple[str, str]]:
    if skill.description and skill.description != skill.name:
        yield "  ", skill.description
    for example in skill.examples:
        yield "  example", example
    if skill.tags:
        yield "  tags", ", ".join(skill.tags)


def describe(scheme: SecurityScheme) -> str:
    """A security scheme, for people."""
    match scheme:
        case ApiKeyScheme():
            return f"API key in the {scheme.location} {scheme.name}"
        case HttpAuthScheme():
            return f"HTTP {scheme.scheme}{f' ({scheme.bearer_format})' if scheme.bearer_format else ''}"
        case OAuth2Scheme():
            return f"OAuth 2: {_present(scheme.flows, scheme.flows.__struct_fields__) or 'no flow'}"
        case OpenIdConnectScheme():
            return f"OpenID Connect at {scheme.url}"
        case MutualTlsScheme():
            return "a client certificate (mutual TLS)"


def _present(value: AgentCapabilities | OAuthFlows, names: Iterable[str]) -> str:
    """Those of these members that are set, for people."""
    return ", ".join(name.replace("_", " ") for name in names if getattr(value, name))


def _requirements(found: AgentCard) -> str:
    ways = [
        " and ".join(f"{name} ({', '.join(scopes)})" if scopes else name for name, scopes in way.items()) or "nothing"
        for way in found.security
    ]
    return ", or ".join(ways) or "nothing"
