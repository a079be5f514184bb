"""Tokens from a real authorization server: every flow, renewal, discovery, and what a card cannot have us do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs
from starlette.responses import JSONResponse, RedirectResponse, Response

from parley import Agent
from parley.client.client import Client
from parley.client.credentials import oauth
from parley.client.credentials.challenges import with_challenge
from parley.client.credentials.credentials import BoundCredentials, Credentials
from parley.client.credentials.loopback_listener import LoopbackListener
from parley.client.credentials.oauth import (
    AuthorizationServer,
    Endpoints,
    RefusedError,
    UnansweredError,
    discover,
    find_endpoints,
    read_metadata,
)
from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.credentials.origins import origin_of
from parley.client.credentials.token_store import FileLogins, Login, MemoryLogins, Tokens
from parley.client.errors import CredentialsError, ForbiddenTargetError
from parley.client.transports.http import HttpChannel
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    Binding,
    HttpAuthScheme,
    OAuth2Scheme,
    OAuthFlow,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityScheme,
)
from parley.protocol.errors import PermissionDeniedError, UnauthenticatedError
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.security.authentication import Security
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.openid import OpenIdConnect
from tests.client.open_channel import open_channel
from tests.deadlines import fail_after
from tests.server.authorization_server import AUDIENCE, CLIENT, PUBLIC_CLIENT, authorization_server
from tests.server.authorization_server import AuthorizationServer as Issuer
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

AGENT = "https://agents.example"
SCOPES = ("agent:call",)
PRIVATE = "https://10.0.0.1/token"


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer]:
    with fail_after(20):
        async with authorization_server() as running_issuer:
            yield running_issuer


@pytest.fixture
async def channel() -> AsyncGenerator[HttpChannel]:
    channel = open_channel()
    yield channel
    await channel.close()


def flows_of(url: str) -> OAuthFlows:
    return OAuthFlows(
        client_credentials=OAuthFlow(token_url=f"{url}/token"),
        device_code=OAuthFlow(token_url=f"{url}/token", device_authorization_url=f"{url}/device"),
        authorization_code=OAuthFlow(token_url=f"{url}/token", authorization_url=f"{url}/authorize"),
    )


def machine(issuer: Issuer) -> OAuthClient:
    return OAuthClient(*CLIENT, issuer=issuer.url)


def server(channel: HttpChannel, issuer: Issuer, client: OAuthClient, **options: Any) -> AuthorizationServer:
    endpoints = Endpoints(
        f"{issuer.url}/token", f"{issuer.url}/authorize", f"{issuer.url}/device", issuer.url, names_issuer=True
    )
    return AuthorizationServer(channel, client, endpoints, **options)


def card(scheme: SecurityScheme, *scopes: str) -> AgentCard:
    interfaces = (AgentInterface(AGENT, "JSONRPC", "1.0"),)
    return AgentCard("A", "", "1", interfaces, security_schemes={"company": scheme}, security=({"company": scopes},))


async def header(bound: BoundCredentials) -> str:
    return (await bound.apply(CallOptions(), AgentInterface(AGENT, "JSONRPC", "1.0"))).headers["authorization"]


# --- the whole way ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def agent(issuer: Issuer, scheme: Any) -> AsyncGenerator[str]:
    app = App(echo_agent(), security=Security({"company": scheme}, [{"company": SCOPES}]), drain_seconds=0)
    async with running(app) as http:
        yield str(http.base_url)


async def test_a_machine_calls_an_agent_with_tokens_that_it_gets_itself(issuer: Issuer) -> None:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer.url))
    async with agent(issuer, scheme) as url:
        # By its kind: 1.0 has one flow for each scheme, so that the card shows the scheme as several.
        credentials = Credentials({"oauth2": machine(issuer)})
        async with Client(url, credentials=credentials) as client, Client(url, credentials=credentials) as other:
            replies = await asyncio.gather(*(caller.send("hello") for caller in (client, other) for _ in range(5)))
            assert [reply.text for reply in replies] == ["hello"] * 10
    assert issuer.forms == [{"grant_type": "client_credentials", "scope": "agent:call"}]


async def test_a_token_that_the_agent_refuses_is_replaced_within_the_call(issuer: Issuer) -> None:
    past = int(time.time()) - 600
    issuer.token_answers = [JSONResponse({"access_token": issuer.sign({"exp": past}), "expires_in": 60})]
    credentials = Credentials({"company": machine(issuer)})
    scheme = OpenIdConnect(issuer.url, AUDIENCE)
    async with agent(issuer, scheme) as url, Client(url, credentials=credentials) as client:
        assert (await client.send("one")).text == "one"
        assert (await client.send("two")).text == "two"
        assert issuer.asked["/token"] == 2
        updates = [update async for update in client.stream("three")]
        assert updates[-1].seen.is_over


async def test_a_person_who_has_logged_in_with_a_device_calls_an_agent(issuer: Issuer, channel: HttpChannel) -> None:
    async with agent(issuer, OpenIdConnect(issuer.url, AUDIENCE)) as url:
        person = OAuthClient(PUBLIC_CLIENT)
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        issuer.device_answers = ["authorization_pending", "slow_down", "authorization_pending"]
        asking = server(channel, issuer, person, sleep=sleep)
        code = await asking.start_device(SCOPES)
        assert (code.user_code, code.verification_url) == ("WDJB-MJHT", f"{issuer.url}/here")
        assert code.device_code not in repr(code)
        tokens = await asking.finish_device(code, SCOPES)
        assert (pauses, tokens.scopes) == ([1.0, 1.0, 6.0, 6.0], SCOPES)
        store = MemoryLogins()
        login = Login(
            origin=origin_of(url),
            scheme="company",
            kind="device-code",
            tokens=tokens,
            token_url=f"{issuer.url}/token",
            client_id=PUBLIC_CLIENT,
        )
        store.put(login)
        async with Client(url, credentials=Credentials(store=store)) as client:
            assert (await client.send("hello")).text == "hello"


async def test_a_person_logs_in_with_a_browser(issuer: Issuer, channel: HttpChannel) -> None:
    asking = server(channel, issuer, OAuthClient(PUBLIC_CLIENT, resource=AGENT))
    async with LoopbackListener() as listener, httpx2.AsyncClient(follow_redirects=True) as browser:
        request = asking.start_authorization(listener.redirect_uri, SCOPES)
        assert request.state not in repr(request).replace(request.url, "")
        listener.expect(request.state)
        strangers = [
            await browser.get(f"{listener.redirect_uri}?code=x&state=y"),
            await browser.get(listener.redirect_uri.replace("callback", "favicon.ico")),
            await browser.post(listener.redirect_uri),
        ]
        assert [stranger.status_code for stranger in strangers] == [400, 404, 404]
        page = await browser.get(request.url)
        again = await browser.get(f"{listener.redirect_uri}?code=later&state={request.state}")
        assert (page.status_code, again.status_code, "close this window" in page.text) == (200, 200, True)
        tokens = await asking.finish_authorization(request, await listener.answer(), SCOPES)
    assert tokens.refresh_token is not None
    assert (issuer.forms[0]["code_verifier"], issuer.forms[0]["resource"]) == (request.verifier, AGENT)
    with pytest.raises(RefusedError, match="invalid_grant"):  # a code is good once
        await asking.finish_authorization(request, await listener.answer(), SCOPES)


async def test_the_listener_survives_those_who_say_nothing_or_too_much() -> None:
    with fail_after(10):
        async with LoopbackListener() as listener:
            port = int(listener.redirect_uri.rpartition(":")[2].partition("/")[0])
            for words in (b"", b"GET /" + b"x" * 100_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(words)
                writer.write_eof()
                assert await reader.read() == b""
                writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while not listener._silent:
                await asyncio.sleep(0)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


# --- what comes back with the browser ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"state": "other", "code": "c"}, "another login"),
        ({"code": "c"}, "another login"),
        ({"state": "s", "iss": "https://evil.example", "code": "c"}, "another authorization server"),
        ({"state": "s", "code": "c"}, "another authorization server"),
        ({"state": "s", "iss": "ISSUER"}, "without a code"),
        (
            {"state": "s", "iss": "ISSUER", "error": "access_denied", "error_description": "no\x1b[2J way"},
            r"refuses: access_denied \(no␛\[2J way\)",
        ),
    ],
)
async def test_a_redirect_that_is_not_right_is_refused(
    answer: dict[str, str], complaint: str, issuer: Issuer, channel: HttpChannel
) -> None:
    asking = server(channel, issuer, OAuthClient(PUBLIC_CLIENT))
    request = replace(asking.start_authorization("http://127.0.0.1:1/callback", ()), state="s")
    given = {name: value.replace("ISSUER", issuer.url) for name, value in answer.items()}
    with pytest.raises(CredentialsError, match=complaint):
        await asking.finish_authorization(request, given, ())
    assert issuer.asked["/token"] == 0


# --- renewal ----------------------------------------------------------------------------------------------------------


def logged_in(issuer: Issuer, tokens: Tokens, **facts: Any) -> MemoryLogins:
    store = MemoryLogins()
    known = {"token_url": f"{issuer.url}/token", "client_id": PUBLIC_CLIENT, "kind": Flow.DEVICE_CODE, **facts}
    store.put(Login(origin="https://agents.example:443", scheme="company", tokens=tokens, **known))
    return store


async def first_tokens(issuer: Issuer, channel: HttpChannel) -> Tokens:
    asking = server(channel, issuer, OAuthClient(PUBLIC_CLIENT), sleep=lambda seconds: asyncio.sleep(0))
    return await asking.finish_device(await asking.start_device(SCOPES), SCOPES)


async def test_a_token_is_renewed_before_it_ends_by_one_of_all_who_need_it(
    issuer: Issuer, channel: HttpChannel
) -> None:
    store = logged_in(issuer, await first_tokens(issuer, channel))
    now = time.time()
    scheme = OAuth2Scheme(flows_of(issuer.url))
    bound = Credentials(store=store, now=lambda: now).bind(card(scheme), target_url=AGENT, channel=channel)
    first = await header(bound)
    now += 40  # it has 60 seconds, and the last 30 do not count
    renewed = await asyncio.gather(*(header(bound) for _ in range(10)))
    assert (len(set(renewed)), first in renewed, issuer.asked["/token"]) == (1, False, 2)
    kept = store.get("https://agents.example:443", "company")
    assert kept is not None
    assert kept.tokens is not None
    assert renewed[0] == f"Bearer {kept.tokens.access_token}"


async def test_a_token_with_a_short_life_is_not_fetched_for_every_request(issuer: Issuer, channel: HttpChannel) -> None:
    issuer.token_seconds = 20
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, await first_tokens(issuer, channel))
    now = time.time()
    both = [Credentials({"company": machine(issuer)}, now=lambda: now), Credentials(store=store, now=lambda: now)]
    for some in both:
        bound = some.bind(card(scheme), target_url=AGENT, channel=channel)
        first = await header(bound)
        assert [await header(bound) for _ in range(3)] == [first] * 3
        now += 11
        assert await header(bound) != first


async def test_a_refusal_of_an_old_token_renews_nothing_that_is_new(issuer: Issuer, channel: HttpChannel) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    bound = Credentials({"company": machine(issuer)}).bind(card(scheme), target_url=AGENT, channel=channel)

    async def refused_call() -> str:
        await header(bound)
        await both.wait()
        assert await bound.renew(UnauthenticatedError()) is True
        return await header(bound)

    both = asyncio.Barrier(2)
    one, other = await asyncio.gather(refused_call(), refused_call())
    assert (one == other, issuer.asked["/token"]) == (True, 2)


async def test_a_login_that_has_ended_says_so(issuer: Issuer, channel: HttpChannel) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, Tokens("t", 0.0, "hush-refresh"))
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    with pytest.raises(CredentialsError) as caught:
        await header(bound)
    assert str(caught.value) == "The login for https://agents.example:443 has ended (invalid_grant); log in again"
    assert "hush" not in str(caught.value.__cause__)
    store = logged_in(issuer, Tokens("t", 0.0))
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    with pytest.raises(CredentialsError, match="The token cannot be renewed; log in again"):
        await header(bound)


async def test_of_two_processes_that_renew_at_once_the_slower_takes_what_the_other_got(
    issuer: Issuer, channel: HttpChannel
) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, Tokens("old", 0.0, "used-up"))
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    issuer.gate = asyncio.Event()
    waiting = asyncio.ensure_future(header(bound))
    while not issuer.asked["/token"]:
        await asyncio.sleep(0)
    store.put(structs.replace(store.all()[0], tokens=Tokens("theirs", time.time() + 60, "next")))
    issuer.gate.set()
    assert await waiting == "Bearer theirs"


async def test_a_machines_login_gets_another_token_with_its_secret(issuer: Issuer, channel: HttpChannel) -> None:
    store = logged_in(
        issuer,
        Tokens("old", 0.0, scopes=SCOPES),
        kind=Flow.CLIENT_CREDENTIALS,
        client_id=CLIENT[0],
        client_secret=CLIENT[1],
    )
    bound = Credentials(store=store).bind(card(OAuth2Scheme(flows_of(issuer.url))), target_url=AGENT, channel=channel)
    assert await header(bound) != "Bearer old"
    assert issuer.forms == [{"grant_type": "client_credentials", "scope": "agent:call"}]
    store.forget("https://agents.example:443")
    with pytest.raises(CredentialsError, match="The agent demands an OAuth"):
        await header(bound)
    assert await bound.renew(UnauthenticatedError()) is False


async def test_a_login_that_was_forgotten_meanwhile_is_not_renewed(issuer: Issuer, channel: HttpChannel) -> None:
    store = logged_in(issuer, Tokens("t"))
    scheme = OAuth2Scheme(flows_of(issuer.url))
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    assert await header(bound) == "Bearer t"
    assert await bound.renew(UnauthenticatedError()) is True
    store.forget("https://agents.example:443")
    with pytest.raises(CredentialsError, match="The agent demands an OAuth"):
        await header(bound)
    assert issuer.asked["/token"] == 0


async def test_a_login_that_is_gone_when_it_must_be_renewed_is_missed(issuer: Issuer, channel: HttpChannel) -> None:
    bound = Credentials(store=logged_in(issuer, Tokens("t", 0.0), token_url=None)).bind(
        card(OAuth2Scheme(flows_of(issuer.url))), target_url=AGENT, channel=channel
    )
    with pytest.raises(CredentialsError, match="The login for “company” was removed"):
        await header(bound)


# --- where it is ------------------------------------------------------------------------------------------------------


async def test_endpoints_come_from_the_card_and_from_the_servers_metadata(issuer: Issuer, channel: HttpChannel) -> None:
    well_known = f"{issuer.url}/.well-known/openid-configuration"
    whole = Endpoints(
        f"{issuer.url}/token",
        f"{issuer.url}/authorize",
        f"{issuer.url}/device",
        issuer.url,
        scopes_supported=("openid", "offline_access", "agent:call"),
    )
    person = OAuthClient(PUBLIC_CLIENT)
    schemes: list[OAuth2Scheme | OpenIdConnectScheme] = [
        OpenIdConnectScheme(well_known),
        OAuth2Scheme(OAuthFlows(), metadata_url=well_known),
    ]
    for scheme in schemes:
        for flow in (Flow.AUTHORIZATION_CODE, Flow.DEVICE_CODE):
            assert await find_endpoints(channel, scheme, flow, client=person) == whole
    bare = OAuth2Scheme(OAuthFlows())
    assert await find_endpoints(channel, bare, Flow.DEVICE_CODE, client=OAuthClient("x", issuer=issuer.url)) == whole
    declared = await find_endpoints(channel, OAuth2Scheme(flows_of(issuer.url)), Flow.DEVICE_CODE, client=person)
    assert declared == Endpoints(f"{issuer.url}/token", None, f"{issuer.url}/device")
    with pytest.raises(CredentialsError, match="token endpoint"):
        await find_endpoints(channel, bare, Flow.DEVICE_CODE, client=person)
    lacking = OAuth2Scheme(OAuthFlows(device_code=OAuthFlow(token_url=f"{issuer.url}/token")))
    with pytest.raises(CredentialsError, match="names no endpoint for the device-code flow"):
        await find_endpoints(channel, lacking, Flow.DEVICE_CODE, client=person)


async def test_metadata_is_believed_about_its_own_server_only(issuer: Issuer, channel: HttpChannel) -> None:
    url = f"{issuer.url}/.well-known/openid-configuration"
    issuer.documents["/.well-known/openid-configuration"] = JSONResponse({"issuer": "https://bank.example"})
    with pytest.raises(CredentialsError, match=r"is about another server: https://bank\.example"):
        await read_metadata(channel, url)
    assert await discover(channel, issuer.url) is None
    issuer.documents["/.well-known/openid-configuration"] = JSONResponse({"issuer": f"{issuer.url}/other"})
    assert await discover(channel, issuer.url) is None
    for nothing in (Response(status_code=404), Response(b"[]"), Response(b"{" * 10_000), JSONResponse({"issuer": 1})):
        issuer.documents["/.well-known/openid-configuration"] = nothing
        with pytest.raises(CredentialsError, match="No metadata"):
            await read_metadata(channel, url)
    issuer.documents["/.well-known/openid-configuration"] = Response(b"x" * 600_000)
    with pytest.raises(UnansweredError, match="has more than 524288 bytes"):
        await read_metadata(channel, url)


async def test_a_card_cannot_have_a_clients_secret_sent_elsewhere(issuer: Issuer, channel: HttpChannel) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    well_known = OpenIdConnectScheme(f"{issuer.url}/.well-known/openid-configuration")
    for theirs in (scheme, well_known, OAuth2Scheme(flows_of(issuer.url), metadata_url=well_known.url)):
        for client, complaint in (
            (OAuthClient("parley", "hush"), "which would get the client's secret"),
            (OAuthClient("parley", "hush", issuer="http://127.0.0.1:9"), "127.0.0.1:9.* does not answer"),
        ):
            bound = Credentials({"company": client}).bind(card(theirs), target_url=AGENT, channel=channel)
            with pytest.raises(CredentialsError, match=complaint) as caught:
                await header(bound)
            assert "hush" not in str(caught.value)
    assert issuer.asked["/token"] == 0
    # Where the agent itself gives the tokens, or the caller names the server, it is sent.
    own = Credentials({"company": OAuthClient(*CLIENT)}).bind(card(scheme), target_url=issuer.url, channel=channel)
    assert (await own.apply(CallOptions(), AgentInterface(issuer.url, "JSONRPC", "1.0"))).headers["authorization"]
    named = Credentials({"company": machine(issuer)}).bind(card(well_known), target_url=AGENT, channel=channel)
    assert await header(named)


async def test_an_issuer_that_says_nothing_is_named_with_the_cause(issuer: Issuer, channel: HttpChannel) -> None:
    """The card demands tokens and does not say whose, so that nobody but the issuer could know where they are given."""
    issuer.documents = {path: Response(status_code=404) for path in issuer.documents}
    for url, complaint in (
        ("http://127.0.0.1:9", r"http://127\.0\.0\.1:9/.* does not answer: .*connection refused"),
        (f"{issuer.url}/elsewhere", f"The issuer {issuer.url}/elsewhere has no metadata"),
    ):
        client = OAuthClient("parley", "hush", issuer=url)
        bound = Credentials({"company": client}).bind(card(HttpAuthScheme("bearer")), target_url=AGENT, channel=channel)
        with pytest.raises(CredentialsError, match=complaint):
            await header(bound)


async def test_not_even_the_agent_gets_a_secret_that_is_for_an_issuer(issuer: Issuer, channel: HttpChannel) -> None:
    """The agent is the thief: its card has tokens come from its own origin. The issuer has no metadata, or other."""
    async with authorization_server() as thief:
        interface = AgentInterface(thief.url, "JSONRPC", "1.0")
        for client in (machine(issuer), OAuthClient(PUBLIC_CLIENT, issuer=issuer.url)):
            for flow in (Flow.CLIENT_CREDENTIALS, Flow.DEVICE_CODE):
                found = await find_endpoints(
                    channel,
                    OAuth2Scheme(flows_of(thief.url)),
                    flow,
                    client=client,
                    trusted=frozenset({origin_of(thief.url)}),
                )
                assert origin_of(found.token_url) == issuer.url
        issuer.documents["/.well-known/openid-configuration"] = Response(status_code=404)
        bound = Credentials({"company": machine(issuer)}).bind(
            card(OAuth2Scheme(flows_of(thief.url))), target_url=thief.url, channel=channel
        )
        with pytest.raises(CredentialsError, match=rf"which the issuer {issuer.url} does not list"):
            await bound.apply(CallOptions(), interface)
        assert thief.asked["/token"] == 0


async def test_a_card_cannot_have_a_code_of_one_server_sent_to_another(issuer: Issuer, channel: HttpChannel) -> None:
    person = OAuthClient(PUBLIC_CLIENT)
    async with authorization_server() as evil:
        mixed = OAuthFlow(token_url=f"{evil.url}/token", authorization_url=f"{issuer.url}/authorize")
        scheme = OAuth2Scheme(OAuthFlows(authorization_code=mixed))
        with pytest.raises(CredentialsError, match="does not list the latter"):
            await find_endpoints(channel, scheme, Flow.AUTHORIZATION_CODE, client=person)
        evil.metadata = {"authorization_endpoint": f"{issuer.url}/authorize"}
        theirs = OpenIdConnectScheme(f"{evil.url}/.well-known/openid-configuration")
        with pytest.raises(CredentialsError, match="does not list the latter"):
            await find_endpoints(channel, theirs, Flow.AUTHORIZATION_CODE, client=person)
        # A server may have its tokens at another origin if it says so itself, or if the caller knows both.
        issuer.metadata = {"token_endpoint": f"{evil.url}/token"}
        found = await find_endpoints(channel, scheme, Flow.AUTHORIZATION_CODE, client=person)
        assert found.token_url == f"{evil.url}/token"
        issuer.metadata = {}
        known = frozenset({origin_of(issuer.url), origin_of(evil.url)})
        assert await find_endpoints(channel, scheme, Flow.AUTHORIZATION_CODE, client=person, trusted=known)


async def test_servers_that_are_not_safe_or_forbidden_are_not_asked(channel: HttpChannel) -> None:
    for url in ("http://login.example", "ftp://login.example", "https://u@login.example"):
        with pytest.raises(CredentialsError):
            await find_endpoints(
                channel, OAuth2Scheme(flows_of(url)), Flow.DEVICE_CODE, client=OAuthClient(PUBLIC_CLIENT)
            )

    def forbid(url: str) -> None:
        raise CredentialsError(f"forbidden: {url}")

    scheme = OpenIdConnectScheme("https://10.0.0.1/.well-known/openid-configuration")
    with pytest.raises(CredentialsError, match=r"forbidden: https://10\.0\.0\.1"):
        await find_endpoints(channel, scheme, Flow.DEVICE_CODE, client=OAuthClient(PUBLIC_CLIENT), check=forbid)


# --- what it says -----------------------------------------------------------------------------------------------------


async def test_a_refusal_shows_no_secret_even_if_the_server_repeats_it(issuer: Issuer, channel: HttpChannel) -> None:
    asking = server(channel, issuer, OAuthClient(PUBLIC_CLIENT))
    with pytest.raises(RefusedError) as caught:
        await asking.refresh(Tokens("t", refresh_token="hush-hush"))
    assert (caught.value.error, "hush" in str(caught.value), "you sent" in str(caught.value)) == (
        "invalid_grant",
        False,
        True,
    )
    body = Endpoints(f"{issuer.url}/token", secret_in_body=True)
    with pytest.raises(RefusedError, match="invalid_client") as caught:
        await AuthorizationServer(channel, OAuthClient("parley", "hush-hush"), body).client_credentials(())
    assert "hush" not in str(caught.value)
    assert issuer.forms[-1]["client_secret"] == "hush-hush"
    with pytest.raises(CredentialsError, match="Client credentials need a client_secret"):
        await asking.client_credentials(())
    with pytest.raises(RefusedError, match="invalid_client"):
        await server(channel, issuer, OAuthClient("nobody")).start_device(())


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({}, "sends no usable token"),
        ({"access_token": "a\nb"}, "sends no usable token"),
        ({"access_token": "t", "token_type": "DPoP"}, "a token of type 'DPoP', not Bearer"),
        ({"error": {"odd": 1}}, "refuses: status 200"),
    ],
)
async def test_an_answer_without_a_token_is_refused(
    answer: dict[str, Any], complaint: str, issuer: Issuer, channel: HttpChannel
) -> None:
    issuer.documents["/token"] = JSONResponse(answer)
    with pytest.raises(CredentialsError, match=complaint):
        await server(channel, issuer, OAuthClient(*CLIENT)).client_credentials(())


@pytest.mark.parametrize(
    ("said", "life"),
    [(60, 60.0), ("60", 60.0), (None, None), ("soon", None), (-1, None), (1e30, 10 * 365 * 86_400.0), ("nan", None)],
)
async def test_a_tokens_life_is_taken_as_servers_write_it(
    said: Any, life: float | None, issuer: Issuer, channel: HttpChannel
) -> None:
    issuer.documents["/token"] = JSONResponse({"access_token": "t", "expires_in": said})
    tokens = await server(channel, issuer, OAuthClient(*CLIENT), now=lambda: 0.0).client_credentials(("a",))
    assert tokens == Tokens("t", life, None, ("a",), 0.0)


async def test_a_server_in_trouble_is_waited_for_while_a_code_lives(issuer: Issuer, channel: HttpChannel) -> None:
    now = 0.0
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    asking = server(channel, issuer, OAuthClient(PUBLIC_CLIENT), sleep=sleep, now=lambda: now)
    code = await asking.start_device(())
    issuer.documents["/token"] = Response(status_code=503)
    with pytest.raises(CredentialsError, match="The code expired before it was confirmed"):
        await asking.finish_device(code, ())
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    del issuer.documents["/token"]
    issuer.device_answers = ["access_denied"]
    with pytest.raises(RefusedError, match="access_denied"):
        await asking.finish_device(await asking.start_device(()), ())
    for odd in ({}, {"device_code": "d", "user_code": "u", "verification_uri": "javascript:alert(1)"}):
        issuer.documents["/device"] = JSONResponse(odd)
        with pytest.raises(CredentialsError, match=r"sends no device code|login page is not https"):
            await asking.start_device(())


async def test_a_server_that_is_away_is_asked_again_and_is_no_reason_to_try_another_interface(
    issuer: Issuer, channel: HttpChannel
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    issuer.token_answers = [Response(status_code=502), Response(status_code=503)]
    assert (await server(channel, issuer, OAuthClient(*CLIENT), sleep=sleep).client_credentials(())).access_token
    nobody = AuthorizationServer(channel, OAuthClient(*CLIENT), Endpoints("http://127.0.0.1:9/token"), sleep=sleep)
    with pytest.raises(
        UnansweredError, match=r"The authorization server at http://127\.0\.0\.1:9/token does not answer"
    ):
        await nobody.client_credentials(())
    assert pauses == [0.5, 1.5] * 2


async def test_a_server_that_redirects_is_not_followed(issuer: Issuer, channel: HttpChannel) -> None:
    issuer.documents["/token"] = RedirectResponse("https://evil.example/token", 307)
    issuer.documents["/.well-known/openid-configuration"] = RedirectResponse("https://evil.example/", 307)
    with pytest.raises(ForbiddenTargetError):
        await server(channel, issuer, OAuthClient(*CLIENT)).client_credentials(())
    assert await discover(channel, issuer.url) is None


async def test_a_card_cannot_have_the_client_call_private_addresses(issuer: Issuer) -> None:
    scheme = JwtIssuer(
        issuer.url,
        AUDIENCE,
        jwks_url=f"{issuer.url}/keys",
        flows=OAuthFlows(client_credentials=OAuthFlow(token_url=PRIVATE)),
    )
    credentials = Credentials({"oauth2": OAuthClient("parley", "hush")})
    async with agent(issuer, scheme) as url, Client(url, credentials=credentials) as client:
        with pytest.raises(ForbiddenTargetError, match=r"10\.0\.0\.1"):
            await client.send("hello")


async def test_an_app_in_process_gets_tokens_from_a_server_on_the_network(issuer: Issuer) -> None:
    security = Security({"company": OpenIdConnect(issuer.url, AUDIENCE)}, [{"company": SCOPES}])
    app = App(echo_agent(), security=security, drain_seconds=0)
    credentials = Credentials({"company": machine(issuer)})
    async with app.running(), Client("http://agent.example", app=app, credentials=credentials) as client:
        assert (await client.send("hello")).text == "hello"


async def test_a_refusal_by_another_agent_renews_nothing(issuer: Issuer, channel: HttpChannel) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    one, other = (
        Credentials({"company": machine(issuer)}).bind(card(scheme), target_url=AGENT, channel=channel)
        for _ in range(2)
    )
    await header(one)
    await header(other)
    assert (await one.renew(UnauthenticatedError()), await other.renew(UnauthenticatedError())) == (False, True)


# --- many at once -----------------------------------------------------------------------------------------------------


async def test_all_who_wait_for_a_server_that_is_away_hear_so_from_one_of_them(
    issuer: Issuer, channel: HttpChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "PAUSES", (0.0, 0.0))
    issuer.documents["/token"] = Response(status_code=503)
    bound = Credentials({"company": machine(issuer)}).bind(
        card(OAuth2Scheme(flows_of(issuer.url))), target_url=AGENT, channel=channel
    )
    failed = await asyncio.gather(*(header(bound) for _ in range(10)), return_exceptions=True)
    assert [type(failure) for failure in failed] == [UnansweredError] * 10
    assert issuer.asked["/token"] == 3
    del issuer.documents["/token"]
    assert await header(bound)  # whoever comes later asks anew


async def test_whoever_is_cancelled_while_it_fetches_leaves_that_to_the_next(
    issuer: Issuer, channel: HttpChannel
) -> None:
    issuer.gate = asyncio.Event()
    bound = Credentials({"company": machine(issuer)}).bind(
        card(OAuth2Scheme(flows_of(issuer.url))), target_url=AGENT, channel=channel
    )
    first, second = (asyncio.ensure_future(header(bound)) for _ in range(2))
    while not issuer.asked:
        await asyncio.sleep(0)
    first.cancel()
    issuer.gate.set()
    assert (await second).startswith("Bearer ")
    assert first.cancelled()


async def test_while_the_server_is_away_a_token_is_used_to_its_end(
    issuer: Issuer, channel: HttpChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "PAUSES", ())
    now = time.time()
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, Tokens("mine", now + 60, "r"))
    bounds = [
        some.bind(card(scheme), target_url=AGENT, channel=channel)
        for some in (
            Credentials({"company": machine(issuer)}, now=lambda: now),
            Credentials(store=store, now=lambda: now),
        )
    ]
    before = [await header(bound) for bound in bounds]
    issuer.documents["/token"] = Response(status_code=503)
    now += 45
    assert [await header(bound) for bound in bounds] == before
    now += 30
    for bound in bounds:
        with pytest.raises(UnansweredError):
            await header(bound)


async def test_processes_that_share_their_logins_renew_one_after_the_other(
    issuer: Issuer, channel: HttpChannel, tmp_path: Path
) -> None:
    """Two stores with the same directory, as two processes have them. Servers end a login whose refresh token is used
    twice; this one says no to the second, and counts."""
    scheme = OAuth2Scheme(flows_of(issuer.url))
    stores = [FileLogins(tmp_path) for _ in range(3)]
    (login,) = logged_in(issuer, structs.replace(await first_tokens(issuer, channel), expires_at=0.0)).all()
    stores[0].put(login)
    bounds = [Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel) for store in stores]
    asked = issuer.asked["/token"]
    assert len(set(await asyncio.gather(*map(header, bounds)))) == 1
    assert issuer.asked["/token"] == asked + 1


async def test_a_renewed_login_that_cannot_be_kept_is_used_all_the_same(
    issuer: Issuer, channel: HttpChannel, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(MemoryLogins):
        is_full = False

        def put(self, login: Login) -> None:
            if self.is_full:
                raise CredentialsError("The disk is full")
            super().put(login)

    scheme = OAuth2Scheme(flows_of(issuer.url))
    full = Full()
    (login,) = logged_in(issuer, structs.replace(await first_tokens(issuer, channel), expires_at=0.0)).all()
    full.put(login)
    full.is_full = True
    bound = Credentials(store=full).bind(card(scheme), target_url=AGENT, channel=channel)
    asked = issuer.asked["/token"]
    assert await header(bound) == await header(bound) != "Bearer old"
    assert issuer.asked["/token"] == asked + 1
    assert [record.getMessage() for record in caplog.records if record.name.startswith("parley.client")] == [
        "The renewed login for https://agents.example:443 could not be saved: The disk is full"
    ]


async def test_a_login_that_is_forgotten_while_it_is_renewed_stays_forgotten(
    issuer: Issuer, channel: HttpChannel
) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, structs.replace(await first_tokens(issuer, channel), expires_at=0.0))
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    issuer.gate = asyncio.Event()
    asked = issuer.asked["/token"]
    renewing = asyncio.ensure_future(header(bound))
    while issuer.asked["/token"] == asked:
        await asyncio.sleep(0)
    store.forget("https://agents.example:443")
    issuer.gate.set()
    assert await renewing
    assert store.all() == []


async def test_after_another_login_nothing_of_the_one_before_is_used(issuer: Issuer, channel: HttpChannel) -> None:
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, structs.replace(await first_tokens(issuer, channel), expires_at=0.0))
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    assert await header(bound) == await header(bound)  # renewed once, and then as it is kept
    assert issuer.asked["/token"] == 2
    store.put(structs.replace(store.all()[0], tokens=Tokens("eve")))
    assert await header(bound) == "Bearer eve"


async def test_a_persons_login_never_becomes_the_clients(issuer: Issuer, channel: HttpChannel) -> None:
    """A client with a secret could get a token of its own, and would then speak as somebody else."""
    scheme = OAuth2Scheme(flows_of(issuer.url))
    store = logged_in(issuer, Tokens("t", 0.0), client_id=CLIENT[0], client_secret=CLIENT[1], kind="authorization-code")
    bound = Credentials(store=store).bind(card(scheme), target_url=AGENT, channel=channel)
    with pytest.raises(CredentialsError, match="The token cannot be renewed; log in again"):
        await header(bound)
    assert issuer.asked["/token"] == 0


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Response(status_code=429), UnansweredError, "fails"),
        (JSONResponse({"error": "invalid_client"}, 401), RefusedError, "refuses: invalid_client"),
        (JSONResponse({"error": "invalid_grant"}, 400), CredentialsError, "has ended"),
    ],
)
async def test_a_login_has_ended_only_if_the_server_says_so(
    answer: Response, kind: type[Exception], words: str, issuer: Issuer, channel: HttpChannel
) -> None:
    issuer.token_answers = [answer]
    bound = Credentials(store=logged_in(issuer, Tokens("t", 0.0, "r"))).bind(
        card(OAuth2Scheme(flows_of(issuer.url))), target_url=AGENT, channel=channel
    )
    with pytest.raises(CredentialsError, match=words) as caught:
        await header(bound)
    assert type(caught.value) is kind


# --- a scope that is missing ------------------------------------------------------------------------------------------


def paying_agent() -> Agent:
    agent = Agent("Payer", description="Pays")

    @agent.skill(id="look", scopes=())
    async def look(turn: Any) -> str:
        """Looks."""
        return "seen"

    @agent.skill(id="pay", scopes=["pay"])
    async def pay(turn: Any) -> str:
        """Pays."""
        return "paid"

    return agent


@asynccontextmanager
async def paying(issuer: Issuer) -> AsyncGenerator[str]:
    security = Security({"company": OpenIdConnect(issuer.url, AUDIENCE)}, [{"company": SCOPES}])
    app = App(paying_agent(), security=security, drain_seconds=0)
    async with running(app) as http:
        server = GrpcServer(app, http_url=str(http.base_url))
        await server.start("127.0.0.1", 0)
        try:
            yield str(http.base_url)
        finally:
            await server.stop()


@pytest.mark.parametrize("binding", list(Binding))
async def test_a_machine_gets_the_scope_that_a_skill_demands_when_it_is_missed(
    binding: Binding, issuer: Issuer
) -> None:
    credentials = Credentials({"company": machine(issuer)}, origins=["*"])
    async with paying(issuer) as url, Client(url, credentials=credentials, bindings=[binding]) as client:
        assert (await client.send("x", skill="look")).text == "seen"
        assert (await client.send("x", skill="pay")).text == "paid"
        assert (await client.send("x", skill="pay")).text == "paid"
    assert [form["scope"] for form in issuer.forms] == ["agent:call", "agent:call pay"]


async def test_a_scope_that_cannot_be_had_is_named_and_what_works_without_goes_on(issuer: Issuer) -> None:
    fixed = Credentials({"company": OAuthClient(*CLIENT, issuer=issuer.url, scopes=SCOPES)})
    async with paying(issuer) as url, Client(url, credentials=fixed) as client:
        with pytest.raises(PermissionDeniedError, match="This needs the scope pay"):
            await client.send("x", skill="pay")
        assert issuer.asked["/token"] == 1
    async with paying(issuer) as url, Client(url, credentials=Credentials({"company": machine(issuer)})) as client:
        assert (await client.send("x", skill="look")).text == "seen"
        issuer.token_answers = [JSONResponse({"error": "invalid_scope"}, 400) for _ in range(2)]
        with pytest.raises(RefusedError, match="invalid_scope"):
            await client.send("x", skill="pay")
        assert (await client.send("x", skill="look")).text == "seen"
        assert len(issuer.token_answers) == 1


INSUFFICIENT = 'Basic realm="a, b", Bearer realm="\\"x\\"", error="insufficient_scope", scope="read pay"'


@pytest.mark.parametrize(
    ("challenge", "declared", "asked"),
    [
        (INSUFFICIENT, {"read": "", "pay": ""}, ["agent:call", "agent:call read pay"]),
        (INSUFFICIENT, {"read": ""}, ["agent:call"]),  # it would help nothing
        ('Bearer error="insufficient_scope"', {"pay": ""}, ["agent:call"]),
        ('Bearer error="invalid_token", scope="pay"', {"pay": ""}, ["agent:call"]),
        ('Basic error="insufficient_scope", scope="pay"', {"pay": ""}, ["agent:call"]),
        ('Bearer error="insufficient_scope", scope="pay\x01"', {"pay\x01": ""}, ["agent:call"]),
    ],
)
async def test_a_card_and_a_challenge_together_make_a_scope(
    challenge: str, declared: dict[str, str], asked: list[str], issuer: Issuer, channel: HttpChannel
) -> None:
    flow = OAuthFlow(declared, token_url=f"{issuer.url}/token")
    scheme = OAuth2Scheme(OAuthFlows(client_credentials=flow))
    bound = Credentials({"company": machine(issuer)}).bind(
        card(scheme, "agent:call"), target_url=AGENT, channel=channel
    )
    await header(bound)
    error = with_challenge(PermissionDeniedError("No"), {"www-authenticate": challenge})
    assert isinstance(error, PermissionDeniedError)
    assert str(error) == ("No; the token lacks the scope read pay" if challenge is INSUFFICIENT else "No")
    assert await bound.renew(error) is (len(asked) == 2)
    await header(bound)
    assert await bound.renew(error) is False  # once
    assert [form["scope"] for form in issuer.forms] == asked


def test_a_long_challenge_is_read_in_one_pass() -> None:
    refusal = UnauthenticatedError("No")
    for part in (",", " ", 'a="', "a ", "a= "):  # the square of that takes more than the deadline of a test
        challenge = {"www-authenticate": f"Bearer {part * 1_000_000}@"}
        assert with_challenge(refusal, challenge) is refusal


class Door:
    """Stands before an agent, as gateways do, and refuses the first calls in its own words."""

    def __init__(self, app: Any, *refusals: Response) -> None:
        self.app = app
        self.refusals = list(refusals)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_call = scope["type"] == "http" and scope["method"] == "POST"
        answer = self.refusals.pop(0) if is_call and self.refusals else self.app
        await answer(scope, receive, send)


@asynccontextmanager
async def behind(issuer: Issuer, binding: Binding, *refusals: Response) -> AsyncGenerator[Client]:
    security = Security({"company": OpenIdConnect(issuer.url, AUDIENCE)}, [{"company": SCOPES}])
    app = App(paying_agent(), security=security, drain_seconds=0)
    async with app.running(), serving(Door(app, *refusals)) as http:
        credentials = Credentials({"company": machine(issuer)})
        async with Client(str(http.base_url), credentials=credentials, bindings=[binding]) as client:
            yield client


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
@pytest.mark.parametrize(
    "refusal",
    [
        Response("Who are you?", 401),
        JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Unauthorized"}}, 401),
    ],
)
async def test_a_gateways_refusal_leads_to_a_new_token_whatever_it_says(
    binding: Binding, refusal: Response, issuer: Issuer
) -> None:
    async with behind(issuer, binding, refusal) as client:
        assert (await client.send("x", skill="look")).text == "seen"
    assert issuer.asked["/token"] == 2


@pytest.mark.parametrize("binding", [Binding.JSONRPC, Binding.HTTP_JSON])
async def test_a_gateways_demand_for_a_scope_is_met_or_told(binding: Binding, issuer: Issuer) -> None:
    def lacking(scope: str) -> Response:
        return Response("No", 403, {"www-authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'})

    async with behind(issuer, binding, lacking("agent:call pay")) as client:
        assert (await client.send("x", skill="look")).text == "seen"
    assert [form["scope"] for form in issuer.forms] == ["agent:call", "agent:call pay"]
    async with behind(issuer, binding, lacking("admin")) as client:
        with pytest.raises(PermissionDeniedError, match=r"the token lacks the scope admin$"):
            await client.send("x", skill="look")
    assert issuer.asked["/token"] == 3


# --- what a card says of a server -------------------------------------------------------------------------------------


async def test_the_server_that_the_caller_names_says_itself_where_it_is(issuer: Issuer, channel: HttpChannel) -> None:
    """A card could name an endpoint of somebody else at the same host, as hosts of many tenants have them."""
    theirs = OAuthFlow(token_url=f"{issuer.url}/evil/token", authorization_url=f"{issuer.url}/evil/authorize")
    scheme = OAuth2Scheme(OAuthFlows(client_credentials=theirs, authorization_code=theirs))
    for flow in (Flow.CLIENT_CREDENTIALS, Flow.AUTHORIZATION_CODE):
        found = await find_endpoints(channel, scheme, flow, client=machine(issuer))
        assert (found.token_url, found.authorization_url) == (f"{issuer.url}/token", f"{issuer.url}/authorize")


@pytest.mark.parametrize("own", ["redirect_uri=https://evil.example", "state", "a=1&scope=admin"])
async def test_a_card_cannot_say_what_only_the_client_says(own: str, channel: HttpChannel) -> None:
    endpoints = Endpoints("https://login.example/token", f"https://login.example/authorize?{own}")
    with pytest.raises(CredentialsError, match="already has parameters that only the client may set"):
        AuthorizationServer(channel, OAuthClient("c"), endpoints).start_authorization("http://127.0.0.1:1", SCOPES)
    harmless = Endpoints("https://login.example/token", "https://login.example/authorize?audience=x")
    request = AuthorizationServer(channel, OAuthClient("c"), harmless).start_authorization("http://127.0.0.1:1", ())
    assert request.url.startswith("https://login.example/authorize?audience=x&response_type=code&")


@pytest.mark.parametrize("nasty", ["\x1b]0;owned\x07", "\\@evil.example", "#"])
async def test_an_agent_cannot_have_odd_pages_shown_even_of_its_own(nasty: str, channel: HttpChannel) -> None:
    flow = OAuthFlow(token_url=f"{AGENT}/token", authorization_url=f"{AGENT}{nasty}/authorize")
    scheme = OAuth2Scheme(OAuthFlows(authorization_code=flow))
    with pytest.raises(CredentialsError):
        await find_endpoints(
            channel,
            scheme,
            Flow.AUTHORIZATION_CODE,
            client=OAuthClient("c"),
            trusted=frozenset({origin_of(AGENT)}),
        )


@pytest.mark.parametrize("page", ["https://[", "http://login.example/", "https://login.example@evil.example/", "x"])
async def test_a_device_is_not_confirmed_at_an_odd_page(page: str, issuer: Issuer, channel: HttpChannel) -> None:
    issuer.documents["/device"] = JSONResponse({"device_code": "d", "user_code": "u", "verification_uri": page})
    with pytest.raises(CredentialsError, match="login page is not https"):
        await server(channel, issuer, OAuthClient(PUBLIC_CLIENT)).start_device(())


async def test_what_a_server_quotes_is_hidden_however_it_is_spelled(issuer: Issuer, channel: HttpChannel) -> None:
    basic = "cGFybGV5OmglMkZ1JTIwc2g="
    quoted = f"a {'x' * 180} h/u sh, h%2Fu%20sh, h%2Fu+sh, Basic {basic}"
    issuer.documents["/token"] = JSONResponse({"error": "invalid_client", "error_description": quoted}, 401)
    with pytest.raises(RefusedError) as caught:
        await server(channel, issuer, OAuthClient("parley", "h/u sh")).client_credentials(())
    assert [part for part in ("h/u", "2Fu", basic[:8]) if part in str(caught.value)] == []


# --- the listener -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", [b"GET //[ HTTP/1.1", b"GET http://[/callback HTTP/1.1", b"\xff\xfe", b"GET /callback?state=%ff HTTP/1.1"]
)
async def test_an_odd_request_is_answered_and_changes_nothing(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with fail_after(10):
        async with LoopbackListener() as listener:
            listener.expect("right")
            port = int(listener.redirect_uri.rpartition(":")[2].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(line + b"\r\n\r\n")
            assert (await reader.read())[:10] == b"HTTP/1.1 4"
            writer.close()
            async with httpx2.AsyncClient() as browser:
                await browser.get(f"{listener.redirect_uri}?state=right&code=c")
            assert await listener.answer() == {"state": "right", "code": "c"}
    assert caplog.records == []


async def test_a_port_that_is_taken_is_told() -> None:
    async with LoopbackListener("http://localhost") as first:
        with pytest.raises(CredentialsError, match=rf"Cannot listen at {first.redirect_uri}: "):
            async with LoopbackListener(first.redirect_uri):
                pass


@pytest.mark.parametrize(
    "redirect",
    [
        "https://127.0.0.1/",
        "http://0.0.0.0/",
        "http://evil.example/",
        "http://a@localhost/",
        "http://[::1",
        "localhost",
    ],
)
def test_a_browser_comes_back_to_this_machine_only(redirect: str) -> None:
    with pytest.raises(CredentialsError, match=r"only|^Invalid URL: "):
        LoopbackListener(redirect)


# --- cards that do not say whose tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scheme", [HttpAuthScheme("bearer", "JWT"), HttpAuthScheme("OAuth2"), OAuth2Scheme(OAuthFlows())]
)
@pytest.mark.parametrize("given", ["company", "bearer", "oauth2"])
async def test_a_caller_who_knows_the_issuer_gets_tokens_for_any_card_that_wants_some(
    scheme: SecurityScheme, given: str, issuer: Issuer, channel: HttpChannel
) -> None:
    bound = Credentials({given: machine(issuer)}).bind(card(scheme), target_url=AGENT, channel=channel)
    assert (await header(bound)).startswith("Bearer ")
    assert await bound.renew(UnauthenticatedError()) is True
    assert (await header(bound)).startswith("Bearer ")
    assert issuer.asked["/token"] == 2


async def test_a_caller_who_does_not_know_the_issuer_is_told_so(channel: HttpChannel) -> None:
    client = OAuthClient("parley", "hush")
    bound = Credentials({"oauth2": client}).bind(card(HttpAuthScheme("Bearer")), target_url=AGENT, channel=channel)
    interface = AgentInterface(AGENT, "JSONRPC", "1.0")
    assert (await bound.apply(CallOptions(), interface)).headers == {}  # the refusal may say where tokens come from
    assert await bound.renew(UnauthenticatedError())
    with pytest.raises(CredentialsError, match="but no authorization server is known: name the issuer"):
        await header(bound)
    silent = structs.replace(card(HttpAuthScheme("Bearer")), security_schemes={}, security=())
    bound = Credentials({"oauth2": client}).bind(silent, target_url=AGENT, channel=channel)
    sent = await bound.apply(CallOptions(), AgentInterface(AGENT, "JSONRPC", "1.0"))
    assert sent.headers == {}
