"""`parley login`: gets what a card demands, by the flow that it asks for, and keeps it for the other commands.

Keys, tokens and passwords are asked for, without showing them, or read from standard input, and so is a client's secret
unless it is in the environment: what stands on a command line, everybody on the machine can read. Tokens of OAuth 2.0
and OpenID Connect come from the authorization server that the card names, which is always shown first.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.calling import (
    AllowPrivate,
    AsJson,
    Authorities,
    Certificate,
    CertificateKey,
    parse_url,
    tls_of,
)
from parley.cli.ending import DONE, run
from parley.cli.harmless import harmless_json, harmless_line
from parley.cli.logins import login_store
from parley.client.errors import ClientError, CredentialsError
from parley.client.oauth_client import Flow, OAuthClient
from parley.client.origins import origin_of
from parley.client.token_store import Login, Tokens
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)

if TYPE_CHECKING:
    from parley.client.connecting import Connections, Tls
    from parley.client.oauth import AuthorizationServer, Endpoints

BROWSER_SECONDS = 600.0
"""How long a browser is waited for; codes live as long at most servers."""

IMPOSSIBLE = 9
"""The rank of a scheme that nobody can log in for."""

SECRET_VARIABLE = "PARLEY_CLIENT_SECRET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How to log in."""

    url: str
    scheme: str | None
    flow: Flow | None
    client: OAuthClient | None
    redirect: str | None
    opens_browser: bool
    allow_private: bool
    tls: Tls | None = None


