"""Gives a server its console, where it may have one. Nothing of the console is imported before it is used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.cli.options.server import ServerOptions
from parley.console.settings import ConsoleSettings, has_console
from parley.network.addresses import is_loopback as is_this_machine
from parley.network.urls import parse_url

if TYPE_CHECKING:
    from parley.console.backend import ServerKind
    from parley.console.console import Console
    from parley.host.host import Host
    from parley.server.app import App
    from parley.server.contracts import CallerAuthenticator


def is_local(server: ServerOptions) -> bool:
    """Whether only this machine reaches a server: it listens on loopback, and nothing says that a proxy leads to it."""
    from parley.server.run import is_loopback

    serving = server.serving
    is_public = server.public_url is not None and not is_loopback(parse_url(server.public_url).host)
    has_other_names = not all(map(is_this_machine, serving.allowed_hosts))
    return is_loopback(serving.host) and not is_public and not has_other_names and not serving.trusted_proxies


def install_console(
    app: App,
    server: ServerOptions,
    *,
    security: CallerAuthenticator | None,
    kind: ServerKind = "serve",
    settings: ConsoleSettings | None = None,
) -> bool:
    """Give an app a console, and return whether it has one. `security` is the server's own authentication.

    Raises:
        ConsoleRefusedError: the console is on, but other machines could use it without a login.
    """
    local = is_local(server)
    if not has_console(server.console, is_loopback=local, has_authentication=security is not None):
        return False
    settings = replace(settings or ConsoleSettings(), is_loopback=local)
    from parley.console.deferred import DeferredConsole

    def make() -> Console:
        from parley.console.console import Console
        from parley.console.served import ServedBackend

        return Console(ServedBackend(app, security=security, kind=kind, is_loopback=local), settings)

    app.install_console(DeferredConsole(make))
    return True


def install_host_console(host: Host, server: ServerOptions) -> bool:
    """Give a host a console, and return whether it has one. Every caller of a host must authenticate."""
    local = is_local(server)
    if not has_console(server.console, is_loopback=local, has_authentication=True):
        return False
    allowed_hosts = host.settings.remote_agents.allow_private_hosts
    settings = ConsoleSettings(is_loopback=local, allowed_hosts=allowed_hosts)
    from parley.console.deferred import DeferredConsole

    def make() -> Console:
        from parley.console.console import Console
        from parley.console.hosted import HostedBackend

        return Console(HostedBackend(host), settings)

    host.app.install_console(DeferredConsole(make))
    return True
