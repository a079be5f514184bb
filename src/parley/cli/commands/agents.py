"""`parley agents`: finds agents in a catalogue, and registers agents with a host.

`find` and `show` ask a host, or read any AI Catalog; `add` and `remove` change what a tenant of a host has registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.text import Text

from parley.ai_catalog.names import named_in_catalog
from parley.cli.admin.host_connection import HostConnection, HostRefusedError, WithHostConnection
from parley.cli.admin.reply_text import show_members
from parley.cli.admin.typer_commands import EXIT_CODES
from parley.cli.commands.card import show_card
from parley.cli.options.client import AllowPrivate, CatalogChoice, ClientOptions, Token
from parley.cli.options.groups import OptionGroup, with_option_groups
from parley.cli.output.exit_codes import DONE
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.transcript import console, print_json
from parley.dialects.v1_0 import DIALECT
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.client.discovery.catalog_reader import CatalogListing
    from parley.client.transports.transport import CallOptions

PAGE = 100
REGISTERED = "/v1/catalog/agents"

app = typer.Typer(
    cls=ParleyGroup,
    help="Find agents in a catalogue, and register agents with a host.",
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object per line.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPlace:
    """Where agents are looked for: in a catalogue, or in that of a host's tenant."""

    connection: HostConnection
    catalog: str | None
    allow_private: bool

    @property
    def url(self) -> str:
        """The URL of the catalogue."""
        return self.catalog or f"{self.connection.url}/v1/catalog"

    async def read(self) -> CatalogListing:
        """The catalogue, and those that it names. The token goes to its own origin, if that demands one."""
        from parley.client.credentials.origins import origin_of
        from parley.client.discovery.catalog_reader import CatalogReader, catalog_url
        from parley.client.guard import Guard
        from parley.client.transports.connections import Connections

        url, token = catalog_url(self.url), self.connection.token

        async def authenticate(called: str, sent: CallOptions) -> CallOptions:
            if not token or origin_of(called) != origin_of(url):
                return sent
            return replace(sent, headers={**sent.headers, "authorization": f"Bearer {token}"})

        connections = Connections(guard=Guard(allow_private=self.allow_private))
        try:
            return await CatalogReader(connections, authenticate=authenticate).read(url)
        finally:
            await connections.close()

    def client_options(self, name: str) -> ClientOptions:
        """How the agent of a name is called."""
        from parley.client.discovery.catalog_reader import catalog_url

        return ClientOptions(
            url=named_in_catalog(catalog_url(self.url), name),
            token=self.connection.token or None,
            allow_private=self.allow_private,
        )


def tenant_connection(connection: WithHostConnection, token: Token = None) -> HostConnection:
    """The connection to a host with the token of a tenant, if one is given."""
    return connection if token is None else replace(connection, token=token)


WithTenantConnection = Annotated[HostConnection, OptionGroup(tenant_connection)]


def catalog_place(
    connection: WithHostConnection,
    token: Token = None,
    catalog: CatalogChoice = None,
    allow_private: AllowPrivate = False,
) -> CatalogPlace:
    """Build the value from the options. The operator's token is for the host, and never for another catalogue."""
    found = tenant_connection(connection, token) if catalog is None else replace(connection, token=token or "")
    return CatalogPlace(connection=found, catalog=catalog, allow_private=allow_private)


WithCatalogPlace = Annotated[CatalogPlace, OptionGroup(catalog_place)]


# --- find and show ----------------------------------------------------------------------------------------------------


