"""The options of a server, which `parley serve`, `parley up` and `parley proxy` share, and what they build.

Who may call is not among them: `access` has the options of servers whose callers an auth file lists.

Large modules are imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from parley.cli.options.client import INSTALL_GRPC
from parley.cli.options.groups import OptionGroup
from parley.cli.options.limits import NO_CHANGES, SERVER_LIMITS, LimitValues, limit_options
from parley.cli.output.exit_codes import fail
from parley.cli.output.help_text import Section
from parley.console.settings import ConsoleMode
from parley.network.urls import AGENT, InvalidUrlError, parse_url
from parley.protocol.errors import ParleyError
from parley.server.limits import ServerLimits
from parley.server.listener.limits import ListenerLimits
from parley.server.security.throttle import RateLimits

if TYPE_CHECKING:
    from parley.keys.signing_key import SigningKeys
    from parley.server.listener.tls import TlsFiles
    from parley.server.run import Serving
    from parley.server.telemetry.audit import AuditTrail
    from parley.server.telemetry.telemetry import Telemetry
    from parley.server.webhooks.auth_settings import WebhookAuthSettings
    from parley.server.webhooks.guard import WebhookPolicy

GRPC_PORT = 50051
GRPC_MODULES = ("grpc", "grpc_health", "grpc_reflection")

WebhookTargets: TypeAlias = Literal["public", "listed", "any", "off"]
WebhookChallenge: TypeAlias = Literal["never", "private", "always"]
LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
ClientAuth: TypeAlias = Literal["required", "optional"]


class UsageError(ParleyError):
    """An option conflicts with another, or its file is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of a server."""

    serving: Serving
    grpc_hint: str | None
    """How to serve gRPC, if no option mentions it."""
    public_url: str | None
    signing_key: Path | None
    cors_origins: tuple[str, ...]
    limits: ServerLimits
    webhooks: WebhookTargets
    webhook_hosts: tuple[str, ...]
    webhook_proxy: bool
    webhook_auth: Path | None
    webhook_challenge: WebhookChallenge
    console: ConsoleMode
    metrics: bool | None
    log_format: LogFormat
    log_level: LogLevel

    def telemetry(self, audit: AuditTrail | None = None) -> Telemetry:
        """Metrics, audit trail and tracing."""
        from parley.server.run import is_loopback
        from parley.server.telemetry.metrics import Metrics
        from parley.server.telemetry.telemetry import Telemetry

        wants_metrics = self.metrics if self.metrics is not None else is_loopback(self.serving.host)
        return Telemetry(
            metrics=Metrics() if wants_metrics else None,
            audit=audit,
            tracing=_tracing(),
        )

    def webhook_policy(self) -> WebhookPolicy | None:
        """Which webhooks may be called; None for no webhooks at all."""
        from parley.server.webhooks.guard import WebhookPolicy

        if self.webhooks == "off":
            return None
        return WebhookPolicy(
            allow_private=self.webhooks == "any",
            allowed_hosts=self.webhook_hosts,
            only_listed=self.webhooks == "listed",
            use_proxy=self.webhook_proxy,
            challenge=self.webhook_challenge,
        )

    def webhook_auth_settings(self) -> WebhookAuthSettings | None:
        """How webhooks are authenticated to, beyond what their configs contain.

        Raises:
            UsageError: the file is not valid.
        """
        if self.webhook_auth is None:
            return None
        from parley.server.security.auth_file import AuthFileError
        from parley.server.webhooks.auth_file import load_webhook_auth

        try:
            return load_webhook_auth(self.webhook_auth)
        except AuthFileError as error:
            raise UsageError(str(error)) from error

    def signer(self) -> SigningKeys | None:
        """What signs the cards.

        Raises:
            UsageError: the file has no valid key, or the folder cannot be used.
        """
        file = self.signing_key
        if file is None:
            return None
        from parley.keys.given_keys import FileKey
        from parley.keys.key_ring import KeyRing
        from parley.protocol.errors import LocalProtocolError

        try:
            return KeyRing(file) if file.is_dir() else FileKey(file)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        except LocalProtocolError as error:
            raise UsageError(str(error)) from error


def _tracing() -> Any:
    """Tracing, if a tracer provider is installed in this process."""
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    from parley.server.telemetry.tracing import Tracing

    return Tracing()


# --- options ----------------------------------------------------------------------------------------------------------


def server_url(url: str | None) -> str | None:
    """The URL of a server. Raises BadParameter if it is invalid."""
    try:
        parsed = parse_url(url) if url is not None else None
    except InvalidUrlError as error:
        raise typer.BadParameter(error.message) from None
    if parsed is not None and (parsed.query or parsed.fragment):
        raise typer.BadParameter("Invalid URL: it must not have a query or a fragment.")
    return url


def _host_and_port(text: str | None) -> str | None:
    try:
        parsed = parse_url(text, AGENT) if text is not None else None
    except InvalidUrlError as error:
        raise typer.BadParameter(error.message) from None
    if parsed is not None and (parsed.target != "/" or parsed.fragment or not (parsed.scheme or parsed.has_port)):
        advice = "Write it as agents.example.com:443, or with a scheme before it."
        raise typer.BadParameter(f"Invalid host and port: {text!r}. {advice}")
    return text


def _check_each(texts: list[str] | None, pattern: str, what: str, advice: str) -> list[str] | None:
    for text in texts or ():
        if not re.fullmatch(pattern, text, re.ASCII):
            raise typer.BadParameter(f"Invalid {what}: {text!r}. {advice}")
    return texts


def _origins(texts: list[str] | None) -> list[str] | None:
    advice = "Write it as https://app.example.com, or * for all."
    return _check_each(texts, r"\*|[a-z][a-z0-9+.-]*://[^/?#@\s]+", "origin", advice)


def host_names(texts: list[str] | None) -> list[str] | None:
    """The names of hosts. Raises BadParameter."""
    advice = "Write it without a port, as agents.example.com, or as .example.com for all names below it."
    return _check_each(texts, r"\.?[\w-]+(\.[\w-]+)*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*", "host name", advice)


def _networks(texts: list[str] | None) -> list[str] | None:
    for text in texts or ():
        try:
            ip_network(text)
        except ValueError as error:
            raise typer.BadParameter(f"Invalid address or network: {text!r}.") from error
    return texts


_network = partial(typer.Option, rich_help_panel=Section.NETWORK)
_security = partial(typer.Option, rich_help_panel=Section.SECURITY)
_cards = partial(typer.Option, rich_help_panel=Section.CARDS)
_webhooks = partial(typer.Option, rich_help_panel=Section.WEBHOOKS)
_logs = partial(typer.Option, rich_help_panel=Section.LOGS)

# Options that `parley console` has as well.
HostOption: TypeAlias = Annotated[str, _network(metavar="HOST", help="The address to listen on.")]
TlsCertOption: TypeAlias = Annotated[Path | None, _security(metavar="FILE", help="The certificate chain, in PEM.")]
TlsKeyOption: TypeAlias = Annotated[Path | None, _security(metavar="FILE", help="The certificate's key, in PEM.")]
TrustedProxyOption: TypeAlias = Annotated[
    list[str] | None,
    _network(metavar="ADDRESS", callback=_networks, help="Trust X-Forwarded-… headers from this address or network."),
]
AllowedHostOption: TypeAlias = Annotated[
    list[str] | None,
    _network(
        metavar="NAME", callback=host_names, help="Also answer under this host name; .example.com for all subdomains."
    ),
]
AccessLogOption: TypeAlias = Annotated[bool, _logs(help="Log every HTTP request.")]
LogFormatOption: TypeAlias = Annotated[
    LogFormat, _logs(metavar="FORMAT", help="The format of log lines: text or json.")
]
LogLevelOption: TypeAlias = Annotated[
    LogLevel, _logs(metavar="LEVEL", help="The log level: debug, info, warning or error.")
]

WithServerLimits = Annotated[LimitValues, OptionGroup(limit_options(*SERVER_LIMITS))]


def server_options(
    limits: WithServerLimits = NO_CHANGES,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, _network(metavar="PORT", min=0, max=65_535, help="The HTTP port; 0 picks a free one.")] = 8080,
    grpc_port: Annotated[
        str | None,
        _network(
            metavar="PORT|off",
            help=f"Also serve gRPC, on this port, usually {GRPC_PORT}; 0 picks a free one.",
            show_default="off",
        ),
    ] = None,
    public_url: Annotated[
        str | None, _network(metavar="URL", callback=server_url, help="The public URL of this server, for its cards.")
    ] = None,
    public_grpc_url: Annotated[
        str | None,
        _network(
            metavar="HOST:PORT",
            callback=_host_and_port,
            help="The public address of gRPC, if it differs; the card has it as given.",
        ),
    ] = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: Annotated[
        Path | None, _security(metavar="FILE", help="Accept client certificates from this authority (mutual TLS).")
    ] = None,
    tls_client_auth: Annotated[
        ClientAuth, _security(metavar="HOW", help="Whether callers must present a certificate: required or optional.")
    ] = "required",
    trusted_proxy: TrustedProxyOption = None,
    allowed_host: AllowedHostOption = None,
    signing_key: Annotated[
        Path | None,
        _cards(metavar="PATH", help="Sign with this key, PEM or JWK, or with those in this folder. See parley keys."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        _network(metavar="ORIGIN", callback=_origins, help="Allow calls from web pages of this origin; * for all."),
    ] = None,
    webhooks: Annotated[
        WebhookTargets,
        _webhooks(
            metavar="WHICH",
            help="Which webhooks may be called: public (https), listed (only those of --webhook-host), any, or off.",
        ),
    ] = "public",
    webhook_host: Annotated[
        list[str] | None,
        _webhooks(
            metavar="NAME",
            callback=host_names,
            help="Also call webhooks on this host, private or not; .example.com for all subdomains.",
        ),
    ] = None,
    webhook_proxy: Annotated[
        bool, _webhooks(help="Call webhooks through the proxy that HTTPS_PROXY names.", show_default="on")
    ] = True,
    webhook_auth: Annotated[
        Path | None,
        _webhooks(
            metavar="FILE",
            help="OAuth2 clients and certificates for webhooks, in TOML, and which are signed. SIGHUP reads it again.",
        ),
    ] = None,
    webhook_challenge: Annotated[
        WebhookChallenge,
        _webhooks(
            metavar="WHICH",
            help="Which webhooks must echo a token before their first call: never, private or always.",
        ),
    ] = "never",
    console: Annotated[
        ConsoleMode,
        _network(
            metavar="auto|on|off",
            help="A page for people at /console.",
            show_default="on loopback, and where callers must authenticate",
        ),
    ] = "auto",
    metrics: Annotated[
        bool | None, _logs(help="Prometheus metrics at /metrics.", show_default="on loopback only")
    ] = None,
    access_log: AccessLogOption = False,
    log_format: LogFormatOption = "text",
    log_level: LogLevelOption = "info",
) -> ServerOptions:
    """Build the value from the options.

    Raises:
        BadParameter: one of them is not valid.
    """
    from parley.server.run import Serving

    if webhooks == "listed" and not webhook_host:
        text = "Name a host with --webhook-host, or turn webhooks off with --webhooks off."
        raise typer.BadParameter(text, param_hint="--webhooks listed")
    grpc = _grpc_port(grpc_port)
    if public_grpc_url is not None and grpc is None:
        raise typer.BadParameter("gRPC is not served. Choose a port with --grpc-port.", param_hint="--public-grpc-url")
    serving = Serving(
        host=host,
        port=port,
        grpc_port=grpc,
        public_grpc=public_grpc_url,
        tls=_tls(tls_cert, tls_key, tls_client_ca, tls_client_auth),
        trusted_proxies=tuple(trusted_proxy or ()),
        allowed_hosts=tuple(allowed_host or ()),
        access_log=access_log,
        limits=limits.of(ListenerLimits),
    )
    return ServerOptions(
        serving=serving,
        grpc_hint=f"--grpc-port {GRPC_PORT} serves it" if grpc_port is None else None,
        public_url=public_url,
        signing_key=signing_key,
        cors_origins=tuple(cors_origin or ()),
        limits=limits.of(ServerLimits, rates=limits.of(RateLimits)),
        webhooks=webhooks,
        webhook_hosts=tuple(webhook_host or ()),
        webhook_proxy=webhook_proxy,
        webhook_auth=webhook_auth,
        webhook_challenge=webhook_challenge,
        console=console,
        metrics=metrics,
        log_format=log_format,
        log_level=log_level,
    )


WithServerOptions = Annotated[ServerOptions, OptionGroup(server_options)]


def _grpc_port(text: str | None) -> int | None:
    """The port for gRPC, which is served only on request.

    google-adk refuses a card with an interface that is not an http URL of the card's own origin.
    """
    port = None if text is None else parse_grpc_port(text)
    if port is not None and not all(importlib.util.find_spec(name) for name in GRPC_MODULES):
        fail(f"gRPC is not installed. {INSTALL_GRPC}, or leave out --grpc-port.", code=2)
    return port


def parse_grpc_port(text: str) -> int | None:
    """The port in `--grpc-port`; None for `off`.

    Raises:
        BadParameter: it is neither a port nor `off`.
    """
    if text == "off":
        return None
    if text.isascii() and text.isdigit() and int(text) <= 65_535:
        return int(text)
    raise typer.BadParameter(
        f"Invalid port: {text!r}. Give a number up to 65535, 0 for a free port, or off.", param_hint="--grpc-port"
    )


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None, client_auth: ClientAuth) -> TlsFiles | None:
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise typer.BadParameter("TLS needs both files.", param_hint="--tls-cert and --tls-key")
    from parley.server.listener.tls import ClientCertificates, TlsFiles

    return TlsFiles(
        certificate=cert,
        key=key,
        client_authority=client_ca,
        client_certificates=ClientCertificates(client_auth),
    )
