"""`parley up`: starts a host, with agents of many tenants and an orchestrator for each.

This module reads the options and builds the host; `host_start` does what is left when it has started. `parley.host` is
the host, and `parley.server.run` runs it. Large modules are imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from parley.cli.options.groups import with_option_groups
from parley.cli.options.host import HostOptions, WithHostOptions
from parley.cli.options.runtime import RuntimeOptions, WithRuntimeOptions
from parley.cli.options.server import ServerOptions, UsageError, WithServerOptions
from parley.cli.options.settings import ShowConfig, log_settings, show_settings
from parley.cli.output.exit_codes import fail
from parley.cli.serving.agent_loading import TargetError, load_agent, warn_of_missing_description
from parley.cli.serving.console_setup import install_host_console
from parley.cli.serving.running import run_server, run_worker_processes
from parley.cli.serving.shutdown import report_drain
from parley.cli.serving.worker_channel import announce, open_channel

if TYPE_CHECKING:
    from parley.cli.serving.host_tokens import AdminToken
    from parley.host.catalogue import GivenAgent
    from parley.host.host import Host
    from parley.host.mcp.config import McpServers
    from parley.host.remote.config import RemoteAgents
    from parley.server.run import Bound
    from parley.server.telemetry.telemetry import Telemetry

logger = logging.getLogger(__name__)


@with_option_groups
def up(
    context: typer.Context,
    host: WithHostOptions,
    server: WithServerOptions,
    runtime: WithRuntimeOptions,
    show_config: ShowConfig,
) -> None:
    """Start a host: agents of many tenants, and an orchestrator that gives them work.

    The first start creates a tenant and shows its token. Every tenant has the agent index,
    which passes requests on to the tenant's other agents and to remote ones. Without a
    model, index is built in and works offline; it is not a language model then.

    \b
    Examples:
      parley up
      parley up --model anthropic/claude-sonnet-5-5 --port 9000
      parley up --agents app.py:graph --tenant-agents 2=billing:agent
      parley up --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem \\
        --requests-per-minute 60 --tokens-per-day 1000000

    \b
    Every option can also be a variable, or a key in the table [up] of parley.toml.
    The command line wins, then variables, then the file:
      --send-window 1h      PARLEY_SEND_WINDOW=1h      send-window = "1h"
    """
    if show_config:
        show_settings(context)
    if runtime.needs_workers:
        raise typer.Exit(run_worker_processes(server, runtime))
    from parley.server.telemetry.logs import configure_logging

    configure_logging(server.log_format, server.log_level)
    log_settings(context)
    _up(UpOptions(host, server, runtime))


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `parley up`."""

    host: HostOptions
    server: ServerOptions
    runtime: RuntimeOptions


def _up(options: UpOptions) -> None:
    from parley.cli.serving.host_reload import reload_host
    from parley.cli.serving.host_start import HostStart
    from parley.cli.serving.host_tokens import TenantTokenFile, find_admin_token
    from parley.host.data.admin_token import AdminTokenError
    from parley.host.models.model import ModelError
    from parley.host.people import PeopleSettingError
    from parley.server.run import serve
    from parley.stores.interface import StoreError

    server, runtime = options.server, options.runtime
    serving = runtime.applied_to(server.serving)
    channel = open_channel(runtime.handover)
    audit = runtime.audit()
    token_file = TenantTokenFile(options.host.tenant_token_file) if options.host.tenant_token_file else None
    try:
        agents = _given_agents(options.host)
        if token_file is not None:
            token_file.read()
        telemetry = server.telemetry(audit)
        admin = find_admin_token(options.host.admin_token_file, runtime.store, os.environ)
        host = _host(options, agents, admin, telemetry)
        host.models.model(host.models.default_model())
        has_console = install_host_console(host, server)
    except (TargetError, AdminTokenError, ModelError, PeopleSettingError, StoreError, UsageError, ValueError) as error:
        fail(str(error), code=2)

    start = HostStart(
        host,
        options.host,
        server=server,
        runtime=runtime,
        admin=admin,
        token_file=token_file,
        has_metrics=telemetry.metrics is not None,
        has_console=has_console,
    )
    is_for_machines = server.log_format == "json"

    async def prepare() -> None:
        await start.create_first_tenant()
        await start.create_console_link()

    def show(bound: Bound, console: Console) -> None:
        if not is_for_machines:  # the log has the URLs
            start.announce(bound, console)

    running = serve(
        host.app,
        serving,
        on_start=prepare,
        on_ready=lambda bound: announce(partial(show, bound), bound.url, channel),
        on_drain_asked=channel.report_draining if channel is not None else None,
        on_drain=lambda runs: report_drain(runs, runtime, server.log_format),
        on_hangup=partial(
            reload_host,
            host,
            options.host.people_file,
            load_webhook_auth=server.webhook_auth_settings,
            audit=audit,
        ),
        log_fields=start.log_fields() if is_for_machines else None,
        replica=runtime.replica,
    )
    run_server(running, serving)


