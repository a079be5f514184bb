"""`parley serve`: agents on ports, from one command.

This module reads the options, builds the app they describe and says where everything is. What runs it is in
`parley.server.run`; that and everything heavy is imported when it is needed, so that `--help` is quick.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from parley import Agent
from parley.cli.reload import end_with_reloader, free_port, run_reloading
from parley.cli.targets import TargetError, load_agent, source_of
from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.cli.announcement import Announcement
    from parley.server.app import App
    from parley.server.cards import Signer
    from parley.server.run import Bound, Serving
    from parley.server.security import Security
    from parley.server.telemetry import Telemetry
    from parley.server.tls import TlsFiles

GRPC_PORT = 50051
GRPC_MODULES = ("grpc", "grpc_health", "grpc_reflection")
INSTALL_GRPC = "pip install 'parley-a2a[grpc]'"

RELOAD_DRAIN_SECONDS = "1"
"""Who edits does not want to wait; what is cut off goes on in the next process."""

logger = logging.getLogger(__name__)

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class WebhookTargets(StrEnum):
    """Which webhooks may be called."""

    PUBLIC = "public"
    ANY = "any"
    OFF = "off"


class LogFormat(StrEnum):
    """What log lines look like."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """What is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ClientAuth(StrEnum):
    """Whether callers must show a certificate."""

    REQUIRED = "required"
    OPTIONAL = "optional"


# --- options ----------------------------------------------------------------------------------------------------------


def parse_grpc_port(text: str) -> int | None:
    """The port that `--grpc-port` names; None for `off`.

    Raises:
        BadParameter: it is neither a port nor `off`.
    """
    if text == "off":
        return None
    if text.isascii() and text.isdigit() and int(text) <= 65_535:
        return int(text)
    raise typer.BadParameter(f"{text!r} is no port. Write a number up to 65535, 0 for a free one, or off.")


