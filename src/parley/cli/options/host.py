"""The options of a host that `parley up` has and other servers do not: agents, models, tools, and tokens.

They are checked here and nothing is loaded. Large modules are imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.options.groups import OptionGroup
from parley.cli.options.limits import NO_CHANGES
from parley.cli.options.quotas import WithQuotas
from parley.cli.options.server import host_names
from parley.cli.output.help_text import Section
from parley.host.data.tenant import Quotas
from parley.host.fair_gate import RUNS_AT_ONCE

if TYPE_CHECKING:
    from parley.host.commands.search_hits import SearchProvider
    from parley.host.models.endpoints import OpenAiCompatible


@dataclass(frozen=True, slots=True)
class AgentTarget:
    """An agent of Python, as `module:agent`, for one tenant or, if that is None, for all."""

    target: str
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What a host has besides a server."""

    agents: tuple[AgentTarget, ...]
    public_agents: tuple[str, ...]
    remote_agents: Path | None
    """None for the usual file."""
    mcp_servers: Path | None
    """None for the usual file."""
    has_starters: bool
    model: str | None
    openai_compatible: tuple[OpenAiCompatible, ...]
    prices: Path | None
    search: SearchProvider | None
    fetch_hosts: tuple[str, ...]
    admin_token_file: Path | None
    """None for a file beside the store."""
    tenant_token_file: Path | None
    people: Path | None
    quotas: Quotas
    runs_at_once: int

    @property
    def people_file(self) -> Path | None:
        """The file with the issuers of people."""
        return None if self.people is None else self.people.expanduser()


_agents = partial(typer.Option, rich_help_panel=Section.AGENTS)
_models = partial(typer.Option, rich_help_panel=Section.MODELS)
_tenants = partial(typer.Option, rich_help_panel=Section.TENANTS)
_tasks = partial(typer.Option, rich_help_panel=Section.TASKS)


def host_options(
    agents: Annotated[
        list[str] | None,
        _agents(metavar="TARGET", help="Host this agent for all tenants: module:agent or file.py:agent; repeatable."),
    ] = None,
    tenant_agents: Annotated[
        list[str] | None,
        _agents(metavar="TENANT=TARGET", help="Host an agent for one tenant, which is named by its id; repeatable."),
    ] = None,
    public_agent: Annotated[
        list[str] | None,
        _agents(metavar="ID", help="List this one of --agents in the public catalogue; repeatable."),
    ] = None,
    remote_agents: Annotated[
        Path | None,
        _agents(
            metavar="FILE",
            help="The remote agents that may be called.",
            show_default="~/.parley/a2a_agents.json, if it exists",
        ),
    ] = None,
    mcp_servers: Annotated[
        Path | None,
        _agents(
            metavar="FILE",
            help="The MCP servers whose tools agents may use.",
            show_default="~/.parley/mcp_servers.json, if it exists",
        ),
    ] = None,
    starters: Annotated[bool, _agents(help="Give new tenants the starter agents.", show_default="on")] = True,
    model: Annotated[
        str | None,
        _models(
            metavar="MODEL",
            help="The model of index, and of agents that name none: openai/…, anthropic/…, google/…, ollama/….",
            show_default="parley/router, built in and offline",
        ),
    ] = None,
    openai_compatible: Annotated[
        list[str] | None,
        _models(
            metavar="PREFIX=URL[,VARIABLE]",
            help="Call models PREFIX/… at this URL, with the key in the variable; repeatable.",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        _models(metavar="FILE", help="Prices of models in TOML, which replace and add to those that Parley knows."),
    ] = None,
    search: Annotated[
        str | None,
        _models(metavar="PROVIDER", help="What agents search: local:DIR, searx:URL or brave.", show_default="nothing"),
    ] = None,
    fetch_host: Annotated[
        list[str] | None,
        _models(
            metavar="NAME",
            callback=host_names,
            help="Also let agents fetch pages of this host, private or not; .example.com for all subdomains.",
        ),
    ] = None,
    admin_token_file: Annotated[
        Path | None,
        _tenants(
            metavar="FILE",
            help="The file of the admin token, unless PARLEY_ADMIN_TOKEN has it; created when needed.",
            show_default="beside the store",
        ),
    ] = None,
    tenant_token_file: Annotated[
        Path | None, _tenants(metavar="FILE", help="Also write the first tenant's token to this file.")
    ] = None,
    people: Annotated[
        Path | None,
        _tenants(metavar="FILE", help="Who may log in with OpenID Connect, and with which role: a TOML file."),
    ] = None,
    runs_at_once: Annotated[
        int, _tasks(metavar="N", min=1, help="Runs of all tenants at the same time, who take turns.")
    ] = RUNS_AT_ONCE,
    quotas: WithQuotas = NO_CHANGES,
) -> HostOptions:
    """Build the value from the options.

    Raises:
        BadParameter: one of them is not valid.
    """
    return HostOptions(
        agents=(*map(AgentTarget, agents or ()), *map(_tenant_agent, tenant_agents or ())),
        public_agents=tuple(public_agent or ()),
        remote_agents=_existing_file(remote_agents, "--remote-agents"),
        mcp_servers=_existing_file(mcp_servers, "--mcp-servers"),
        has_starters=starters,
        model=model,
        openai_compatible=tuple(map(_openai_compatible, openai_compatible or ())),
        prices=_existing_file(prices, "--prices"),
        search=None if search is None else _search(search),
        fetch_hosts=tuple(fetch_host or ()),
        admin_token_file=admin_token_file,
        tenant_token_file=tenant_token_file,
        people=_existing_file(people, "--people"),
        quotas=quotas.of(Quotas),
        runs_at_once=runs_at_once,
    )


WithHostOptions = Annotated[HostOptions, OptionGroup(host_options)]


def _tenant_agent(text: str) -> AgentTarget:
    tenant_id, equals, target = text.partition("=")
    if not equals or not target or not re.fullmatch(r"[1-9][0-9]*", tenant_id):
        raise typer.BadParameter(
            f"Invalid value: {text!r}. Write the tenant's id and the agent, as 2=module:agent.",
            param_hint="--tenant-agents",
        )
    return AgentTarget(target, tenant_id)


def _existing_file(file: Path | None, option: str) -> Path | None:
    if file is not None and not file.expanduser().is_file():
        raise typer.BadParameter(f"There is no file {file}.", param_hint=option)
    return file


def _openai_compatible(text: str) -> OpenAiCompatible:
    from parley.host.models.endpoints import OpenAiCompatible

    found = re.fullmatch(r"([^=]+)=([^,]+)(?:,([A-Za-z_][A-Za-z0-9_]*))?", text)
    if found is None:
        advice = "Write it as prefix=http://127.0.0.1:8000/v1, or with ,VARIABLE after it for the key."
        raise typer.BadParameter(f"Invalid value: {text!r}. {advice}", param_hint="--openai-compatible")
    prefix, url, key_variable = found.groups()
    try:
        return OpenAiCompatible(prefix, url, key_variable)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--openai-compatible") from None


def _search(setting: str) -> SearchProvider:
    from parley.host.commands.web_search import SearchError, search_provider

    try:
        return search_provider(setting)
    except SearchError as error:
        raise typer.BadParameter(str(error), param_hint="--search") from None
