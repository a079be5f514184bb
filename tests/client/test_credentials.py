"""Credentials: which of them a card gets to see, where they travel, and where they never do."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from parley.client.client import Client
from parley.client.credentials.credentials import ANY_ORIGIN, Credentials, Secret, SecretRequest
from parley.client.credentials.oauth_client import OAuthClient
from parley.client.credentials.origins import may_carry_secrets, origin_of
from parley.client.credentials.token_store import Login, MemoryLogins, Tokens
from parley.client.errors import CredentialsError, ForbiddenTargetError
from parley.client.transports.connections import Tls
from parley.client.transports.http import HttpChannel
from parley.client.transports.transport import CallOptions
from parley.network.http import HttpRequest
from parley.network.urls import parse_url
from parley.protocol.cards import (
    AgentCard,
    AgentInterface,
    ApiKeyLocation,
    ApiKeyScheme,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlow,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)
from parley.protocol.errors import UnauthenticatedError
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from tests.client.open_channel import open_channel
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running

pytestmark = pytest.mark.anyio

URL = "https://agents.example/currency"
OAUTH = OAuth2Scheme(OAuthFlows(authorization_code=OAuthFlow(token_url="https://login.example/token")))
SCHEMES: dict[str, SecurityScheme] = {
    "key": ApiKeyScheme(ApiKeyLocation.HEADER, "X-Key"),
    "query": ApiKeyScheme(ApiKeyLocation.QUERY, "key"),
    "cookie": ApiKeyScheme(ApiKeyLocation.COOKIE, "session"),
    "basic": HttpAuthScheme("Basic"),
    "token": HttpAuthScheme("bearer", "JWT"),
    "other": HttpAuthScheme("Custom"),
    "oauth": OAUTH,
    "oidc": OpenIdConnectScheme("https://login.example/.well-known/openid-configuration"),
    "tls": MutualTlsScheme(),
}


def card(*security: SecurityRequirement, schemes: dict[str, SecurityScheme] | None = None, url: str = URL) -> AgentCard:
    interfaces = (AgentInterface(url, Binding.JSONRPC.value, "1.0"),)
    return AgentCard(
        "A", "", "1", interfaces, security_schemes=SCHEMES if schemes is None else schemes, security=security
    )


@pytest.fixture
async def channel() -> AsyncGenerator[HttpChannel]:
    channel = open_channel()
    with fail_after(10):
        yield channel
    await channel.close()


async def applied(
    credentials: Credentials,
    card: AgentCard,
    channel: HttpChannel,
    *,
    binding: Binding = Binding.JSONRPC,
    to: str = URL,
) -> tuple[dict[str, str], dict[str, str]]:
    """The headers and the query that a request is sent with."""
    bound = credentials.bind(card, target_url=URL, channel=channel)
    sent = await bound.apply(CallOptions({"a2a-version": "1.0"}), AgentInterface(to, binding.value, "1.0"))
    headers = dict(sent.headers)
    assert headers.pop("a2a-version") == "1.0"
    return headers, dict(sent.query)


@pytest.mark.parametrize(
    ("scheme", "given", "headers", "query"),
    [
        ("key", {"key": "k1"}, {"x-key": "k1"}, {}),
        ("key", {"api-key": "k1"}, {"x-key": "k1"}, {}),
        ("query", {"apiKey": "k/ 1"}, {}, {"key": "k/ 1"}),
        ("cookie", {"API_KEY": "k1"}, {"cookie": "session=k1"}, {}),
        ("basic", {"basic": ("ada", "p:w")}, {"authorization": "Basic YWRhOnA6dw=="}, {}),
        ("basic", {"basic": "ada:pässword"}, {"authorization": "Basic YWRhOnDDpHNzd29yZA=="}, {}),
        ("token", {"bearer": "t1"}, {"authorization": "Bearer t1"}, {}),
        ("token", {"token": "t1", "bearer": "t2"}, {"authorization": "Bearer t1"}, {}),
        ("other", {"custom": "a=b"}, {"authorization": "Custom a=b"}, {}),
        ("oauth", {"oauth2": "t1"}, {"authorization": "Bearer t1"}, {}),
        ("oidc", {"bearer": "t1"}, {"authorization": "Bearer t1"}, {}),
        ("tls", {"mutual-tls": Tls(certificate=Path("ada.pem"))}, {}, {}),
    ],
)
async def test_every_scheme_travels_its_own_way(
    scheme: str, given: dict[str, Secret], headers: dict[str, str], query: dict[str, str], channel: HttpChannel
) -> None:
    assert await applied(Credentials(given), card({scheme: ()}), channel) == (headers, query)


async def test_all_schemes_of_one_alternative_are_sent_and_nothing_of_the_others(channel: HttpChannel) -> None:
    demanding = card({"key": (), "token": ()}, {"cookie": (), "basic": ()})
    some = Credentials({"token": "t", "cookie": "c", "basic": ("ada", "pw")})
    assert await applied(some, demanding, channel) == (
        {"cookie": "session=c", "authorization": "Basic YWRhOnB3"},
        {},
    )
    both = Credentials({"token": "t", "key": "k", "cookie": "c", "basic": ("ada", "pw")})
    assert await applied(both, demanding, channel) == ({"x-key": "k", "authorization": "Bearer t"}, {})


async def test_what_is_missing_is_named(channel: HttpChannel) -> None:
    everything = card(*({name: ()} for name in SCHEMES), {"unexplained": ()})
    with pytest.raises(CredentialsError) as caught:
        await applied(Credentials(), everything, channel)
    assert str(caught.value) == (
        "The agent demands an API key (scheme “key”, header X-Key), or an API key (scheme “query”, query key), or an "
        "API key (scheme “cookie”, cookie session), or HTTP Basic authentication (scheme “basic”), or HTTP bearer "
        "authentication (scheme “token”), or HTTP Custom authentication (scheme “other”), or…"
    )
    with pytest.raises(CredentialsError, match=r"^The agent demands a client certificate \(scheme “tls”\)$"):
        await applied(Credentials(), card({"tls": ()}), channel)
    with pytest.raises(CredentialsError, match="“x”, which the card does not declare"):
        await applied(Credentials(), card({"x": ()}), channel)
    with pytest.raises(CredentialsError, match=r"an OAuth 2.0 token \(scheme “oauth”\): log in first"):
        await applied(Credentials({"oauth": OAuthClient("cli")}), card({"oauth": ()}), channel)
    with pytest.raises(CredentialsError, match="for which a person must log in"):
        await applied(Credentials({"oauth": OAuthClient("cli", "s")}), card({"oauth": ()}), channel)


async def test_an_agent_that_demands_nothing_gets_what_fits_or_nothing(channel: HttpChannel) -> None:
    assert await applied(Credentials(), card(), channel) == ({}, {})
    assert await applied(Credentials({"token": "t"}), card(), channel) == ({"authorization": "Bearer t"}, {})
    optional = card({}, {"key": ()})
    assert await applied(Credentials({"token": "t"}), optional, channel) == ({}, {})
    assert await applied(Credentials({"key": "k"}), optional, channel) == ({"x-key": "k"}, {})
    silent = card(schemes={})
    assert await applied(Credentials({"bearer": "t"}), silent, channel) == ({"authorization": "Bearer t"}, {})
    assert await applied(Credentials({"api-key": "k"}), silent, channel) == ({}, {})


async def test_names_of_0_1_mean_what_they_say(channel: HttpChannel) -> None:
    old: dict[str, SecurityScheme] = {
        name: HttpAuthScheme(name) for name in ("apiKey", "oauth2", "mutualTLS", "Bearer")
    }
    some = Credentials({"apiKey": "k", "bearer": "t", "mutualTLS": Tls(certificate=Path("ada.pem"))})
    assert await applied(some, card({"apiKey": ()}, schemes=old), channel) == ({"x-api-key": "k"}, {})
    assert await applied(some, card({"oauth2": ()}, schemes=old), channel) == ({"authorization": "Bearer t"}, {})
    assert await applied(some, card({"Bearer": ()}, schemes=old), channel) == ({"authorization": "Bearer t"}, {})
    assert await applied(some, card({"mutualTLS": ()}, schemes=old), channel) == ({}, {})


async def test_two_secrets_for_one_header_cannot_be_sent(channel: HttpChannel) -> None:
    some = Credentials({"basic": ("ada", "pw"), "token": "t", "oauth": "t"})
    with pytest.raises(CredentialsError, match="two secrets in one header"):
        await applied(some, card({"basic": (), "token": ()}), channel)
    assert await applied(some, card({"oauth": (), "token": ()}), channel) == ({"authorization": "Bearer t"}, {})


@pytest.mark.parametrize("name", ["X!Key", "X-Key-Bin", "grpc-timeout"])
async def test_grpc_has_no_place_for_some_names(name: str, channel: HttpChannel) -> None:
    odd = card({"key": ()}, schemes={"key": ApiKeyScheme(ApiKeyLocation.HEADER, name)})
    some = Credentials({"key": "k"})
    assert await applied(some, odd, channel) == ({name.lower(): "k"}, {})
    with pytest.raises(CredentialsError, match="which gRPC cannot carry"):
        await applied(some, odd, channel, binding=Binding.GRPC, to="agents.example:443")


async def test_grpc_carries_headers_and_cookies_but_no_query(channel: HttpChannel) -> None:
    some = Credentials({"api-key": "k"})
    target = "agents.example:443"
    assert await applied(some, card({"key": ()}), channel, binding=Binding.GRPC, to=target) == ({"x-key": "k"}, {})
    with pytest.raises(CredentialsError, match="which gRPC cannot carry"):
        await applied(some, card({"query": ()}), channel, binding=Binding.GRPC, to=target)


@pytest.mark.parametrize("name", ["Host", "Content-Length", "X Key", "X:Key", "X\r\nY", ""])
async def test_a_card_cannot_have_a_key_written_where_none_belongs(name: str, channel: HttpChannel) -> None:
    odd = card({"key": ()}, schemes={"key": ApiKeyScheme(ApiKeyLocation.HEADER, name)})
    with pytest.raises(CredentialsError, match="The card names an invalid header or cookie for the key “key”"):
        await applied(Credentials({"key": "k"}), odd, channel)
    worded = card({"x": ()}, schemes={"x": HttpAuthScheme("Bearer x\r\ny:")})
    with pytest.raises(CredentialsError, match="is not a valid HTTP scheme"):
        await applied(Credentials({"x": "k"}), worded, channel)


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [("key", "se\r\ncret"), ("key", "secrét"), ("token", " secret"), ("token", ""), ("cookie", "sec;ret")],
)
async def test_a_secret_that_cannot_travel_is_refused_without_being_shown(
    scheme: str, secret: str, channel: HttpChannel
) -> None:
    with pytest.raises(CredentialsError) as caught:
        await applied(Credentials({scheme: secret}), card({scheme: ()}), channel)
    assert "sec" not in str(caught.value).replace("secret", "", 1)


@pytest.mark.parametrize("secret", ["ada", ":", ("a:b", "pw"), ("ada", "p\nw"), ("ada", "\ud800")])
async def test_what_is_no_name_and_password_is_refused(secret: Secret, channel: HttpChannel) -> None:
    with pytest.raises(CredentialsError, match=r"^The secret for “basic” is not a user name and a password$"):
        await applied(Credentials({"basic": secret}), card({"basic": ()}), channel)


async def test_a_secret_of_the_wrong_kind_is_refused(channel: HttpChannel) -> None:
    with pytest.raises(
        CredentialsError, match="The secret for “key” is of the wrong kind: the agent demands an API key"
    ):
        await applied(Credentials({"key": ("ada", "pw")}), card({"key": ()}), channel)
    with pytest.raises(CredentialsError, match="The secret for “tls” is of the wrong kind"):
        await applied(Credentials({"tls": Tls()}), card({"tls": ()}), channel)


# --- origins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/currency",
        "http://agents.example/currency",
        "https://agents.example:8443/currency",
        "https://agents.example.evil.example/",
        "https://sub.agents.example/",
        "agents.example:50051",
        "grpc://agents.example:443",
    ],
)
async def test_no_other_origin_sees_a_secret_unless_the_caller_says_so(elsewhere: str, channel: HttpChannel) -> None:
    asked: list[SecretRequest] = []

    async def source(wanted: SecretRequest) -> str:
        asked.append(wanted)
        return "k"

    demanding = card({"key": ()})
    with pytest.raises(
        CredentialsError, match=r"The credentials are for https://agents\.example:443, but the interface of the card"
    ):
        await applied(Credentials({"key": "k"}, source=source), demanding, channel, to=elsewhere)
    headers = {"x-other": "k"}
    assert await applied(Credentials({"key": "k"}, headers=headers), card(), channel, to=elsewhere) == ({}, {})
    assert asked == []
    for origin in (elsewhere, ANY_ORIGIN):
        trusting = Credentials({"key": "k"}, origins=[origin])
        assert await applied(trusting, demanding, channel, to=elsewhere) == ({"x-key": "k"}, {})


async def test_a_caller_that_gives_a_card_vouches_for_its_first_interface(channel: HttpChannel) -> None:
    demanding = card({"key": ()}, url="https://first.example")
    bound = Credentials({"key": "k"}).bind(demanding, target_url=None, channel=channel)
    assert (bound.may_send_to("https://first.example/x"), bound.may_send_to(URL)) == (True, False)
    nowhere = AgentCard("A", "", "1", (), security_schemes=SCHEMES, security=({"key": ()},))
    bound = Credentials({"key": "k"}).bind(nowhere, target_url=None, channel=channel)
    with pytest.raises(CredentialsError, match="The credentials are for no origin"):
        await bound.apply(CallOptions(), AgentInterface(URL, "JSONRPC", "1.0"))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Agents.Example/x?y", "https://agents.example:443"),
        ("http://agents.example:8080", "http://agents.example:8080"),
        ("grpcs://agents.example", "https://agents.example:443"),
        ("grpc://[::1]:50051", "http://[::1]:50051"),
        ("agents.example:443", "https://agents.example:443"),
        ("agents.example:50051", "http://agents.example:50051"),
        ("agents.example", "https://agents.example:443"),
    ],
)
def test_origins_are_compared_with_their_ports(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://agents.example", "https://", "https://a:99999", "https://[::1", "", "https://u@a.example"),
        # What two readers would take for two hosts is bound to none.
        *("https://a.example\\@b.example/", "https://b.example\t@a.example/", "https://127.1/", "https://a.example./"),
    ],
)
def test_what_has_no_origin_gets_no_secret(url: str) -> None:
    with pytest.raises(CredentialsError):
        origin_of(url)
    assert not may_carry_secrets(url)


def test_secrets_travel_encrypted_or_within_this_machine() -> None:
    safe = ["https://a.example/token", "http://127.0.0.1:9/token", "http://localhost/token", "http://[::1]/token"]
    unsafe = ["http://a.example/token", "https://u@a.example/token", "https://a.example/token#x", "http://10.0.0.1/"]
    assert ([may_carry_secrets(url) for url in safe], [may_carry_secrets(url) for url in unsafe]) == (
        [True] * 4,
        [False] * 4,
    )


# --- from elsewhere ---------------------------------------------------------------------------------------------------


async def test_a_function_gives_secrets_from_elsewhere_and_is_told_when_one_was_refused(channel: HttpChannel) -> None:
    asked: list[SecretRequest] = []

    async def source(wanted: SecretRequest) -> str | None:
        asked.append(wanted)
        return f"k{len(asked)}" if wanted.name == "key" else None

    bound = Credentials(source=source).bind(card({"oauth": ("read",)}, {"key": ()}), target_url=URL, channel=channel)
    interface = AgentInterface(URL, "JSONRPC", "1.0")
    assert (await bound.apply(CallOptions(), interface)).headers == {"x-key": "k2"}
    assert await bound.renew(UnauthenticatedError()) is True
    assert (await bound.apply(CallOptions(), interface)).headers == {"x-key": "k4"}
    origin = "https://agents.example:443"
    assert asked[1:] == [
        SecretRequest("key", SCHEMES["key"], (), origin, False),
        SecretRequest("oauth", OAUTH, ("read",), origin, False),
        SecretRequest("key", SCHEMES["key"], (), origin, True),
    ]
    await bound.apply(CallOptions(), interface)  # that of before has helped, or nobody would ask again
    assert asked[-1].was_refused is False


async def test_a_function_is_told_where_its_secret_goes_and_may_give_a_client(channel: HttpChannel) -> None:
    asked: list[SecretRequest] = []

    async def source(wanted: SecretRequest) -> OAuthClient:
        asked.append(wanted)
        return OAuthClient("parley", "hush")

    machines = OAuth2Scheme(OAuthFlows(client_credentials=OAuthFlow(token_url="https://login.example/token")))
    demanding = card({"oauth": ()}, schemes={"oauth": machines})
    some = Credentials(source=source, origins=["https://a.example", "https://z.example"])
    with pytest.raises(
        CredentialsError,
        match=r"The card's token endpoint, which would get the client's secret, is https://login\.example/token",
    ):
        await applied(some, demanding, channel, to="https://z.example")
    assert [wanted.origin for wanted in asked] == ["https://z.example:443"]


async def test_an_alternative_that_fails_leaves_the_next(channel: HttpChannel) -> None:
    """The card names a place that must not be called, and a key will do as well."""
    flow = OAuthFlow(token_url="https://agents.example/token")
    machines: dict[str, SecurityScheme] = {
        **SCHEMES,
        "oauth": OAuth2Scheme(OAuthFlows(client_credentials=flow), metadata_url="https://10.0.0.1/metadata"),
    }

    def forbid(url: str) -> None:
        raise ForbiddenTargetError(f"not {url}")

    some = Credentials({"oauth": OAuthClient("parley", "hush"), "key": "k"})
    interface = AgentInterface(URL, "JSONRPC", "1.0")
    both = some.bind(card({"oauth": ()}, {"key": ()}, schemes=machines), target_url=URL, channel=channel, check=forbid)
    assert (await both.apply(CallOptions(), interface)).headers == {"x-key": "k"}
    one = some.bind(card({"oauth": ()}, schemes=machines), target_url=URL, channel=channel, check=forbid)
    with pytest.raises(ForbiddenTargetError, match="not https://10"):
        await one.apply(CallOptions(), interface)


async def test_a_fixed_secret_that_was_refused_is_not_tried_again(channel: HttpChannel) -> None:
    bound = Credentials({"key": "k"}).bind(card({"key": ()}), target_url=URL, channel=channel)
    await bound.apply(CallOptions(), AgentInterface(URL, "JSONRPC", "1.0"))
    assert await bound.renew(UnauthenticatedError()) is False


async def test_logins_serve_the_origin_they_were_made_for(channel: HttpChannel) -> None:
    store = MemoryLogins()
    store.put(Login(origin="https://agents.example:443", scheme="key", kind="apikey", secret="kept"))
    store.put(Login(origin="https://evil.example:443", scheme="token", kind="bearer", secret="other"))
    store.put(
        Login(
            origin="https://agents.example:443",
            scheme="oauth",
            kind="device-code",
            tokens=Tokens("t1"),
            token_url="https://login.example/token",
        )
    )
    some = Credentials(store=store)
    assert await applied(some, card({"key": ()}), channel) == ({"x-key": "kept"}, {})
    assert await applied(some, card({"oauth": ()}), channel) == ({"authorization": "Bearer t1"}, {})
    with pytest.raises(CredentialsError, match="HTTP bearer authentication"):
        await applied(some, card({"token": ()}), channel)


async def test_headers_go_along_and_stand_in_for_what_is_demanded(channel: HttpChannel) -> None:
    some = Credentials(headers={"X-Own": "h"})
    assert await applied(some, card({"tls": ()}), channel) == ({"x-own": "h"}, {})
    with pytest.raises(CredentialsError, match="The secret for “X-Own” is empty"):
        Credentials(headers={"X-Own": "a\nb"})
    with pytest.raises(CredentialsError, match="Invalid header name"):
        Credentials(headers={"X-Own: x": "a"})


# --- nobody sees them -------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_text() -> None:
    store = MemoryLogins()
    client = OAuthClient("cli", "hush", issuer="https://login.example")
    some = Credentials({"key": "hush", "oauth": client, "basic": ("ada", "hush")}, headers={"x": "hush"}, store=store)
    bound = some.bind(card(), target_url=URL, channel=open_channel())
    login = Login(origin="o", scheme="s", kind="k", secret="hush", tokens=Tokens("hush", refresh_token="hush"))
    sent = CallOptions({"authorization": "hush"}, {"key": "hush"})
    request = HttpRequest("GET", parse_url(f"{URL}?key=hush"), {"authorization": "hush"})
    things = (some, bound, client, login, login.tokens, sent, request)
    texts = [text for thing in things for text in (repr(thing), pretty_repr(thing))]  # rich reads structs by itself
    assert [text for text in texts if "hush" in text] == []
    assert texts[0] == "Credentials(['basic', 'key', 'oauth'])"


async def test_a_key_in_the_query_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    keys = ApiKeys(
        [StoredSecret(name="ada", hash=hash_secret("hush-hush"))], location=ApiKeyLocation.QUERY, parameter="key"
    )
    app = App(echo_agent(), security=Security({"key": keys}), drain_seconds=0)
    async with running(app) as http:
        url = str(http.base_url)
        async with Client(url, credentials=Credentials({"key": "hush-hush"})) as client:
            assert (await client.send("hello")).text == "hello"
        async with Client(url) as client:
            with pytest.raises(UnauthenticatedError):
                await client.send("hello")
    logging.getLogger("parley").debug("the end")
    said = [record.getMessage() for record in caplog.records]
    assert said[-1] == "the end"  # everything is written down
    assert [text for text in said if "hush" in text] == []