def parse_duration(text: str) -> timedelta:
    """The time that `30d`, `12h`, `90m`, `45s` or `2w` means.

    Raises:
        BadParameter: it means none.
    """
    found = re.fullmatch(r"(\d{1,6}) *([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{text!r} is no time. Write a number and s, m, h, d or w, such as 30d.")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def serve(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET...", help="module:agent or path/to/file.py:agent.")],
    host: Annotated[str, typer.Option(metavar="HOST", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_535, help="The HTTP port; 0 picks a free one.")
    ] = 8080,
    grpc_port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|off",
            help="The gRPC port; 0 picks a free one, off serves none.",
            show_default=f"{GRPC_PORT}, if gRPC is installed",
        ),
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Where tasks are kept: sqlite:///file.db, or memory: for nowhere.")
    ] = "sqlite:///parley.db",
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where callers reach this server, for the URLs in its cards.")
    ] = None,
    public_grpc_url: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where callers reach gRPC, if that is somewhere else.")
    ] = None,
    auth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may call: a TOML file. See parley token.")
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Let other machines call without --auth.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate chain, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key, in PEM.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Accept client certificates of this authority (mutual TLS).")
    ] = None,
    tls_client_auth: Annotated[
        ClientAuth,
        typer.Option(metavar="HOW", help="Whether callers must show a certificate: required or optional."),
    ] = ClientAuth.REQUIRED,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Believe X-Forwarded-… of this address or network.")
    ] = None,
    signing_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sign the cards with this key, PEM or JWK.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Let web pages of this origin call; * for all.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.001, help="Requests a second that each caller may make; twice as many may come at once."
        ),
    ] = None,
    webhooks: Annotated[
        WebhookTargets, typer.Option(metavar="WHICH", help="Which webhooks may be called: public (https), any, or off.")
    ] = WebhookTargets.PUBLIC,
    retention: Annotated[
        str | None, typer.Option(metavar="TIME", help="Forget finished tasks after this time, such as 30d.")
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(metavar="N", min=0, help="How long runs may finish when the server is told to end.")
    ] = 10,
    metrics: Annotated[
        bool | None,
        typer.Option("--metrics/--no-metrics", help="Prometheus metrics at /metrics.", show_default="on loopback only"),
    ] = None,
    audit_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write down who did what, in lines of JSON.")
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every HTTP request.")] = False,
    log_format: Annotated[
        LogFormat, typer.Option(metavar="FORMAT", help="What log lines look like: text or json.")
    ] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel, typer.Option(metavar="LEVEL", help="What is logged: debug, info, warning or error.")
    ] = LogLevel.INFO,
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="Processes. There is one.")] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a Python file changes.")] = False,
    reloader: Annotated[int | None, typer.Option(hidden=True, help="The pipe to the reloader above.")] = None,
    again: Annotated[bool, typer.Option("--again", hidden=True, help="The reloader has said it all before.")] = False,
) -> None:
    """Serve agents: every version of A2A, over JSON-RPC, HTTP+JSON and gRPC.

    One agent is served at the root, several each at /agents/ID.

    \b
    Examples:
      parley serve currency:agent
      parley serve currency.py report.py:reporter --port 9000 --grpc-port off
      parley serve currency:agent --host 0.0.0.0 --auth auth.toml \\
        --tls-cert cert.pem --tls-key key.pem
    """
    if workers > 1:
        raise typer.BadParameter(
            "One process owns a SQLite file or a memory store. Several processes need a store that they share.",
            param_hint="--workers",
        )
    grpc = _grpc_port(grpc_port)
    if reload:
        raise typer.Exit(_reload(targets, host, port, grpc, log_format))
    if reloader is not None:
        end_with_reloader(reloader)
    tls = _tls(tls_cert, tls_key, tls_client_ca, tls_client_auth)
    options = Options(
        targets=targets,
        store=store,
        public_url=_check_url(public_url),
        auth=auth,
        signing_key=signing_key,
        cors_origins=tuple(map(_check_origin, cors_origin or ())),
        rate=rate,
        webhooks=webhooks,
        retention=parse_duration(retention) if retention else None,
        drain_seconds=drain_seconds,
        metrics=metrics,
        audit_log=audit_log,
        log_format=log_format,
        log_level=log_level,
        is_grpc_missing=grpc is None and grpc_port is None,
        is_again=again,
    )
    from parley.server.run import Serving

    serving = Serving(
        host=host,
        port=port,
        grpc_port=grpc,
        public_grpc=_check_target(public_grpc_url),
        tls=tls,
        allow_anonymous=allow_anonymous,
        trusted_proxies=tuple(map(_check_network, trusted_proxy or ())),
        access_log=access_log,
    )
    _serve(options, serving)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the app is made of."""

    targets: Sequence[str]
    store: str
    public_url: str | None
    auth: Path | None
    signing_key: Path | None
    cors_origins: tuple[str, ...]
    rate: float | None
    webhooks: WebhookTargets
    retention: timedelta | None
    drain_seconds: float
    metrics: bool | None
    audit_log: Path | None
    log_format: LogFormat
    log_level: LogLevel
    is_grpc_missing: bool
    is_again: bool


def _grpc_port(text: str | None) -> int | None:
    """The port for gRPC. Nobody who does not ask for it needs to have it installed."""
    port = GRPC_PORT if text is None else parse_grpc_port(text)
    if port is None or all(importlib.util.find_spec(name) for name in GRPC_MODULES):
        return port
    if text is not None:
        _fail(f"gRPC is not installed. {INSTALL_GRPC}, or --grpc-port off.", code=2)
    return None


def _check_target(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:/?#@\s\[\]]+):(\d{1,5})", text)
    if found is None or not 0 < int(found[2]) <= 65_535:
        raise typer.BadParameter(
            f"{text!r} is no host and port. Write it as agents.example.com:443", param_hint="--public-grpc-url"
        )
    return found[1], int(found[2])


def _check_origin(text: str) -> str:
    if text != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", text):
        raise typer.BadParameter(
            f"{text!r} is no origin. Write it as https://app.example.com, or * for all.", param_hint="--cors-origin"
        )
    return text


def _check_url(url: str | None) -> str | None:
    if url is not None and not re.fullmatch(r"https?://[^/?#\s]+(/[^?#\s]*)?", url):
        raise typer.BadParameter(
            f"{url!r} is no URL of a server. Write it as https://agents.example.com", param_hint="--public-url"
        )
    return url


def _check_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no address or network.", param_hint="--trusted-proxy") from error
    return text


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None, client_auth: ClientAuth) -> TlsFiles | None:
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise typer.BadParameter("TLS needs both files.", param_hint="--tls-cert and --tls-key")
    from parley.server.tls import ClientCertificates, TlsFiles

    return TlsFiles(
        certificate=cert,
        key=key,
        client_authority=client_ca,
        client_certificates=ClientCertificates(client_auth.value),
    )


def _reload(targets: Sequence[str], host: str, port: int, grpc: int | None, log_format: LogFormat) -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--reload"]
    if not any(argument.startswith("--drain-seconds") for argument in arguments):
        arguments += ["--drain-seconds", RELOAD_DRAIN_SECONDS]
    # A port that is picked once stays: who tries the agent out has its URL in a window already.
    if port == 0:
        arguments += ["--port", str(free_port(host))]
    if grpc == 0:
        arguments += ["--grpc-port", str(free_port(host))]

    def command(pipe: int | None, was_up: bool) -> list[str]:
        held = [] if pipe is None else ["--reloader", str(pipe)]
        return [sys.executable, "-m", "parley.cli.main", *arguments, *held, *(["--again"] if was_up else [])]

    if log_format is LogFormat.JSON:
        from parley.server.logs import configure_logging

        configure_logging(log_format.value)
    say = partial(typer.echo, err=True) if log_format is LogFormat.TEXT else logger.info
    return run_reloading(command, {Path.cwd(), *map(source_of, targets)}, say)


# --- the app ----------------------------------------------------------------------------------------------------------


def _serve(options: Options, serving: Serving) -> None:
    from parley.server.logs import configure_logging
    from parley.server.run import CannotServeError, HostError, OpenToNetworkError, PortError, run, serve
    from parley.server.tls import TlsError
    from parley.stores.interface import StoreError

    configure_logging(options.log_format.value, options.log_level.value)
    try:
        agents = [load_agent(target) for target in options.targets]
        security = _security(options.auth, serving)
        telemetry = _telemetry(options, serving)
        app = _app(options, agents, security, telemetry)
    except (TargetError, StoreError, _UsageError, ValueError) as error:
        _fail(str(error), code=2)

    has_metrics = telemetry.metrics is not None

    def say(bound: Bound) -> None:
        if options.log_format is LogFormat.JSON:  # machines read along, and the log says where it is
            return
        if options.is_again:
            typer.echo(f"Serving again at {bound.url}")
        else:
            _announcement(options, serving, app, security, bound, has_metrics).show(Console(highlight=False))

    running = serve(
        app,
        serving,
        on_ready=say,
        on_drain=lambda runs: _say_what_is_left(runs, options),
        on_hangup=telemetry.audit.reopen if telemetry.audit else None,
        log_fields=_log_fields(options, app, security, has_metrics) if options.log_format is LogFormat.JSON else None,
    )
    try:
        run(running)
    except HostError as error:
        _fail(str(error), code=2)
    except OpenToNetworkError as error:
        _fail(f"{error} The options for that: --auth FILE, --host 127.0.0.1, --allow-anonymous.", code=2)
    except PortError as error:
        _fail(f"{error} {_port_hint(error.port, serving)}")
    except (CannotServeError, TlsError, StoreError) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}")


def _say_what_is_left(runs: int, options: Options) -> None:
    if not runs:
        return
    what = "1 run" if runs == 1 else f"{runs} runs"
    if options.drain_seconds:
        line = f"Finishing {what}, up to {options.drain_seconds:g} s; Ctrl+C again ends it now."
    else:
        line = f"Cutting {what} off; {_what_remains(options.store)}."
    if options.log_format is LogFormat.JSON:
        logger.info(line)
    else:
        with suppress(OSError):  # the terminal may be gone
            typer.echo(line, err=True)


def _what_remains(store: str) -> str:
    return (
        "tasks are forgotten (--store memory:)" if store == "memory:" else "unfinished work goes on at the next start"
    )


def _log_fields(options: Options, app: App, security: Security | None, has_metrics: bool) -> dict[str, object]:
    return {
        "agents": [agent.id for agent in app.agents],
        "public_url": options.public_url,
        "store": options.store,
        "auth": list(security.schemes) if security else [],
        "metrics": has_metrics,
    }


class _UsageError(ParleyError):
    """An option does not fit the others, or its file is wrong."""


def _fail(message: str, *, code: int = 1) -> NoReturn:
    typer.secho(f"Error: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(code)


def _port_hint(port: int, serving: Serving) -> str:
    if port == serving.grpc_port:
        return "For gRPC: --grpc-port 0 picks a free one, --grpc-port off does without."
    return "For HTTP: --port 0 picks a free one."


def _security(file: Path | None, serving: Serving) -> Security | None:
    if file is None:
        return None
    from parley.protocol.cards import MutualTlsScheme
    from parley.server.auth_file import load_security

    security = load_security(file)
    asks_for_certificates = serving.tls is not None and serving.tls.client_authority is not None
    for name, scheme in security.schemes.items():
        if isinstance(scheme, MutualTlsScheme) and not asks_for_certificates:
            raise _UsageError(f"{file}: the scheme {name} needs client certificates, which --tls-client-ca asks for.")
    return security


def _telemetry(options: Options, serving: Serving) -> Telemetry:
    from parley.server.audit import AuditTrail
    from parley.server.metrics import Metrics
    from parley.server.run import is_loopback
    from parley.server.telemetry import Telemetry

    wants_metrics = options.metrics if options.metrics is not None else is_loopback(serving.host)
    return Telemetry(
        metrics=Metrics() if wants_metrics else None,
        audit=AuditTrail(options.audit_log) if options.audit_log else None,
        tracing=_tracing(),
    )


def _tracing() -> Any:
    """Spans, if whoever started this process has installed something that takes them."""
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    from parley.server.tracing import Tracing

    return Tracing()


def _app(options: Options, agents: Sequence[Agent], security: Security | None, telemetry: Telemetry) -> App:
    from parley.server.app import App
    from parley.server.limits import ServerLimits
    from parley.server.throttle import RateLimits
    from parley.server.webhook_guard import PUBLIC_ONLY, WebhookPolicy

    rates = RateLimits() if options.rate is None else RateLimits(requests_per_second=options.rate)
    policies = {WebhookTargets.PUBLIC: PUBLIC_ONLY, WebhookTargets.ANY: WebhookPolicy(allow_private=True)}
    return App(
        *agents,
        store=options.store,
        security=security,
        limits=ServerLimits(rates=rates),
        public_url=options.public_url,
        signer=_signer(options.signing_key),
        cors_origins=options.cors_origins,
        telemetry=telemetry,
        webhooks=policies.get(options.webhooks),
        retention=options.retention,
        drain_seconds=options.drain_seconds,
    )


def _signer(file: Path | None) -> Signer | None:
    if file is None:
        return None
    import msgspec

    from parley.protocol.errors import LocalProtocolError
    from parley.protocol.signing import load_key
    from parley.server.cards import Signer

    try:
        text = file.read_text()
        key = load_key(msgspec.json.decode(text, type=dict[str, object]) if text.lstrip().startswith("{") else text)
    except OSError as error:
        raise _UsageError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, LocalProtocolError) as error:
        raise _UsageError(f"{file} is no key to sign with: {error}") from error
    if not key.is_private:
        raise _UsageError(f"{file} holds a public key; signing needs the private one.")
    return Signer(key, key.kid or key.thumbprint())


def _announcement(
    options: Options, serving: Serving, app: App, security: Security | None, bound: Bound, has_metrics: bool
) -> Announcement:
    from parley.cli.announcement import Announcement
    from parley.server.run import is_loopback

    public_grpc = serving.public_grpc
    return Announcement(
        app=app,
        local_url=bound.url,
        public_url=options.public_url.rstrip("/") if options.public_url else None,
        local_grpc=bound.grpc_target,
        public_grpc=f"{public_grpc[0]}:{public_grpc[1]}" if public_grpc and bound.grpc_target else None,
        how_to_get_grpc=INSTALL_GRPC if options.is_grpc_missing else None,
        listens_everywhere=serving.host in ("", "0.0.0.0", "::"),
        store=options.store,
        what_remains=_what_remains(options.store),
        security=security,
        certificate=serving.tls.certificate if serving.tls else None,
        is_exposed=not is_loopback(serving.host),
        has_metrics=has_metrics,
    )
