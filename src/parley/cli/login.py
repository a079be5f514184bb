"""`parley login`: gets what a card demands, by the flow that it asks for, and keeps it for the other commands.

Keys, tokens and passwords are asked for, without showing them, or read from standard input. Tokens of OAuth 2.0 and
OpenID Connect come from the authorization server that the card names, which is always shown first.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.calling import (
    DONE,
    AllowPrivate,
    AsJson,
    Authorities,
    Certificate,
    CertificateKey,
    parse_url,
    run,
    tls_of,
)
from parley.cli.harmless import harmless_line
from parley.cli.logins import login_store
from parley.client.errors import CredentialsError
from parley.client.oauth_client import Flow, OAuthClient
from parley.client.origins import origin_of
from parley.client.token_store import Login, Tokens
from parley.protocol.cards import (
    AgentCard,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How to log in."""

    url: str
    scheme: str | None
    flow: Flow | None
    client: OAuthClient | None
    port: int
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
    client_secret: Annotated[
        str | None, typer.Option(envvar="PARLEY_CLIENT_SECRET", hidden=True, help="Better in the environment.")
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(metavar="URL", help="The authorization server that the client's secret is for.")
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="SCOPE", help="Ask for this too; repeatable.")] = None,
    resource: Annotated[
        str | None, typer.Option(metavar="URL", help="What the token is to be good for (RFC 8707).")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where the browser comes back to.", show_default="any that is free")
    ] = 0,
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
    opened, or a code is shown to be typed in elsewhere. A client's secret is taken from PARLEY_CLIENT_SECRET. All of it
    is kept in files that only you can read, and sent to this agent's origin alone.

    \b
    Examples:
      parley login https://agents.example.com --client-id my-cli
      parley login https://agents.example.com --flow device-code --client-id my-cli
      parley login --list
      parley login https://agents.example.com --forget
    """
    if show:
        run(_list(as_json=as_json), as_json=as_json)
    if url is None:
        raise typer.BadParameter("Which agent? Give its URL.", param_hint="URL")
    target = parse_url(url)
    if forget:
        run(_forget(target, scheme), as_json=as_json)
    client = None
    if client_id:
        client = OAuthClient(client_id, client_secret, issuer, tuple(scope or ()), resource)
    wish = Wish(
        url=target,
        scheme=scheme,
        flow=flow,
        client=client,
        port=port,
        opens_browser=browser,
        allow_private=allow_private,
        tls=tls_of(ca, cert, key),
    )
    run(_login(wish), as_json=as_json)


async def _list(*, as_json: bool) -> int:
    import msgspec

    for entry in login_store().all():
        expires_at = entry.tokens.expires_at if entry.tokens else None
        until = datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds") if expires_at else None
        renews = bool(entry.tokens and (entry.tokens.refresh_token or entry.client_secret))
        if as_json:
            facts = {"origin": entry.origin, "scheme": entry.scheme, "kind": entry.kind}
            typer.echo(msgspec.json.encode({**facts, "expires": until, "renews": renews}))
        else:
            life = "renews itself" if renews else f"until {until}" if until else "until it is forgotten"
            typer.echo(f"{entry.origin}  {harmless_line(entry.scheme)}  {entry.kind}, {life}")
    return DONE


async def _forget(url: str, scheme: str | None) -> int:
    count = login_store().forget(origin_of(url), scheme)
    if not count:
        raise CredentialsError(f"Nothing is kept for {origin_of(url)}")
    typer.echo(f"Forgotten: {count} for {origin_of(url)}. Servers are not told; tokens end when their time is over.")
    return DONE


async def _login(wish: Wish) -> int:
    from parley.client.connecting import Connections
    from parley.client.discovery import Discovery
    from parley.client.guard import Guard

    connections = Connections(guard=Guard(allow_private=wish.allow_private), tls=wish.tls)
    try:
        card = await Discovery(connections).card(wish.url)
        chosen = _demanded(card, wish)
        if not chosen:
            typer.echo(f"{harmless_line(card.name)} demands no credentials.")
            return DONE
        for name, scopes in chosen.items():
            scheme = card.security_schemes[name]
            if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
                entry = await _get_tokens(wish, name, scheme, scopes, connections)
            else:
                entry = _ask_secret(wish, name, scheme)
            login_store().put(entry)
            typer.echo(f"Logged in to {harmless_line(card.name)} at {entry.origin}, scheme {harmless_line(name)}.")
    finally:
        await connections.close()
    return DONE


def _demanded(card: AgentCard, wish: Wish) -> SecurityRequirement:
    """The schemes to log in for: the best alternative of the card that a login can meet."""
    schemes = card.security_schemes
    if wish.scheme is not None and wish.scheme not in schemes:
        known = ", ".join(map(repr, schemes)) or "none"
        raise CredentialsError(f"The card has no scheme {wish.scheme!r}; it has {known}")
    alternatives: list[SecurityRequirement] = [
        requirement
        for requirement in (*card.security, *({name: ()} for name in schemes))
        if requirement and all(name in schemes for name in requirement)
    ]
    if wish.scheme is not None:
        return next({wish.scheme: found[wish.scheme]} for found in alternatives if wish.scheme in found)
    if not alternatives:
        return {}

    def rank(requirement: SecurityRequirement) -> int:
        return max(_rank(schemes[name], wish) for name in requirement)

    best = min(alternatives, key=rank)
    if rank(best) == IMPOSSIBLE:
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
    from parley.client.credentials import described, kinds_of

    kind = kinds_of(scheme)[0]
    is_basic = isinstance(scheme, HttpAuthScheme) and kind == "basic"
    wanted = "name:password" if is_basic else "secret"
    if sys.stdin.isatty():
        secret: str = typer.prompt(f"{harmless_line(described(name, scheme))}; the {wanted}", hide_input=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if not secret or (is_basic and ":" not in secret):
        raise CredentialsError(f"That is no {wanted} for {described(name, scheme)}")
    return Login(origin=origin_of(wish.url), scheme=name, kind=kind, secret=secret)


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
    endpoints = await find_endpoints(
        connections.channel,
        scheme,
        flow,
        client=client,
        trusted=frozenset({origin_of(wish.url)}),
        check=lambda url: connections.guard.check_interface(url, card_url=wish.url),
    )
    wanted = _scopes(scheme, endpoints, (*scopes, *client.scopes), flow)
    typer.echo(f"The card names the authorization server {origin_of(endpoints.token_url)}.", err=True)
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
    from parley.client.oauth import flow_of

    if isinstance(scheme, OpenIdConnectScheme) or (scheme.metadata_url and scheme.flows == OAuthFlows()):
        return list(_preferred(wish))
    return [flow for flow in _preferred(wish) if flow_of(scheme, flow) is not None]


def _scopes(
    scheme: OAuth2Scheme | OpenIdConnectScheme, endpoints: Endpoints, wanted: Sequence[str], flow: Flow
) -> tuple[str, ...]:
    """What to ask for: what the card demands, and, for people, that the login lasts, where the server knows how."""
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
    from parley.client.loopback import LoopbackListener

    async with LoopbackListener(port=wish.port) as listener:
        request = server.start_authorization(listener.redirect_uri, scopes)
        typer.echo(f"Log in with a browser on this machine at\n{request.url}", err=True)
        if wish.opens_browser:
            webbrowser.open(request.url)
        try:
            async with asyncio.timeout(BROWSER_SECONDS):
                answer = await listener.answer(request.state)
        except TimeoutError:
            raise CredentialsError("Nobody has logged in; try again") from None
    return await server.finish_authorization(request, answer, scopes)
