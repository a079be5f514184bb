"""`parley console`: a page in the browser for agents anywhere, of any version, without a server of ours.

It is an app without agents that has a console. Large modules are imported when they are needed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.options.client import agent_url
from parley.cli.options.console import ConsoleOptions, WithConsoleOptions
from parley.cli.options.groups import with_option_groups
from parley.cli.options.server import UsageError
from parley.cli.options.settings import ShowConfig, is_default, log_settings, show_settings
from parley.cli.output.exit_codes import fail
from parley.cli.serving.console_setup import install_console
from parley.cli.serving.running import run_server
from parley.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from parley.server.run import Bound

logger = logging.getLogger(__name__)


@with_option_groups
def console(
    context: typer.Context,
    options: WithConsoleOptions,
    show_config: ShowConfig,
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", help="Agents or catalogues to show; the page can add others.")
    ] = None,
) -> None:
    """Show agents in the browser: talk to them, and see what they say, in any version of A2A.

    The server calls the agents, and the browser only this server. It listens on this machine
    only, unless callers must authenticate (--auth).

    \b
    Examples:
      parley console
      parley console http://localhost:9999 https://agents.example.com/currency
      parley console --host 0.0.0.0 --auth auth.toml --tls-cert cert.pem --tls-key key.pem
    """
    if show_config:
        show_settings(context)
    from parley.server.telemetry.logs import configure_logging

    configure_logging(options.server.log_format, options.server.log_level)
    log_settings(context)
    _serve(options, list(map(agent_url, urls or ())), may_choose_port=is_default(context, "port"))


def _serve(options: ConsoleOptions, agents: list[str], *, may_choose_port: bool) -> None:
    from parley.server.app import App
    from parley.server.run import serve
    from parley.stores.interface import StoreError

    server = options.server
    serving = replace(options.access.applied_to(server.serving), or_free_port=may_choose_port)
    try:
        security = options.access.security(serving)
        app = App(
            many=True,
            store=options.store,
            security=security,
            public_url=server.public_url,
            limits=server.limits,
            telemetry=server.telemetry(),
        )
        settings = ConsoleSettings(agents=tuple(agents), allowed_hosts=options.agent_hosts)
        install_console(app, server, security=security, kind="console", settings=settings)
    except (StoreError, UsageError, ValueError) as error:
        fail(str(error), code=2)

    def announce(bound: Bound) -> None:
        if server.log_format == "text":
            who = "Log in there." if security is not None else "It is open to this machine only."
            typer.echo(f"\nThe console is at {bound.url}/console/\n\n{who} Press Ctrl+C to stop.")

    fields = {"console": True} if server.log_format == "json" else None
    run_server(serve(app, serving, on_ready=announce, log_fields=fields), serving)
