"""`parley proxy`: serves another A2A agent in every version and binding, and can trace the conversation."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.options.access import AccessOptions, WithAccessOptions
from parley.cli.options.client import ClientOptions, WithClientOptions
from parley.cli.options.groups import with_option_groups
from parley.cli.options.server import ServerOptions, UsageError, WithServerOptions, server_url
from parley.cli.options.settings import ShowConfig, log_settings, show_settings
from parley.cli.output.exit_codes import fail
from parley.cli.output.trace_text import TraceDetail, TraceText
from parley.cli.serving.console_setup import install_console
from parley.cli.serving.running import run_server
from parley.protocol.cards import AgentCard
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.client.credentials.credentials import Credentials
    from parley.keys.signing_key import SigningKeys
    from parley.proxy.trace import Trace
    from parley.server.run import Bound
    from parley.server.security.authentication import Security
    from parley.server.webhooks.auth_settings import WebhookAuthSettings

EXIT_CODES = """\b
Exit codes:
  0    stopped by a signal
  1    it cannot serve: a port, a file, or an agent that does not speak A2A
  2    invalid arguments
  3    the agent is unreachable, has no card, or its address is forbidden
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """The options of `parley proxy`."""

    client: ClientOptions
    access: AccessOptions
    server: ServerOptions
    webhook_url: str | None
    ledger: Path | None
    trace: TraceDetail | None
    trace_file: Path | None


@with_option_groups
def proxy(
    context: typer.Context,
    client: WithClientOptions,
    access: WithAccessOptions,
    server: WithServerOptions,
    show_config: ShowConfig,
    trace: Annotated[bool, typer.Option("--trace", help="Print the requests and replies of both sides.")] = False,
    trace_lines: Annotated[bool, typer.Option("--trace-lines", help="Print one line for each message.")] = False,
    trace_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trace to a file, in lines of JSON.")
    ] = None,
    webhook_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=server_url,
            help="The URL at which the agent can send notifications to the proxy.",
            show_default="--public-url, if there is one",
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the owners of tasks in this file, across restarts.")
    ] = None,
) -> None:
    """Serve another A2A agent in every version of A2A, over JSON-RPC, HTTP+JSON and gRPC.

    The proxy forwards callers' credentials to the agent. With --auth, callers authenticate
    at the proxy; with --token, --header or --cert, the proxy has its own credentials.

    \b
    Examples:
      parley proxy http://localhost:9999
      parley proxy https://agents.example.com/old --port 9000 --trace
      parley proxy https://agents.example.com/old --auth auth.toml --token $TOKEN
    """
    if show_config:
        show_settings(context)
    options = ProxyOptions(
        client=client,
        access=access,
        server=server,
        webhook_url=webhook_url or server.public_url,
        ledger=ledger,
        trace=TraceDetail.LINES if trace_lines else TraceDetail.BODIES if trace else None,
        trace_file=trace_file,
    )
    from parley.server.telemetry.logs import configure_logging

    configure_logging(server.log_format, server.log_level)
    log_settings(context)
    try:
        security, signer = access.security(server.serving), server.signer()
        webhook_auth = _webhook_auth_settings(server)
    except (UsageError, ValueError) as error:
        fail(str(error), code=2)
    run_server(_serve(options, security, signer, webhook_auth), server.serving)