# --- the host ---------------------------------------------------------------------------------------------------------


def _given_agents(options: HostOptions) -> tuple[GivenAgent, ...]:
    from parley.host.catalogue import GivenAgent

    given = tuple(GivenAgent(load_agent(one.target), one.tenant_id) for one in options.agents)
    for one in given:
        warn_of_missing_description(one.agent)
    return given


def _remote_agents(file: Path | None) -> RemoteAgents:
    """The remote agents that the file lists; none if it is not valid, because the others must not suffer."""
    from parley.host.remote.config import DEFAULT_FILE, RemoteAgents, RemoteConfigError, load_remote_agents

    try:
        return load_remote_agents(file)
    except RemoteConfigError as error:
        logger.warning("No remote agents can be called, because %s is not valid: %s", file or DEFAULT_FILE, error)
        return RemoteAgents()


def _mcp_servers(file: Path | None) -> McpServers:
    """The MCP servers that the file lists. Raises UsageError: a secret that is missing is found out now."""
    from parley.host.mcp.config import DEFAULT_FILE, McpConfigError, load_mcp_servers

    try:
        return load_mcp_servers(file)
    except McpConfigError as error:
        raise UsageError(f"The MCP servers in {file or DEFAULT_FILE} cannot be used: {error}") from None


def _host(options: UpOptions, agents: tuple[GivenAgent, ...], admin: AdminToken, telemetry: Telemetry) -> Host:
    from parley.host.commands.web_fetch import WebFetcher
    from parley.host.host import Host, HostSettings
    from parley.host.models.registry import ModelRegistrySettings
    from parley.host.people import PeopleSettings, read_people_settings

    chosen, server, runtime = options.host, options.server, options.runtime
    settings = HostSettings(
        admin_token=admin.token,
        quotas=chosen.quotas,
        models=ModelRegistrySettings(
            default_model=chosen.model,
            openai_compatible=chosen.openai_compatible,
            prices_file=None if chosen.prices is None else chosen.prices.expanduser(),
        ),
        remote_agents=_remote_agents(chosen.remote_agents),
        mcp_servers=_mcp_servers(chosen.mcp_servers),
        search=chosen.search,
        fetcher=WebFetcher(chosen.fetch_hosts),
        runs_at_once=chosen.runs_at_once,
        given_agents=agents,
        public_agents=chosen.public_agents,
        has_starters=chosen.has_starters,
        people=read_people_settings(chosen.people_file) if chosen.people_file else PeopleSettings(),
        public_url=server.public_url,
        has_metrics=telemetry.metrics is not None,
    )
    if runtime.agent_retention:
        raise UsageError(
            "--retention: the agents of a host belong to tenants. Set it for a tenant: "
            "parley admin tenants change TENANT --retention-days 7"
        )
    return Host(
        settings,
        store=runtime.open_store(),
        hints=runtime.hints(),
        limits=server.limits,
        engine_limits=runtime.engine_limits,
        delivery_limits=runtime.delivery_limits,
        signer=server.signer(),
        cors_origins=server.cors_origins,
        telemetry=telemetry,
        webhooks=server.webhook_policy(),
        webhook_auth=server.webhook_auth_settings(),
        file_guard=runtime.file_guard,
        retention=runtime.retention,
        drain_seconds=runtime.drain_seconds,
    )