@app.command("find", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def find(
    options: WithCatalogPlace,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Words to look for.")] = None,
    skill: Annotated[str, typer.Option(metavar="ID", help="Only agents with this skill.", show_default=False)] = "",
    tag: Annotated[str, typer.Option(metavar="TAG", help="Only agents with this tag.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The maximum number of entries.")] = 50,
    as_json: AsJson = False,
) -> int:
    """Find agents by text, skill and tag, the best first; without any of them, list all.

    \b
    Examples:
      parley agents find convert money --host https://agents.example.com --token "$TOKEN"
      parley agents find --tag weather --catalog https://agents.example.com
      parley agents find --catalog localhost:8080 --json | jq -r .identifier
    """
    query = {"q": " ".join(text or ()), "skill": skill, "tag": tag}
    search = _in_host if options.catalog is None else _in_catalog
    found = await search(options, query, limit)
    for hit in found:
        if as_json:
            print_json(msgspec.json.encode(hit))
        else:
            console().print(_row(hit))
    if not found and not as_json:
        console(stderr=True).print("No agent was found.")
    return DONE


async def _in_host(place: CatalogPlace, query: dict[str, str], limit: int) -> Sequence[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None and len(found) < limit:
        page = {**query, "limit": str(min(limit - len(found), PAGE)), "offset": str(offset)}
        reply = msgspec.json.decode((await place.connection.call("GET", "/v1/catalog/search", query=page)).content)
        found += reply["entries"]
        offset = reply["next_offset"]
    return found


async def _in_catalog(place: CatalogPlace, query: dict[str, str], limit: int) -> Sequence[dict[str, Any]]:
    from parley.ai_catalog.search import search, searched
    from parley.host.api.catalog_views import hit_view

    listing = await place.read()
    for problem in listing.problems:
        console(stderr=True).print(f"Note: {printable_line(problem)}")
    entries = [searched(entry) for entry in listing.entries]
    found = search(entries, text=query["q"], skill=query["skill"], tag=query["tag"])
    return [msgspec.to_builtins(hit_view(entry, "catalog")) for entry in found[:limit]]


def _row(hit: dict[str, Any]) -> Text:
    name = printable_line(str(hit.get("name") or hit["identifier"]))
    kind = "" if hit["is_callable"] else f" ({printable_line(str(hit['media_type']))})"
    described = printable_line(
        f"{hit['display_name']}: {hit['description']}" if hit["description"] else hit["display_name"]
    )
    short = described if len(described) <= 100 else f"{described[:99]}…"
    return Text.assemble((name, "cyan"), f"{kind}  {short}")


@app.command("show", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def show(options: WithCatalogPlace, name: Name, as_json: AsJson = False) -> int:
    """Show an agent of a catalogue: its card, or if it is registered with the host, what the host knows of it.

    \b
    Examples:
      parley agents show currency --host https://agents.example.com --token "$TOKEN"
      parley agents show urn:air:agents.example.com:agent:currency --catalog https://agents.example.com
    """
    registered = None if options.catalog is not None else await _registered(options.connection, name)
    if registered is not None:
        _show(registered, as_json=as_json)
        return DONE
    found = options.client_options(name)
    async with found.client() as client:
        card = client.card
    if as_json:
        print_json(DIALECT.encode_card(card))
    else:
        show_card(card, found, console())
    return DONE


async def _registered(connection: HostConnection, name: str) -> dict[str, Any] | None:
    """What a host knows of an agent that was registered; None if there is no such agent."""
    try:
        reply = await connection.call("GET", f"{REGISTERED}/{quote(name, safe='')}")
    except HostRefusedError as error:
        if "(HTTP 404)" in error.message:
            return None
        raise
    return msgspec.json.decode(reply.content)


# --- add and remove ---------------------------------------------------------------------------------------------------


@app.command("add", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def add(
    options: WithTenantConnection,
    url: Annotated[str, typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.")],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How agents of the tenant call it.", show_default="as its card says"),
    ] = None,
    agent_token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar="PARLEY_AGENT_TOKEN",
            help="The token that the agent gets, or an API key, as its card requires.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Register an agent with a host: its card is checked, and watched from then on.

    \b
    Examples:
      parley agents add https://weather.example.com --name weather --token "$TOKEN"
      PARLEY_AGENT_TOKEN=… parley agents add https://billing.example.com --host https://agents.example.com
    """
    body: dict[str, Any] = {"url": url}
    if name is not None:
        body["name"] = name
    if agent_token is not None:
        body["credentials"] = {"token": agent_token}
    reply = await options.call("POST", REGISTERED, body=body)
    _show(msgspec.json.decode(reply.content), as_json=as_json)
    return DONE


@app.command("remove", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def remove(options: WithTenantConnection, name: Name, as_json: AsJson = False) -> int:
    """Remove a registered agent, and its token, from a host.

    \b
    Example:
      parley agents remove weather --token "$TOKEN"
    """
    reply = await options.call("DELETE", f"{REGISTERED}/{quote(name, safe='')}")
    _show(msgspec.json.decode(reply.content), as_json=as_json)
    return DONE


def _show(value: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode(value))
    else:
        show_members(value)