async def _serve(
    options: ProxyOptions,
    security: Security | None,
    signer: SigningKeys | None,
    webhook_auth: WebhookAuthSettings | None,
) -> None:
    from parley.proxy.ledger import open_ledger
    from parley.proxy.proxied import proxied
    from parley.proxy.remote_agent import RemoteAgent
    from parley.server.reloading import reload_settings
    from parley.server.run import serve

    client, server = options.client, options.server
    ledger_file = open_ledger(options.ledger) if options.ledger else nullcontext()
    with _trace(options) as trace, ledger_file as ledger:
        async with proxied(
            client.url,
            bindings=client.bindings,
            versions=client.versions,
            credentials=_credentials(client, authenticates=security is not None),
            trusted=client.trusted,
            security=security,
            guard=client.guard(),
            tls=client.tls,
            timeouts=client.timeouts(),
            limits=server.limits,
            public_url=server.public_url,
            webhook_url=options.webhook_url,
            signer=signer,
            cors_origins=server.cors_origins,
            telemetry=server.telemetry(),
            webhooks=server.webhook_policy(),
            webhook_auth=webhook_auth,
            trace=trace,
            ledger=ledger,
        ) as app:
            (agent,) = app.agents
            assert isinstance(agent, RemoteAgent)
            who = _access_note(
                agent.card(), is_unauthenticated=app.is_unauthenticated, authenticates=security is not None
            )

            try:
                has_console = install_console(app, server, security=security, kind="proxy")
            except ValueError as error:
                fail(str(error), code=2)

            def announce(bound: Bound) -> None:
                if server.log_format == "text":
                    _announce(f"{agent.name} ({client.url}, {agent.protocol})", bound, who, has_console=has_console)

            def reload() -> None:
                reload_settings(app, security=security, load_webhook_auth=partial(_webhook_auth_settings, server))
                if trace is not None and security is not None:  # whose keys may come in other headers now
                    trace.mask(security.schemes.values())

            fields = {"agent": client.url, "console": has_console} if server.log_format == "json" else None
            await serve(
                app,
                options.access.applied_to(server.serving),
                on_ready=announce,
                on_hangup=reload,
                log_fields=fields,
            )


def _webhook_auth_settings(server: ServerOptions) -> WebhookAuthSettings | None:
    """How the proxy authenticates to webhooks. Raises UsageError if the file is not valid, or not for a proxy."""
    settings = server.webhook_auth_settings()
    if settings is not None and settings.sign == "always":
        raise UsageError(f'{server.webhook_auth}: a proxy does not sign its calls to webhooks (sign = "always").')
    return settings


def _credentials(client: ClientOptions, *, authenticates: bool) -> Credentials | None:
    """The proxy's own credentials, if any; stored logins are used only if callers authenticate at the proxy."""
    return client.credentials(with_logins=authenticates) if authenticates or client.has_credentials else None


@contextmanager
def _trace(options: ProxyOptions) -> Generator[Trace | None]:
    """The trace, if there is one. The console shows the wire with a trace that has no writers until a page looks."""
    from parley.proxy.trace import Trace, TraceWriter, json_writer

    writers: list[TraceWriter] = []
    with ExitStack() as stack:
        if options.trace is not None:
            writers.append(stack.enter_context(TraceText(typer.get_text_stream("stdout"), options.trace)))
        if options.trace_file is not None:
            # It contains whole conversations, so only the owner may ever read it.
            file = os.open(options.trace_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            writers.append(json_writer(stack.enter_context(open(file, "a", encoding="utf-8"))))
            os.fchmod(file, 0o600)
        yield Trace(*writers) if writers or options.server.console != "off" else None


def _access_note(card: AgentCard, *, is_unauthenticated: bool, authenticates: bool) -> str:
    if authenticates:
        return "Callers must authenticate at the proxy (--auth)."
    if is_unauthenticated:
        return "Open: anyone who can reach the proxy may call the agent."
    return f"The proxy forwards callers' credentials to the agent: {', '.join(card.security_schemes)}."


def _announce(agent: str, bound: Bound, who: str, *, has_console: bool) -> None:
    lines: Sequence[str] = [
        f"\nParley serves {printable_line(agent)} in every version and binding:\n",
        *([f"  console    {bound.url}/console/"] if has_console else []),
        f"  card       {bound.url}/.well-known/agent-card.json",
        f"  JSON-RPC   {bound.url}/  (0.1 to 1.0)",
        f"  HTTP+JSON  {bound.url}/message:send  (1.0), {bound.url}/v1/message:send  (0.3)",
        *([f"  gRPC       {bound.grpc_target}  (0.3 and 1.0)"] if bound.grpc_target else []),
        f"\n{printable_line(who)}\n",
        "Press Ctrl+C to stop; tasks stay at the agent.",
    ]
    typer.echo("\n".join(lines))
