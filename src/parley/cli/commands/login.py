"""`parley login`: gets what a card demands, by the flow that it asks for, and keeps it for the other commands.

Keys, tokens and passwords are asked for, without showing them, or read from standard input, and so is a client's secret
unless it is in the environment: what stands on a command line, everybody on the machine can read. Tokens of OAuth 2.0
and OpenID Connect come from the authorization server that the card names, which is always shown first.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from parley.cli.login.choice import Wish, chosen_requirement, schemes_for
from parley.cli.login.credentials import ask_secret, get_tokens
from parley.cli.login.verification import why_untried
from parley.cli.options.client import AllowPrivate, AsJson, Authorities, Certificate, CertificateKey, agent_url, tls_of
from parley.cli.options.login_store import login_store
from parley.cli.output.exit_codes import DONE, run, sentence
from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.credentials.origins import origin_of
from parley.client.credentials.token_store import Login
from parley.client.errors import ClientError, CredentialsError
from parley.protocol.cards import OAuth2Scheme, OpenIdConnectScheme
from parley.safe_text import printable_json, printable_line

SECRET_VARIABLE = "PARLEY_CLIENT_SECRET"


def login(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.")] = None,
    scheme: Annotated[str | None, typer.Option(metavar="NAME", help="Log in for this scheme of the card only.")] = None,
    flow: Annotated[
        Flow | None,
        typer.Option(metavar="|".join(Flow), help="Get the token this way.", show_default="as the card says"),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(metavar="ID", envvar="PARLEY_CLIENT_ID", help="Who asks for the token, as it is registered."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="The authorization server that the client's secret is for.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="SCOPE", help="Ask for this; repeatable.", show_default="what the card demands"),
    ] = None,
    resource: Annotated[
        str | None, typer.Option(metavar="URL", help="What the token is to be good for (RFC 8707).")
    ] = None,
    redirect: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the browser comes back to, as it is registered; without a port, at any that is free.",
            show_default="http://127.0.0.1/callback",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    show: Annotated[bool, typer.Option("--list", help="Show what is logged in, and do nothing.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what is kept for the agent.")] = False,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    allow_private: AllowPrivate = False,
    as_json: AsJson = False,
) -> None:
    """Log in to an agent, so that the other commands can call it.

    What it demands stands in its card: a key or a password is asked for; for OAuth 2.0 and OpenID Connect a browser is
    opened, or a code is shown to be typed in elsewhere. A client's secret is taken from PARLEY_CLIENT_SECRET, or asked
    for. It is tried once, by asking for a task that does not exist. All of it is kept in files that only you can read,
    and sent to this agent's origin alone.

    \b
    Examples:
      parley login https://agents.example.com --client-id my-cli
      parley login https://agents.example.com --flow device-code --client-id my-cli
      parley login https://agents.example.com < key.txt
      parley login --list
      parley login https://agents.example.com --forget
    """
    if show:
        run(_plainly(_list(as_json=as_json)), as_json=as_json)
    if url is None:
        raise typer.BadParameter("Which agent? Give its URL.", param_hint="URL")
    target = agent_url(url)
    if forget:
        run(_plainly(_forget(target, scheme)), as_json=as_json)
    client = None
    if client_id:
        secret = os.environ.get(SECRET_VARIABLE)
        client = OAuthClient(client_id, secret or None, issuer, tuple(scope) if scope else None, resource)
    wish = Wish(
        url=target,
        scheme=scheme,
        flow=flow,
        client=client,
        redirect=redirect,
        opens_browser=browser,
        allow_private=allow_private,
        tls=tls_of(ca, cert, key),
    )
    run(_plainly(_login(wish, as_json=as_json)), as_json=as_json)


class LoginFailedError(ClientError):
    """Nobody is logged in. Not a CredentialsError, whose cure would be to log in."""


async def _plainly(work: Coroutine[Any, Any, int]) -> int:
    try:
        return await work
    except CredentialsError as error:
        raise LoginFailedError(str(error)) from error


async def _list(*, as_json: bool) -> int:
    for entry in login_store().all():
        if as_json:
            _tell_json(entry)
        else:
            facts = _facts(entry)
            until = facts["expires"]
            life = "renews itself" if facts["renews"] else f"until {until}" if until else "until it is forgotten"
            typer.echo(f"{entry.origin}  {printable_line(entry.scheme)}  {entry.kind}, {life}")
    return DONE


def _facts(entry: Login) -> dict[str, Any]:
    """What may be shown of a login."""
    expires_at = entry.tokens.expires_at if entry.tokens else None
    is_machine = entry.kind == Flow.CLIENT_CREDENTIALS
    return {
        "origin": entry.origin,
        "scheme": entry.scheme,
        "kind": entry.kind,
        "expires": datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds") if expires_at else None,
        "renews": entry.tokens is not None and (is_machine or entry.tokens.refresh_token is not None),
    }


def _tell_json(entry: Login) -> None:
    import msgspec

    typer.echo(printable_json(msgspec.json.encode(_facts(entry))))


async def _forget(url: str, scheme: str | None) -> int:
    count = login_store().forget(origin_of(url), scheme)
    if not count:
        raise CredentialsError(f"Nothing is kept for {origin_of(url)}")
    told = f"Forgotten: {count} for {origin_of(url)}. Servers are not told; tokens end when their time is over."
    typer.echo(told, err=True)
    return DONE


async def _login(wish: Wish, *, as_json: bool) -> int:
    from parley.client.discovery.discovery import Discovery
    from parley.client.guard import Guard
    from parley.client.transports.connections import Connections

    connections = Connections(guard=Guard(allow_private=wish.allow_private), tls=wish.tls)
    try:
        card = await Discovery(connections).card(wish.url)
        chosen = chosen_requirement(card, wish)
        if not chosen:
            typer.echo(f"{printable_line(card.name)} demands no credentials.", err=True)
            return DONE
        entries: list[Login] = []
        for name, scopes in chosen.items():
            scheme = schemes_for(card, wish)[name]
            if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
                entries.append(await get_tokens(wish, name, scheme, scopes, connections))
            else:
                entries.append(ask_secret(wish, name, scheme))
    finally:
        await connections.close()
    doubt = await why_untried(wish, entries)
    for entry in entries:
        login_store().put(entry)
        if as_json:
            _tell_json(entry)
        else:
            done = "Logged in to" if doubt is None else "Kept for"
            typer.echo(f"{done} {printable_line(card.name)} at {entry.origin}, scheme {printable_line(entry.scheme)}.")
    if doubt is not None:
        typer.echo(f"It could not be tried: {sentence(doubt)}", err=True)
    return DONE
