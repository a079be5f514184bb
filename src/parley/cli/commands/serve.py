"""`parley serve`: serves agents.

This module reads the options, builds the app and announces its URLs. `parley.server.run` runs it. Large modules are
imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from parley import Agent
from parley.cli.options.access import AccessOptions, WithAccessOptions
from parley.cli.options.groups import with_option_groups
from parley.cli.options.runtime import RuntimeOptions, WithRuntimeOptions
from parley.cli.options.server import ServerOptions, UsageError, WithServerOptions
from parley.cli.options.settings import ShowConfig, is_default, log_settings, show_settings
from parley.cli.output.exit_codes import fail
from parley.cli.output.help_text import InvalidSettingError, Section
from parley.cli.output.store_text import store_text
from parley.cli.serving.agent_loading import TargetError, load_agent, source_of, warn_of_missing_description
from parley.cli.serving.console_setup import install_console
from parley.cli.serving.reload import exit_with_parent, free_port, run_reloading
from parley.cli.serving.running import run_server, run_worker_processes
from parley.cli.serving.shutdown import report_drain, shutdown_note
from parley.cli.serving.worker_channel import announce, open_channel
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from parley.server.app import App
    from parley.server.run import Bound
    from parley.server.security.authentication import Security
    from parley.server.telemetry.telemetry import Telemetry

RELOAD_DRAIN_SECONDS = "1"
"""Short, because an author waits for the restart; interrupted runs go on in the next process."""

logger = logging.getLogger(__name__)


# --- options ----------------------------------------------------------------------------------------------------------

_network = partial(typer.Option, rich_help_panel=Section.NETWORK)
_cards = partial(typer.Option, rich_help_panel=Section.CARDS)


@with_option_groups
def serve(
    context: typer.Context,
    access: WithAccessOptions,
    server: WithServerOptions,
    runtime: WithRuntimeOptions,
    show_config: ShowConfig,
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET", help="module:agent or path/to/file.py:agent.")
    ] = None,
    many: Annotated[bool, _network(help="Serve every agent at /agents/ID, also if there is only one.")] = False,
    root_agent: Annotated[
        str | None, _network(metavar="ID", help="Serve this one of several agents at /, and the others at /agents/ID.")
    ] = None,
    catalog: Annotated[
        str | None,
        _network(metavar="URL", help="An AI Catalog: agents delegate to its names, if no agent here has them."),
    ] = None,
    card_version: Annotated[
        Version | None,
        _cards(
            metavar="|".join(Version),
            help="The version of the card for readers that name none.",
            show_default="one card for all versions",
        ),
    ] = None,
    reload: Annotated[bool, typer.Option(help="Restart when a Python file changes.")] = False,
    reloader: Annotated[int | None, typer.Option(hidden=True, help="The pipe to the reloader above.")] = None,
    again: Annotated[bool, typer.Option("--again", hidden=True, help="A restart, announced before.")] = False,
) -> None:
    """Serve agents: every version of A2A, over JSON-RPC, HTTP+JSON and gRPC.

    One agent is served at the root, several each at /agents/ID.

    \b
    Examples:
      parley serve currency:agent
      parley serve currency.py report.py:reporter --port 9000 --grpc-port 50051
      parley serve currency:agent --host 0.0.0.0 --auth auth.toml \\
        --tls-cert cert.pem --tls-key key.pem

    \b
    Every option can also be a variable, or a key in the table [serve] of parley.toml.
    The command line wins, then variables, then the file:
      --send-window 1h      PARLEY_SEND_WINDOW=1h      send-window = "1h"
    """
    if show_config:
        show_settings(context)
    if not targets:
        raise InvalidSettingError("Missing argument TARGET: the agent to serve, as module:agent.", context)
    if reload and runtime.workers > 1:
        raise typer.BadParameter("A server that reloads is one process. Leave out --workers.", param_hint="--reload")
    if runtime.needs_workers:
        raise typer.Exit(run_worker_processes(server, runtime))
    if reload:
        drain = ("--drain-seconds", RELOAD_DRAIN_SECONDS) if is_default(context, "drain_seconds") else ()
        raise typer.Exit(_reload(targets, server, drain))
    if reloader is not None:
        exit_with_parent(reloader)
    options = ServeOptions(
        targets=targets,
        access=access,
        server=server,
        runtime=runtime,
        many=many,
        root_agent=root_agent,
        catalog=catalog,
        card_version=card_version,
        is_restart=again,
    )
    from parley.server.telemetry.logs import configure_logging

    configure_logging(server.log_format, server.log_level)
    log_settings(context)
    _serve(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `parley serve`."""

    targets: Sequence[str]
    access: AccessOptions
    server: ServerOptions
    runtime: RuntimeOptions
    many: bool
    root_agent: str | None
    catalog: str | None
    card_version: Version | None
    is_restart: bool


