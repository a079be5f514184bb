"""`parley proxy`: any A2A agent behind every version and binding, and the conversation for everybody to see."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli import calling as c
from parley.cli.logins import login_store
from parley.cli.serve import GRPC_MODULES, GRPC_PORT, INSTALL_GRPC, LogLevel, WebhookTargets, parse_grpc_port
from parley.protocol.cards import AgentCard

if TYPE_CHECKING:
    from parley.client.credentials import Credentials
    from parley.proxy.trace import Trace, Write
    from parley.server.run import Bound, Serving
    from parley.server.tls import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is put before which agent, and who hears of it."""

    calling: c.Calling
    auth: Path | None
    public_url: str | None
    webhooks: WebhookTargets
    has_trace: bool
    trace_file: Path | None
    log_level: LogLevel


def proxy(
    url: c.Url,
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
    trace: Annotated[bool, typer.Option("--trace", help="Show what is said on both sides, as it happens.")] = False,
    trace_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the same to a file, in lines of JSON.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where callers reach the proxy, for the URLs in its cards.")
    ] = None,
    auth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may call the proxy: a TOML file. See parley token.")
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Let other machines call where nobody asks for credentials.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate chain, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key, in PEM.")] = None,
    webhooks: Annotated[
        WebhookTargets,
        typer.Option(metavar="WHICH", help="Which webhooks callers may register: public (https), any, or off."),
    ] = WebhookTargets.PUBLIC,
    token: c.Token = None,
    header: c.Headers = None,
    trust: c.TrustedOrigins = None,
    binding: c.BindingChoice = None,
    dialect: c.DialectChoice = None,
    allow_private: c.AllowPrivate = False,
    timeout: c.TimeoutSeconds = None,
    log_level: Annotated[
        LogLevel, typer.Option(metavar="LEVEL", help="What is logged: debug, info, warning or error.")
    ] = LogLevel.WARNING,
) -> None:
    """Put any A2A agent behind every version of A2A, over JSON-RPC, HTTP+JSON and gRPC.

    Callers' credentials are handed on to the agent. With --auth they are for the
    proxy, and with --token or --header the proxy has its own for the agent.

    \b
    Examples:
      parley proxy http://localhost:9999
      parley proxy https://agents.example.com/old --port 9000 --trace
      parley proxy https://agents.example.com/old --auth auth.toml --token $TOKEN
    """
    options = Options(
        calling=c.Calling(
            url=c.parse_url(url),
            token=token,
            headers=tuple(map(c.parse_header, header or ())),
            trusted=tuple(map(c.parse_origin, trust or ())),
            binding=binding,
            dialect=dialect,
            allow_private=allow_private,
            timeout=timeout,
        ),
        auth=auth,
        public_url=public_url,
        webhooks=webhooks,
        has_trace=trace,
        trace_file=trace_file,
        log_level=log_level,
    )
    from parley.server.run import Serving

    grpc, tls = _grpc_port(grpc_port), _tls(tls_cert, tls_key)
    serving = Serving(host=host, port=port, grpc_port=grpc, tls=tls, allow_anonymous=allow_anonymous)
    _run(options, serving)


def _grpc_port(text: str | None) -> int | None:
    """The port for gRPC. Nobody who does not ask for it needs to have it installed."""
    port = GRPC_PORT if text is None else parse_grpc_port(text)
    if port is None or all(importlib.util.find_spec(name) for name in GRPC_MODULES):
        return port
    if text is not None:
        raise typer.BadParameter(
            f"gRPC is not installed. {INSTALL_GRPC}, or --grpc-port off.", param_hint="--grpc-port"
        )
    return None


def _tls(cert: Path | None, key: Path | None) -> TlsFiles | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise typer.BadParameter("TLS needs both files.", param_hint="--tls-cert and --tls-key")
    from parley.server.tls import TlsFiles

    return TlsFiles(certificate=cert, key=key)