def login(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.")] = None,
    scheme: Annotated[str | None, typer.Option(metavar="NAME", help="Log in for this scheme of the card only.")] = None,
    flow: Annotated[Flow | None, typer.Option(help="Get the token this way.", show_default="as the card says")] = None,
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
    for. All of it is kept in files that only you can read, and sent to this agent's origin alone.

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
    target = parse_url(url)
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
            typer.echo(f"{entry.origin}  {harmless_line(entry.scheme)}  {entry.kind}, {life}")
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

    typer.echo(harmless_json(msgspec.json.encode(_facts(entry))))


async def _forget(url: str, scheme: str | None) -> int:
    count = login_store().forget(origin_of(url), scheme)
    if not count:
        raise CredentialsError(f"Nothing is kept for {origin_of(url)}")
    told = f"Forgotten: {count} for {origin_of(url)}. Servers are not told; tokens end when their time is over."
    typer.echo(told, err=True)
    return DONE


async def _login(wish: Wish, *, as_json: bool) -> int:
    from parley.client.connecting import Connections
    from parley.client.discovery import Discovery
    from parley.client.guard import Guard

    connections = Connections(guard=Guard(allow_private=wish.allow_private), tls=wish.tls)
    try:
        card = await Discovery(connections).card(wish.url)
        chosen = _demanded(card, wish)
        if not chosen:
            typer.echo(f"{harmless_line(card.name)} demands no credentials.", err=True)
            return DONE
        for name, scopes in chosen.items():
            scheme = _schemes(card, wish)[name]
            if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
                entry = await _get_tokens(wish, name, scheme, scopes, connections)
            else:
                entry = _ask_secret(wish, name, scheme)
            login_store().put(entry)
            if as_json:
                _tell_json(entry)
            else:
                typer.echo(f"Logged in to {harmless_line(card.name)} at {entry.origin}, scheme {harmless_line(name)}.")
    finally:
        await connections.close()
    return DONE


def _schemes(card: AgentCard, wish: Wish) -> dict[str, SecurityScheme]:
    """The card's schemes. What wants tokens and does not say whose is OAuth for who knows the issuer."""
    from parley.client.carrying import plainer, takes_tokens
    from parley.client.oauth import WHOSEVER

    schemes = {name: plainer(scheme) for name, scheme in card.security_schemes.items()}
    if wish.client is None or wish.client.issuer is None:
        return schemes
    return {
        name: WHOSEVER if isinstance(scheme, HttpAuthScheme) and takes_tokens(scheme) else scheme
        for name, scheme in schemes.items()
    }


def _demanded(card: AgentCard, wish: Wish) -> SecurityRequirement:
    """The schemes to log in for: the best alternative of the card that a login can meet."""
    schemes = _schemes(card, wish)
    declared: list[SecurityRequirement] = [{name: ()} for name in schemes]
    demanded = [requirement for requirement in card.security if requirement]
    if wish.scheme is not None:
        if wish.scheme not in schemes:
            known = ", ".join(map(repr, schemes)) or "none"
            raise CredentialsError(f"The card has no scheme {wish.scheme!r}; it has {known}")
        return next({wish.scheme: one[wish.scheme]} for one in (*demanded, *declared) if wish.scheme in one)
    alternatives = demanded or declared
    if not alternatives:
        return {}

    def rank(requirement: SecurityRequirement) -> int:
        return max(_rank(schemes[name], wish) if name in schemes else IMPOSSIBLE for name in requirement)

    best = min(alternatives, key=rank)
    if rank(best) == IMPOSSIBLE:
        unexplained = next((name for one in alternatives for name in one if name not in schemes), None)
        if unexplained is not None:
            raise CredentialsError(f"The agent demands “{unexplained}”, which its card does not explain")
        cause = f"offers no {wish.flow} flow" if wish.flow else "demands what cannot be logged in for"
        raise CredentialsError(f"The agent {cause}")
    return best


def _rank(scheme: SecurityScheme, wish: Wish) -> int:
    """How well a scheme fits who is there: a low number is good."""
    if isinstance(scheme, MutualTlsScheme):
        return IMPOSSIBLE
    if not isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
        return IMPOSSIBLE if wish.flow else 0
    flows = _flows_for(scheme, wish)
    return _preferred(wish).index(flows[0]) if flows else IMPOSSIBLE


def _ask_secret(wish: Wish, name: str, scheme: SecurityScheme) -> Login:
    """A key, token or password from whoever is at the keyboard, or from standard input."""
    from parley.client.carrying import carried, described, kinds_of

    kind = kinds_of(scheme)[0]
    is_basic = isinstance(scheme, HttpAuthScheme) and kind == "basic"
    wanted = "name:password" if is_basic else "secret"
    secret = _read_secret(f"{harmless_line(described(name, scheme))}; the {wanted}")
    if not secret or (is_basic and ":" not in secret):
        raise CredentialsError(f"That is no {wanted} for {described(name, scheme)}")
    carried(name, scheme, secret, AgentInterface(wish.url, Binding.JSONRPC, ""))  # what cannot be sent is not kept
    return Login(origin=origin_of(wish.url), scheme=name, kind=kind, secret=secret)


def _read_secret(question: str) -> str:
    """What is typed without being shown, or a line of standard input; nothing if it has ended."""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline().decode(errors="replace").rstrip("\r\n")
    # asyncio would take Ctrl+C for later, when the prompt has been answered.
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


# --- tokens -----------------------------------------------------------------------------------------------------------


async def _get_tokens(
    wish: Wish,
    name: str,
    scheme: OAuth2Scheme | OpenIdConnectScheme,
    scopes: Sequence[str],
    connections: Connections,
) -> Login:
    from parley.client.guard import read_target
    from parley.client.oauth import AuthorizationServer, find_endpoints

    client = wish.client
    if client is None:
        raise CredentialsError("The authorization server wants to know who asks; say it with --client-id")
    if client.issuer:
        connections.trust_address(read_target(client.issuer).host)
    flows = _flows_for(scheme, wish)
    if not flows:
        raise CredentialsError("The card offers no flow of OAuth 2.0 that fits; see --flow")
    flow = flows[0]
    if flow is Flow.CLIENT_CREDENTIALS and client.client_secret is None:
        client = replace(client, client_secret=_read_secret(f"The secret of {client.client_id}") or None)
    endpoints = await find_endpoints(
        connections.channel,
        scheme,
        flow,
        client=client,
        trusted=frozenset({origin_of(wish.url)}),
        check=lambda url: connections.guard.check_interface(url, card_url=wish.url),
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
            tokens = await _by_browser(server, wanted, wish)
    return Login(
        origin=origin_of(wish.url),
        scheme=name,
        kind=flow.value,
        tokens=tokens,
        token_url=endpoints.token_url,
        client_id=client.client_id,
        client_secret=client.client_secret,
        secret_in_body=endpoints.secret_in_body,
        resource=client.resource,
    )


def _preferred(wish: Wish) -> tuple[Flow, ...]:
    """The flows, the one that fits best first: a machine has a secret, a person a browser or a code."""
    if wish.flow:
        return (wish.flow,)
    people = (Flow.AUTHORIZATION_CODE, Flow.DEVICE_CODE)
    people = people if wish.opens_browser else people[::-1]
    is_machine = wish.client is not None and wish.client.client_secret is not None
    return (Flow.CLIENT_CREDENTIALS, *people) if is_machine else people


def _flows_for(scheme: OAuth2Scheme | OpenIdConnectScheme, wish: Wish) -> list[Flow]:
    """The flows that a scheme offers, the best first; where the card leaves that to its server, all of them."""
    from parley.client.oauth import WHOSEVER, flow_of

    is_bare = isinstance(scheme, OAuth2Scheme) and scheme.metadata_url and scheme.flows == OAuthFlows()
    if isinstance(scheme, OpenIdConnectScheme) or is_bare or scheme is WHOSEVER:
        return list(_preferred(wish))
    return [flow for flow in _preferred(wish) if flow_of(scheme, flow) is not None]


def _scopes(
    scheme: OAuth2Scheme | OpenIdConnectScheme, endpoints: Endpoints, wanted: Sequence[str], flow: Flow
) -> tuple[str, ...]:
    """What to ask for: what is wanted, and, for people, that the login lasts, where the server knows how."""
    extra: list[str] = []
    if flow is not Flow.CLIENT_CREDENTIALS:
        extra += ["openid"] if isinstance(scheme, OpenIdConnectScheme) else []
        extra += ["offline_access"] if "offline_access" in endpoints.scopes_supported else []
    return tuple(dict.fromkeys((*wanted, *extra)))


async def _by_device(server: AuthorizationServer, scopes: Sequence[str]) -> Tokens:
    code = await server.start_device(scopes)
    typer.echo(f"Open {code.verification_url} and type in the code {code.user_code}", err=True)
    if code.complete_url:
        typer.echo(f"or open {code.complete_url} and compare the code.", err=True)
    return await server.finish_device(code, scopes)


async def _by_browser(server: AuthorizationServer, scopes: Sequence[str], wish: Wish) -> Tokens:
    from parley.client.loopback import REDIRECT, LoopbackListener

    async with LoopbackListener(wish.redirect or REDIRECT) as listener:
        request = server.start_authorization(listener.redirect_uri, scopes)
        listener.expect(request.state)
        typer.echo(f"Log in with a browser on this machine at\n{request.url}", err=True)
        if wish.opens_browser:
            # In a thread that nobody waits for: some browsers come back only when they are closed.
            threading.Thread(target=webbrowser.open, args=(request.url,), daemon=True).start()
        try:
            async with asyncio.timeout(BROWSER_SECONDS):
                answer = await listener.answer()
        except TimeoutError:
            raise CredentialsError("Nobody has logged in; try again") from None
    return await server.finish_authorization(request, answer, scopes)