def _reload(targets: Sequence[str], server: ServerOptions, drain: Sequence[str]) -> int:
    serving, log_format = server.serving, server.log_format
    arguments = [*sys.argv[1:], "--no-reload", *drain]
    # Keep a port once it is picked, so that the agent's URL stays the same.
    if serving.port == 0:
        arguments += ["--port", str(free_port(serving.host))]
    if serving.grpc_port == 0:
        arguments += ["--grpc-port", str(free_port(serving.host))]

    def command(pipe: int | None, was_up: bool) -> list[str]:
        pipe_option = [] if pipe is None else ["--reloader", str(pipe)]
        return [sys.executable, "-m", "parley.cli.main", *arguments, *pipe_option, *(["--again"] if was_up else [])]

    if log_format == "json":
        from parley.server.telemetry.logs import configure_logging

        configure_logging(log_format)
    log = partial(typer.echo, err=True) if log_format == "text" else logger.info
    return run_reloading(command, {Path.cwd(), *map(source_of, targets)}, log)


# --- the app ----------------------------------------------------------------------------------------------------------


def _serve(options: ServeOptions) -> None:
    from parley.cli.serving.announcement import Announcement
    from parley.server.reloading import reload_settings
    from parley.server.run import serve
    from parley.stores.interface import StoreError

    server, runtime = options.server, options.runtime
    serving = runtime.applied_to(options.access.applied_to(server.serving))
    channel = open_channel(runtime.handover)
    audit = runtime.audit()
    try:
        agents = [load_agent(target) for target in options.targets]
        for agent in agents:
            warn_of_missing_description(agent)
        security, telemetry = options.access.security(serving), server.telemetry(audit)
        app = _app(options, agents, security, telemetry)
        has_console = install_console(app, server, security=security)
    except (TargetError, StoreError, UsageError, ValueError) as error:
        fail(str(error), code=2)

    is_for_machines = server.log_format == "json"
    has_metrics = telemetry.metrics is not None

    def show(bound: Bound, console: Console) -> None:
        if is_for_machines:  # the log has the URLs
            return
        if options.is_restart:
            console.print(f"Serving again at {bound.url}", soft_wrap=True)
        else:
            note, store = shutdown_note(runtime.store), store_text(runtime.store)
            Announcement(app, bound, server, store, note, security, has_metrics, has_console).show(console)

    running = serve(
        app,
        serving,
        on_ready=lambda bound: announce(partial(show, bound), bound.url, channel),
        on_drain_asked=channel.report_draining if channel is not None else None,
        on_drain=lambda runs: report_drain(runs, runtime, server.log_format),
        on_hangup=partial(
            reload_settings, app, security=security, load_webhook_auth=server.webhook_auth_settings, audit=audit
        ),
        log_fields=_log_fields(options, app, security, has_metrics, has_console) if is_for_machines else None,
        replica=runtime.replica,
    )
    run_server(running, serving)


def _log_fields(
    options: ServeOptions, app: App, security: Security | None, has_metrics: bool, has_console: bool
) -> dict[str, object]:
    return {
        "agents": [agent.id for agent in app.agents],
        "public_url": options.server.public_url,
        "store": store_text(options.runtime.store),
        "auth": list(security.schemes) if security else [],
        "metrics": has_metrics,
        "console": has_console,
    }


def _app(options: ServeOptions, agents: Sequence[Agent], security: Security | None, telemetry: Telemetry) -> App:
    from parley.server.app import App

    server, runtime = options.server, options.runtime
    unknown = sorted(set(runtime.agent_retention) - {agent.id for agent in agents})
    if unknown and not options.many:
        known = ", ".join(agent.id for agent in agents)
        raise UsageError(f"--retention: no agent has the id {unknown[0]!r}; there are: {known}")
    return App(
        *agents,
        many=options.many,
        root=options.root_agent,
        store=runtime.open_store(),
        hints=runtime.hints(),
        security=security,
        limits=server.limits,
        engine_limits=runtime.engine_limits,
        delivery_limits=runtime.delivery_limits,
        public_url=server.public_url,
        signer=server.signer(),
        catalog=options.catalog,
        card_version=options.card_version,
        cors_origins=server.cors_origins,
        telemetry=telemetry,
        webhooks=server.webhook_policy(),
        webhook_auth=server.webhook_auth_settings(),
        file_guard=runtime.file_guard,
        retention=runtime.retention,
        agent_retention=runtime.agent_retention,
        drain_seconds=runtime.drain_seconds,
    )