def _run(options: Options, serving: Serving) -> None:
    from parley.protocol.errors import ParleyError
    from parley.server.logs import configure_logging
    from parley.server.run import CannotServeError, OpenToNetworkError, run

    configure_logging("text", options.log_level.value)
    try:
        run(_serve(options, serving))
    except OpenToNetworkError as error:
        _fail(f"{error} The options for that: --auth FILE, --host 127.0.0.1, --allow-anonymous.", c.USAGE)
    except CannotServeError as error:
        _fail(f"{error} --port 0 and --grpc-port 0 pick free ports.", c.REFUSED)
    except (ParleyError, OSError, ValueError) as error:
        raise typer.Exit(c.tell(error, as_json=False)) from error


def _fail(message: str, code: int) -> None:
    typer.secho(f"Error: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(code)


async def _serve(options: Options, serving: Serving) -> None:
    from parley.proxy.proxied import proxied
    from parley.server.auth_file import load_security
    from parley.server.run import serve
    from parley.server.webhook_guard import PUBLIC_ONLY, WebhookPolicy

    policies = {WebhookTargets.PUBLIC: PUBLIC_ONLY, WebhookTargets.ANY: WebhookPolicy(allow_private=True)}
    calling = options.calling
    security = None if options.auth is None else load_security(options.auth)
    with _trace(options) as trace:
        async with proxied(
            calling.url,
            bindings=calling.bindings,
            versions=calling.versions,
            credentials=_credentials(calling, has_door=security is not None),
            trusted=calling.trusted,
            security=security,
            guard=calling.guard(),
            timeouts=calling.timeouts(),
            public_url=options.public_url,
            webhooks=policies.get(options.webhooks),
            trace=trace,
        ) as app:
            (agent,) = app.agents
            who = _who(agent.card(), is_open=app.is_open, has_door=security is not None)
            await serve(app, serving, on_ready=lambda bound: _announce(agent.name, calling.url, bound, who))


def _credentials(calling: c.Calling, *, has_door: bool) -> Credentials | None:
    """The proxy's own for the agent, if it has any; what was logged in with is not for strangers to use."""
    if not has_door and calling.token is None and not calling.headers:
        return None
    from parley.client.credentials import Credentials

    secrets = {"bearer": calling.token, "api-key": calling.token} if calling.token else {}
    store = login_store() if has_door else None
    return Credentials(secrets, headers=dict(calling.headers), store=store, origins=calling.trusted)


@contextmanager
def _trace(options: Options) -> Generator[Trace | None]:
    """What hears the conversation, if anybody is to."""
    from parley.proxy.trace import Trace, json_writer, text_writer

    writers: list[Write] = []
    if options.has_trace:
        writers.append(text_writer(typer.get_text_stream("stdout")))
    if options.trace_file is None:
        yield Trace(*writers) if writers else None
        return
    with options.trace_file.open("a", encoding="utf-8") as file:
        options.trace_file.chmod(0o600)  # it holds whole conversations
        yield Trace(*writers, json_writer(file))


def _who(card: AgentCard, *, is_open: bool, has_door: bool) -> str:
    if has_door:
        return "Callers must authenticate at the proxy (--auth)."
    if is_open:
        return "Open: whoever reaches the proxy may use the agent."
    return f"Callers' credentials are handed on to the agent: {', '.join(card.security_schemes)}."


def _announce(name: str, url: str, bound: Bound, who: str) -> None:
    lines: Sequence[str] = [
        f"\nParley puts {name} at {url} behind\n",
        f"  card       {bound.url}/.well-known/agent-card.json",
        f"  JSON-RPC   {bound.url}/  (0.1 to 1.0)",
        f"  HTTP+JSON  {bound.url}/message:send  (1.0), {bound.url}/v1/message:send  (0.3)",
        *([f"  gRPC       {bound.grpc_target}  (0.3 and 1.0)"] if bound.grpc_target else []),
        f"\n{who}\n",
        "Ctrl+C ends it; tasks stay where they are, at the agent.",
    ]
    typer.echo("\n".join(lines))
