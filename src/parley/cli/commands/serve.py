"""`parley serve`: serves agents.

This module reads the options, builds the app and announces its URLs. `parley.server.run` runs it. Large modules are
imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from parley import Agent
from parley.cli.options.groups import with_option_groups
from parley.cli.options.server import ServerOptions, UsageError, WithServerOptions
from parley.cli.output.exit_codes import fail
from parley.cli.serving.agent_loading import TargetError, load_agent, source_of
from parley.cli.serving.reload import exit_with_reloader, free_port, run_reloading
from parley.cli.serving.running import run_server

if TYPE_CHECKING:
    from parley.server.app import App
    from parley.server.run import Bound
    from parley.server.security.authentication import Security
    from parley.server.telemetry.telemetry import Telemetry

RELOAD_DRAIN_SECONDS = "1"
"""Short, because an author waits for the restart; interrupted runs go on in the next process."""

logger = logging.getLogger(__name__)

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


# --- options ----------------------------------------------------------------------------------------------------------


def parse_duration(text: str, option: str) -> timedelta:
    """The time that `30d`, `12h`, `90m`, `45s` or `2w` means.

    Raises:
        BadParameter: it is not valid.
    """
    found = re.fullmatch(r"(\d{1,6}) *([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise typer.BadParameter(
            f"Invalid duration: {text!r}. Write a number and s, m, h, d or w, such as 30d.", param_hint=option
        )
    return timedelta(**{UNITS[found[2]]: int(found[1])})


@with_option_groups
def serve(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET", help="module:agent or path/to/file.py:agent.")],
    server: WithServerOptions,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Where to store tasks: sqlite:///file.db, or memory: without a file.")
    ] = "sqlite:///parley.db",
    retention: Annotated[
        str | None, typer.Option(metavar="TIME", help="Delete finished tasks after this time, such as 30d.")
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(metavar="N", min=0, help="Seconds that runs have to finish at shutdown.")
    ] = 10,
    run_attempts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Fail a task after so many crashes without progress; by default as its agent says, or 3.",
        ),
    ] = None,
    audit_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an audit log, in lines of JSON.")
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", min=1, hidden=True, help="Processes.")] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a Python file changes.")] = False,
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
    """
    if workers > 1:
        raise typer.BadParameter(
            "A SQLite file or a memory store belongs to one process. Several processes need a shared store.",
            param_hint="--workers",
        )
    if reload:
        raise typer.Exit(_reload(targets, server))
    if reloader is not None:
        exit_with_reloader(reloader)
    options = ServeOptions(
        targets=targets,
        server=server,
        store=store,
        retention=parse_duration(retention, "--retention") if retention else None,
        drain_seconds=drain_seconds,
        run_attempts=run_attempts,
        audit_log=audit_log,
        is_restart=again,
    )
    _serve(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `parley serve`."""

    targets: Sequence[str]
    server: ServerOptions
    store: str
    retention: timedelta | None
    drain_seconds: float
    run_attempts: int | None
    audit_log: Path | None
    is_restart: bool


def _reload(targets: Sequence[str], server: ServerOptions) -> int:
    serving, log_format = server.serving, server.log_format
    arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
    if not any(argument.startswith("--drain-seconds") for argument in arguments):
        arguments += ["--drain-seconds", RELOAD_DRAIN_SECONDS]
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
    from parley.server.telemetry.logs import configure_logging
    from parley.stores.interface import StoreError

    server = options.server
    audit = AuditTrail(options.audit_log) if options.audit_log else None
    configure_logging(server.log_format, server.log_level)
    try:
        agents = [load_agent(target) for target in options.targets]
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
    from parley.engine.limits import Limits
    from parley.server.app import App

    server = options.server
    return App(
        *agents,
        store=options.store,
        security=security,
        limits=server.limits(),
        engine_limits=Limits(run_attempts=options.run_attempts),
        public_url=server.public_url,
        signer=server.signer(),
        cors_origins=server.cors_origins,
        telemetry=telemetry,
        webhooks=server.webhook_policy(),
        retention=options.retention,
        drain_seconds=options.drain_seconds,
    )
