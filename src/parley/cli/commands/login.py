"""`parley login`: gets the credentials that a card requires, and stores them for the other commands.

Secrets are entered at a prompt that does not show them, or read from standard input or the environment, never from the
command line, which every user of the machine can read. Tokens of OAuth 2.0 and OpenID Connect come from the
authorization server that the card names, which is always shown first.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from parley.cli.login.choice import LoginOptions, chosen_requirement, schemes_for
from parley.cli.login.credentials import get_tokens, prompt_for_secret
from parley.cli.login.resource_server import with_server_of_metadata
from parley.cli.login.verification import verify_logins
from parley.cli.options.client import (
    AllowPrivate,
    AsJson,
    Authorities,
    Certificate,
    CertificateKey,
    ClientOptions,
    agent_url,
    login_store,
    tls_of,
)
from parley.cli.output.exit_codes import DONE, error_text, run
from parley.cli.output.transcript import print_json
from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.credentials.origins import origin_of
from parley.client.credentials.token_store import Login
from parley.client.errors import ClientError, CredentialsError
from parley.protocol.cards import OAuth2Scheme, OpenIdConnectScheme
from parley.safe_text import printable_line

SECRET_VARIABLE = "PARLEY_CLIENT_SECRET"


def login(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.")] = None,
    scheme: Annotated[str | None, typer.Option(metavar="NAME", help="Only log in for this scheme of the card.")] = None,
    flow: Annotated[
        Flow | None,
        typer.Option(metavar="|".join(Flow), help="The OAuth flow to use.", show_default="as the card says"),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(metavar="ID", envvar="PARLEY_CLIENT_ID", help="The id of the OAuth client."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="The authorization server to which the client secret may be sent.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE", help="Request this scope; repeatable.", show_default="those that the card requires"
        ),
    ] = None,
    resource: Annotated[
        str | None, typer.Option(metavar="URL", help="The resource that the token is for (RFC 8707).")
    ] = None,
    redirect: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The redirect URL of the OAuth client; without a port, any free port is used.",
            show_default="http://127.0.0.1/callback",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the login page in a browser.")] = True,
    show: Annotated[bool, typer.Option("--list", help="List the stored logins.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the stored login for the agent.")] = False,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    allow_private: AllowPrivate = False,
    as_json: AsJson = False,
) -> None:
    """Log in to an agent, so that the other commands can call it.

    The card says which credentials are required. A key or a password is entered at a prompt; for OAuth 2.0 and OpenID
    Connect, a browser is opened, or a code is shown to enter elsewhere. The client secret is taken from
    PARLEY_CLIENT_SECRET, or entered at a prompt. The command tests the login with a request for a task that does not
    exist. Logins are stored in files that only you can read, and sent only to this agent's origin.

    \b
    Examples:
      parley login https://agents.example.com --client-id my-cli
      parley login https://agents.example.com --flow device-code --client-id my-cli
      parley login https://agents.example.com < key.txt
      parley login --list
      parley login https://agents.example.com --forget
    """
    if show:
        run(_as_login_error(_list(as_json=as_json)), as_json=as_json)
    if url is None:
        raise typer.BadParameter("Give the URL of the agent.", param_hint="URL")
    target = agent_url(url)
    if forget:
        run(_as_login_error(_forget(target, scheme)), as_json=as_json)
    client = None
    if client_id:
        secret = os.environ.get(SECRET_VARIABLE)
        client = OAuthClient(client_id, secret or None, issuer, tuple(scope) if scope else None, resource)
    options = LoginOptions(
        agent=ClientOptions(url=target, tls=tls_of(ca, cert, key), allow_private=allow_private),
        scheme=scheme,
        flow=flow,
        client=client,
        redirect=redirect,
        opens_browser=browser,
    )
    run(_as_login_error(_login(options, as_json=as_json)), as_json=as_json)


class LoginFailedError(ClientError):
    """The login failed. Not a CredentialsError, for which the advice would be to log in."""


async def _as_login_error(work: Coroutine[Any, Any, int]) -> int:
    try:
        return await work
    except CredentialsError as error:
        raise LoginFailedError(str(error)) from error


async def _list(*, as_json: bool) -> int:
    for entry in login_store().all():
        if as_json:
            print_json(msgspec.json.encode(_facts(entry)))
        else:
            facts = _facts(entry)
            until = facts["expires"]
            life = "renewed automatically" if facts["renews"] else f"until {until}" if until else "expiry unknown"
            typer.echo(f"{entry.origin}  {printable_line(entry.scheme)}  {entry.kind}, {life}")
    return DONE


def _facts(entry: Login) -> dict[str, Any]:
    """What is shown of a login, without its secrets."""
    expires_at = entry.tokens.expires_at if entry.tokens else None
    is_machine = entry.kind == Flow.CLIENT_CREDENTIALS
    return {
        "origin": entry.origin,
        "scheme": entry.scheme,
        "kind": entry.kind,
        "expires": datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds") if expires_at else None,
        "renews": entry.tokens is not None and (is_machine or entry.tokens.refresh_token is not None),
    }


async def _forget(url: str, scheme: str | None) -> int:
    count = login_store().forget(origin_of(url), scheme)
    if not count:
        raise CredentialsError(f"There is no stored login for {origin_of(url)}")
    message = f"Deleted: {count} for {origin_of(url)}. Tokens stay valid until they expire."
    typer.echo(message, err=True)
    return DONE


async def _login(options: LoginOptions, *, as_json: bool) -> int:
    from parley.client.discovery.discovery import Discovery
    from parley.client.transports.connections import Connections

    connections = Connections(guard=options.agent.guard(), tls=options.agent.tls)
    try:
        card = await Discovery(connections).card(options.agent.url)
        card = await with_server_of_metadata(card, options, connections)
        chosen = chosen_requirement(card, options)
        if not chosen:
            typer.echo(f"{printable_line(card.name)} requires no credentials.", err=True)
            return DONE
        entries: list[Login] = []
        for name, scopes in chosen.items():
            scheme = schemes_for(card, options)[name]
            if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
                entries.append(await get_tokens(options, name, scheme, scopes, connections))
            else:
                entries.append(prompt_for_secret(options.agent.url, name, scheme))
    finally:
        await connections.close()
    doubt = await verify_logins(options.agent, entries)
    for entry in entries:
        login_store().put(entry)
        if as_json:
            print_json(msgspec.json.encode(_facts(entry)))
        else:
            done = "Logged in to" if doubt is None else "Stored for"
            typer.echo(f"{done} {printable_line(card.name)} at {entry.origin}, scheme {printable_line(entry.scheme)}.")
    if doubt is not None:
        typer.echo(f"The login could not be tested: {error_text(doubt)}", err=True)
    return DONE
