"""`parley serve`: serves agents.

This module reads the options, builds the app and announces its URLs. `parley.server.run` runs it. Large modules are
imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.console import Console

from parley import Agent
from parley.cli.options.durations import read_duration
from parley.cli.options.groups import OptionGroup, with_option_groups
from parley.cli.options.limits import ENGINE_LIMITS, LimitValues, limit_options
from parley.cli.options.server import ServerOptions, UsageError, WithServerOptions, host_names
from parley.cli.options.settings import ShowConfig, is_default, log_settings, show_settings
from parley.cli.output.exit_codes import fail
from parley.cli.output.help_text import InvalidSettingError, Section
from parley.cli.serving.agent_loading import TargetError, load_agent, source_of
from parley.cli.serving.reload import exit_with_reloader, free_port, run_reloading
from parley.cli.serving.running import run_server
from parley.client.guard import Guard
from parley.engine.limits import Limits
from parley.engine.webhooks.delivery_limits import DeliveryLimits
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
_tasks = partial(typer.Option, rich_help_panel=Section.TASKS)
_security = partial(typer.Option, rich_help_panel=Section.SECURITY)
_logs = partial(typer.Option, rich_help_panel=Section.LOGS)

FileHosts: TypeAlias = Literal["public", "any"]

WithEngineLimits = Annotated[LimitValues, OptionGroup(limit_options(*ENGINE_LIMITS))]


@with_option_groups
def serve(
    context: typer.Context,
    server: WithServerOptions,
    limits: WithEngineLimits,
    show_config: ShowConfig,
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET", help="module:agent or path/to/file.py:agent.")
    ] = None,
    many: Annotated[bool, _network(help="Serve every agent at /agents/ID, also if there is only one.")] = False,
    root_agent: Annotated[
        str | None, _network(metavar="ID", help="Serve this one of several agents at /, and the others at /agents/ID.")
    ] = None,
    store: Annotated[
        str, _tasks(metavar="URL", help="Where to store tasks: sqlite:///file.db, or memory: without a file.")
    ] = "sqlite:///parley.db",
    retention: Annotated[
        str | None, _tasks(metavar="TIME", help="Delete finished tasks after this time, such as 30d.")
    ] = None,
    drain_seconds: Annotated[
        float, _tasks(metavar="N", min=0, help="Seconds that runs have to finish at shutdown.")
    ] = 10,
    card_version: Annotated[
        Version | None,
        _cards(
            metavar="|".join(Version),
            help="The version of the card for readers that name none.",
            show_default="one card for all versions",
        ),
    ] = None,
    files: Annotated[
        FileHosts, _security(metavar="WHICH", help="Where agents may read files by URL: public (https) or any.")
    ] = "public",
    file_host: Annotated[
        list[str] | None,
        _security(
            metavar="NAME",
            callback=host_names,
            help="Also let agents read files on this host, private or not; .example.com for all subdomains.",
        ),
    ] = None,
    audit_log: Annotated[Path | None, _logs(metavar="FILE", help="Write an audit log, in lines of JSON.")] = None,
    workers: Annotated[int, typer.Option(metavar="N", min=1, hidden=True, help="Processes.")] = 1,
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
    retention_time = read_duration(retention, "--retention") if retention else None
    if show_config:
        show_settings(context)
    if not targets:
        raise InvalidSettingError("Missing argument TARGET: the agent to serve, as module:agent.", context)
    if workers > 1:
        raise typer.BadParameter(
            "A SQLite file or a memory store belongs to one process. Several processes need a shared store.",
            param_hint="--workers",
        )
    if reload:
        drain = ("--drain-seconds", RELOAD_DRAIN_SECONDS) if is_default(context, "drain_seconds") else ()
        raise typer.Exit(_reload(targets, server, drain))
    if reloader is not None:
        exit_with_reloader(reloader)
    options = ServeOptions(
        targets=targets,
        server=server,
        store=store,
        many=many,
        root_agent=root_agent,
        retention=retention_time,
        drain_seconds=drain_seconds,
        limits=limits,
        card_version=card_version,
        file_guard=Guard(allow_private=files == "any", allowed_hosts=tuple(file_host or ())),
        audit_log=audit_log,
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
    server: ServerOptions
    store: str
    many: bool
    root_agent: str | None
    retention: timedelta | None
    drain_seconds: float
    limits: LimitValues
    card_version: Version | None
    file_guard: Guard
    audit_log: Path | None
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
    from parley.server.run import serve
    from parley.server.telemetry.audit import AuditTrail
    from parley.stores.interface import StoreError

    server = options.server
    audit = AuditTrail(options.audit_log) if options.audit_log else None
    try:
        agents = [load_agent(target) for target in options.targets]
        _warn_of_cards(agents)
        security, telemetry = server.security(), server.telemetry(audit)
        app = _app(options, agents, security, telemetry)
    except (TargetError, StoreError, UsageError, ValueError) as error:
        fail(str(error), code=2)

    is_for_machines = server.log_format == "json"
    has_metrics = telemetry.metrics is not None

    def announce(bound: Bound) -> None:
        if is_for_machines:  # the log has the URLs
            return
        if options.is_restart:
            typer.echo(f"Serving again at {bound.url}")
        else:
            note = _shutdown_note(options.store)
            ready = Announcement(app, bound, server, options.store, note, security, has_metrics)
            ready.show(Console(highlight=False))

    running = serve(
        app,
        server.serving,
        on_ready=announce,
        on_drain=lambda runs: _report_drain(runs, options),
        on_hangup=audit.reopen if audit else None,
        log_fields=_log_fields(options, app, security, has_metrics) if is_for_machines else None,
    )
    run_server(running, server.serving)


def _warn_of_cards(agents: Sequence[Agent]) -> None:
    for agent in agents:
        if not agent.description:
            logger.warning(
                'The card of %r has no description, by which callers choose an agent. Set one: Agent("…", '
                'description="…"), or Agent.of(…, description="…") for an agent of a framework.',
                agent.name,
            )


def _report_drain(runs: int, options: ServeOptions) -> None:
    if not runs:
        return
    what = "1 run" if runs == 1 else f"{runs} runs"
    if options.drain_seconds:
        line = f"Finishing {what}, up to {options.drain_seconds:g} s; press Ctrl+C again to stop now."
    else:
        line = f"Interrupting {what}; {_shutdown_note(options.store)}."
    if options.server.log_format == "json":
        logger.info(line)
    else:
        with suppress(OSError):  # the terminal may be gone
            typer.echo(line, err=True)


def _shutdown_note(store: str) -> str:
    return "tasks are lost (--store memory:)" if store == "memory:" else "unfinished tasks continue at the next start"


def _log_fields(options: ServeOptions, app: App, security: Security | None, has_metrics: bool) -> dict[str, object]:
    return {
        "agents": [agent.id for agent in app.agents],
        "public_url": options.server.public_url,
        "store": options.store,
        "auth": list(security.schemes) if security else [],
        "metrics": has_metrics,
    }


def _app(options: ServeOptions, agents: Sequence[Agent], security: Security | None, telemetry: Telemetry) -> App:
    from parley.server.app import App

    server = options.server
    return App(
        *agents,
        many=options.many,
        root=options.root_agent,
        store=options.store,
        security=security,
        limits=server.limits,
        engine_limits=options.limits.of(Limits),
        delivery_limits=options.limits.of(DeliveryLimits),
        public_url=server.public_url,
        signer=server.signer(),
        card_version=options.card_version,
        cors_origins=server.cors_origins,
        telemetry=telemetry,
        webhooks=server.webhook_policy(),
        file_guard=options.file_guard,
        retention=options.retention,
        drain_seconds=options.drain_seconds,
    )
