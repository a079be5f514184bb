"""The options of `parley console`: where it listens, and which agents it shows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.options.access import AccessOptions
from parley.cli.options.groups import OptionGroup
from parley.cli.options.server import (
    AccessLogOption,
    AllowedHostOption,
    HostOption,
    LogFormatOption,
    LogLevelOption,
    ServerOptions,
    TlsCertOption,
    TlsKeyOption,
    TrustedProxyOption,
    host_names,
    server_options,
    server_url,
)
from parley.cli.output.help_text import Section

PORT = 8090
"""Beside that of the servers, which is 8080."""

_network = partial(typer.Option, rich_help_panel=Section.NETWORK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The options of `parley console`."""

    server: ServerOptions
    access: AccessOptions
    agent_hosts: tuple[str, ...]
    store: str


def console_options(
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int,
        _network(
            metavar="PORT",
            min=0,
            max=65_535,
            help="The HTTP port; 0 picks a free one.",
            show_default=f"{PORT}, or a free one if it is in use",
        ),
    ] = PORT,
    public_url: Annotated[
        str | None, _network(metavar="URL", callback=server_url, help="The public URL of this server.")
    ] = None,
    agent_host: Annotated[
        list[str] | None,
        _network(
            metavar="NAME",
            callback=host_names,
            help="Also call agents on this host, private or not; .example.com for all subdomains.",
        ),
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Where sessions are kept: memory:, sqlite:///FILE or postgresql://….")
    ] = "memory:",
    auth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Who may log in: a TOML file. See parley token.", rich_help_panel=Section.SECURITY
        ),
    ] = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    trusted_proxy: TrustedProxyOption = None,
    allowed_host: AllowedHostOption = None,
    access_log: AccessLogOption = False,
    log_format: LogFormatOption = "text",
    log_level: LogLevelOption = "info",
) -> ConsoleOptions:
    """Build the value from the options. Raises BadParameter if one of them is not valid."""
    server = server_options(
        host=host,
        port=port,
        public_url=public_url,
        tls_cert=tls_cert,
        tls_key=tls_key,
        trusted_proxy=trusted_proxy,
        allowed_host=allowed_host,
        console="on",
        metrics=False,
        access_log=access_log,
        log_format=log_format,
        log_level=log_level,
    )
    access = AccessOptions(auth, allow_anonymous=False)
    return ConsoleOptions(server=server, access=access, agent_hosts=tuple(agent_host or ()), store=store)


WithConsoleOptions = Annotated[ConsoleOptions, OptionGroup(console_options)]
