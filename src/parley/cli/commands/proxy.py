"""`parley proxy`: any A2A agent behind every version and binding, and the conversation for everybody to see."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.options.client import Calling, HowToCall
from parley.cli.options.groups import unfolded
from parley.cli.options.server import HowToServe, LogFormat, ServerOptions, UsageError, check_url
from parley.cli.output.trace_text import Detail, TraceText
from parley.cli.serving.running import fail, run_server
from parley.protocol.cards import AgentCard
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.client.credentials.credentials import Credentials
    from parley.proxy.ledger import Ledger
    from parley.proxy.trace import Trace
    from parley.server.pages.signer import Signer
    from parley.server.run import Bound
    from parley.server.security.requirements import Security


EXIT_CODES = """\b
Exit codes:
  0    it was told to end
  1    it cannot serve: a port, a file, or an agent that does not speak A2A
  2    the command was asked wrongly
  3    the agent is unreachable, has no card, or its address is forbidden
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is put before which agent, who hears of it, and what is remembered."""

    calling: Calling
    server: ServerOptions
    webhook_url: str | None
    ledger: Path | None
    trace: Detail | None
    trace_file: Path | None


@unfolded
def proxy(
    how: HowToCall,
    server: HowToServe,
    trace: Annotated[bool, typer.Option("--trace", help="Show what is said on both sides, as it happens.")] = False,
    trace_lines: Annotated[
        bool, typer.Option("--trace-lines", help="The same in brief: one line for each message.")
    ] = False,
    trace_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the same to a file, in lines of JSON.")
    ] = None,
    webhook_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the agent reaches the proxy, to pass its notifications on.",
            show_default="--public-url, if there is one",
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Remember in this file, over restarts, whose tasks are whose.")
    ] = None,
) -> None:
    """Put any A2A agent behind every version of A2A, over JSON-RPC, HTTP+JSON and gRPC.

    Callers' credentials are handed on to the agent. With --auth they are for the
    proxy, and with --token, --header or --cert the proxy has its own for the agent.

    \b
    Examples:
      parley proxy http://localhost:9999
      parley proxy https://agents.example.com/old --port 9000 --trace
      parley proxy https://agents.example.com/old --auth auth.toml --token $TOKEN
    """
    options = Options(
        calling=how,
        server=server,
        webhook_url=check_url(webhook_url, "--webhook-url") or server.public_url,
        ledger=ledger,
        trace=Detail.LINES if trace_lines else Detail.BODIES if trace else None,
        trace_file=trace_file,
    )
    from parley.server.telemetry.logs import configure_logging

    configure_logging(server.log_format.value, server.log_level.value)
    try:
        security, signer = server.security(), server.signer()
    except (UsageError, ValueError) as error:
        fail(str(error), code=2)
    run_server(_serve(options, security, signer), server.serving)


async def _serve(options: Options, security: Security | None, signer: Signer | None) -> None:
    from parley.proxy.proxied import proxied
    from parley.proxy.remote_agent import RemoteAgent
    from parley.server.run import serve

    calling, server = options.calling, options.server
    with _trace(options) as trace, _ledger(options.ledger) as ledger:
        async with proxied(
            calling.url,
            bindings=calling.bindings,
            versions=calling.versions,
            credentials=_credentials(calling, has_door=security is not None),
            trusted=calling.trusted,
            security=security,
            guard=calling.guard(),
            tls=calling.tls,
            timeouts=calling.timeouts(),
            limits=server.limits(),
            public_url=server.public_url,
            webhook_url=options.webhook_url,
            signer=signer,
            cors_origins=server.cors_origins,
            telemetry=server.telemetry(),
            webhooks=server.webhook_policy(),
            trace=trace,
            ledger=ledger,
        ) as app:
            (agent,) = app.agents
            assert isinstance(agent, RemoteAgent)
            who = _who(agent.card(), is_unauthenticated=app.is_unauthenticated, has_door=security is not None)

            def say(bound: Bound) -> None:
                if server.log_format is LogFormat.TEXT:
                    _announce(f"{agent.name} ({calling.url}, {agent.spoken})", bound, who)

            fields = {"agent": calling.url} if server.log_format is LogFormat.JSON else None
            await serve(app, server.serving, on_ready=say, log_fields=fields)


def _credentials(calling: Calling, *, has_door: bool) -> Credentials | None:
    """The proxy's own for the agent, if it has any; what was logged in with is not for strangers to use."""
    return calling.credentials(with_logins=has_door) if has_door or calling.has_credentials else None


@contextmanager
def _trace(options: Options) -> Generator[Trace | None]:
    """What hears the conversation, if anybody is to."""
    from parley.proxy.trace import Trace, Write, json_writer

    writers: list[Write] = []
    with ExitStack() as stack:
        if options.trace is not None:
            writers.append(stack.enter_context(TraceText(typer.get_text_stream("stdout"), options.trace)))
        if options.trace_file is not None:
            # It holds whole conversations, and is for nobody else from its first byte on.
            file = os.open(options.trace_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            writers.append(json_writer(stack.enter_context(open(file, "a", encoding="utf-8"))))
            os.fchmod(file, 0o600)
        yield Trace(*writers) if writers else None


@contextmanager
def _ledger(file: Path | None) -> Generator[Ledger | None]:
    """What is remembered over restarts, if anything is."""
    from parley.proxy.ledger_file import ledger_in

    if file is None:
        yield None
        return
    with ledger_in(file) as ledger:
        yield ledger


def _who(card: AgentCard, *, is_unauthenticated: bool, has_door: bool) -> str:
    if has_door:
        return "Callers must authenticate at the proxy (--auth)."
    if is_unauthenticated:
        return "Open: whoever reaches the proxy may use the agent."
    return f"Callers' credentials are handed on to the agent: {', '.join(card.security_schemes)}."


def _announce(agent: str, bound: Bound, who: str) -> None:
    lines: Sequence[str] = [
        f"\nParley puts {printable_line(agent)} behind every version and binding:\n",
        f"  card       {bound.url}/.well-known/agent-card.json",
        f"  JSON-RPC   {bound.url}/  (0.1 to 1.0)",
        f"  HTTP+JSON  {bound.url}/message:send  (1.0), {bound.url}/v1/message:send  (0.3)",
        *([f"  gRPC       {bound.grpc_target}  (0.3 and 1.0)"] if bound.grpc_target else []),
        f"\n{printable_line(who)}\n",
        "Ctrl+C ends it; tasks stay where they are, at the agent.",
    ]
    typer.echo("\n".join(lines))
