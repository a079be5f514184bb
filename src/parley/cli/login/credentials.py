"""Gets the credentials of a login: from a prompt, or as tokens from an authorization server.

Large modules are imported when they are needed, so that `--help` is quick.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from getpass import getpass
from typing import TYPE_CHECKING

import typer

from parley.cli.login.choice import LoginOptions, flows_for
from parley.client.credentials.oauth_client import Flow
from parley.client.credentials.origins import origin_of
from parley.client.credentials.token_store import Login, Tokens
from parley.client.errors import CredentialsError
from parley.protocol.cards import (
    AgentInterface,
    Binding,
    HttpAuthScheme,
    OAuth2Scheme,
    OpenIdConnectScheme,
    SecurityScheme,
)
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.client.credentials.oauth import AuthorizationServer, Endpoints
    from parley.client.transports.connections import Connections

BROWSER_SECONDS = 600.0
"""How long to wait for the browser; most servers let codes expire by then."""


def prompt_for_secret(url: str, name: str, scheme: SecurityScheme) -> Login:
    """A key, token or password from the terminal or from standard input.

    Raises:
        CredentialsError: it is not valid.
    """
    from parley.client.credentials.schemes import describe_scheme, fields_for, kinds_of

    kind = kinds_of(scheme)[0]
    is_basic = isinstance(scheme, HttpAuthScheme) and kind == "basic"
    wanted = "name:password" if is_basic else "secret"
    secret = read_secret(f"{printable_line(describe_scheme(name, scheme))}; the {wanted}")
    if not secret or (is_basic and ":" not in secret):
        raise CredentialsError(f"Not a valid {wanted} for {describe_scheme(name, scheme)}")
    fields_for(name, scheme, secret, AgentInterface(url, Binding.JSONRPC, ""))  # raises if it cannot be sent
    return Login(origin=origin_of(url), scheme=name, kind=kind, secret=secret)


def read_secret(question: str) -> str:
    """A line from the terminal, without echo, or from standard input; empty if it has ended."""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline().decode(errors="replace").rstrip("\r\n")
    # asyncio would handle Ctrl+C only after the prompt has been answered.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return getpass(f"{question}: ", sys.stderr)
    except EOFError:
        typer.echo(err=True)
        return ""
    except KeyboardInterrupt:
        typer.echo(err=True)
        raise
    finally:
        signal.signal(signal.SIGINT, before)


async def get_tokens(
    options: LoginOptions,
    name: str,
    scheme: OAuth2Scheme | OpenIdConnectScheme,
    scopes: Sequence[str],
    connections: Connections,
) -> Login:
    """Tokens from the authorization server, which is printed first, by the best flow.

    Raises:
        CredentialsError: there is no such flow, or the server issues none.
    """
    from parley.client.credentials.oauth import AuthorizationServer, find_endpoints
    from parley.client.guard import read_target

    client = options.client
    if client is None:
        raise CredentialsError("The authorization server needs the id of a client; give --client-id")
    if client.issuer:
        connections.trust_address(read_target(client.issuer).host)
    flows = flows_for(scheme, options)
    if not flows:
        raise CredentialsError("The card offers no suitable flow of OAuth 2.0; see --flow")
    flow = flows[0]
    if flow is Flow.CLIENT_CREDENTIALS and client.client_secret is None:
        client = replace(client, client_secret=read_secret(f"The secret of {client.client_id}") or None)
    endpoints = await find_endpoints(
        connections.channel,
        scheme,
        flow,
        client=client,
        trusted=frozenset({origin_of(options.agent.url)}),
        check=lambda url: connections.guard.check_interface(url, card_url=options.agent.url),
    )
    wanted = _scopes(scheme, endpoints, scopes if client.scopes is None else client.scopes, flow)
    typer.echo(f"Tokens come from {origin_of(endpoints.token_url)}.", err=True)
    server = AuthorizationServer(connections.channel, client, endpoints)
    match flow:
        case Flow.CLIENT_CREDENTIALS:
            tokens = await server.client_credentials(wanted)
        case Flow.DEVICE_CODE:
            tokens = await _by_device(server, wanted)
        case Flow.AUTHORIZATION_CODE:
            tokens = await _by_browser(server, wanted, options)
    return Login(
        origin=origin_of(options.agent.url),
        scheme=name,
        kind=flow.value,
        tokens=tokens,
        token_url=endpoints.token_url,
        client_id=client.client_id,
        client_secret=client.client_secret,
        secret_in_body=endpoints.secret_in_body,
        resource=client.resource,
    )


def _scopes(
    scheme: OAuth2Scheme | OpenIdConnectScheme, endpoints: Endpoints, wanted: Sequence[str], flow: Flow
) -> tuple[str, ...]:
    """The scopes to request: those wanted, and for a person a refresh token, where the server supports it."""
    extra: list[str] = []
    if flow is not Flow.CLIENT_CREDENTIALS:
        extra += ["openid"] if isinstance(scheme, OpenIdConnectScheme) else []
        extra += ["offline_access"] if "offline_access" in endpoints.scopes_supported else []
    return tuple(dict.fromkeys((*wanted, *extra)))


async def _by_device(server: AuthorizationServer, scopes: Sequence[str]) -> Tokens:
    code = await server.start_device(scopes)
    typer.echo(f"Open {code.verification_url} and enter the code {code.user_code}", err=True)
    if code.complete_url:
        typer.echo(f"or open {code.complete_url} and compare the code.", err=True)
    return await server.finish_device(code, scopes)


async def _by_browser(server: AuthorizationServer, scopes: Sequence[str], options: LoginOptions) -> Tokens:
    from parley.client.credentials.loopback_listener import REDIRECT, LoopbackListener

    async with LoopbackListener(options.redirect or REDIRECT) as listener:
        request = server.start_authorization(listener.redirect_uri, scopes)
        listener.expect(request.state)
        typer.echo(f"Log in with a browser on this machine:\n{request.url}", err=True)
        if options.opens_browser:
            # In a thread of its own: for some browsers the call returns only when they are closed.
            threading.Thread(target=webbrowser.open, args=(request.url,), daemon=True).start()
        try:
            async with asyncio.timeout(BROWSER_SECONDS):
                answer = await listener.answer()
        except TimeoutError:
            raise CredentialsError("The login was not completed in time; try again") from None
    return await server.finish_authorization(request, answer, scopes)
