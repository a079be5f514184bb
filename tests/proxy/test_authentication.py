"""Who may call through a proxy, and which credentials go where."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from msgspec import structs

from parley import Agent
from parley.client.credentials.credentials import Credentials
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import (
    AgentCard,
    ApiKeyLocation,
    ApiKeyScheme,
    Binding,
    HttpAuthScheme,
    MutualTlsScheme,
    OpenIdConnectScheme,
)
from parley.protocol.errors import (
    InvalidParamsError,
    RateLimitedError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.proxy.forwarding import ProxyAuthenticator, challenges_for
from parley.proxy.proxied import proxied
from parley.server.app import App
from parley.server.limits import ServerLimits
from parley.server.security.authentication import Security, challenges_of
from parley.server.security.credentials import ANONYMOUS, PresentedCredentials
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.security.throttle import RateLimits
from tests.conformance.matrix import GRPC, JSONRPC, REST, V0_3, V1_0
from tests.conformance.serve import conformance_agent, secured_agent
from tests.deadlines import fail_after
from tests.proxy.proxies import Place, caller, on_ports, proxy_of
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

KEY = ApiKeyScheme(ApiKeyLocation.COOKIE, "key")
ALICE, BOB, OURS = "alice-token-0123456789abcdef", "bob-token-0123456789abcdef", "our-token-0123456789abcdef"


def tokens(**names: str) -> Security:
    secrets = [StoredSecret(name=name, hash=hash_secret(secret)) for name, secret in names.items()]
    return Security({"token": BearerTokens(secrets)})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def card_of(place: Place) -> Any:
    async with httpx2.AsyncClient() as http:
        reply = await http.get(f"{place['url']}/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})
        return reply.json()


async def test_callers_prove_to_the_agent_who_they_are() -> None:
    app = App(secured_agent(), security=tokens(alice=ALICE, bob=BOB))
    with fail_after(20):
        async with on_ports(app) as place, proxy_of(place["url"]) as proxy:
            assert (await card_of(proxy))["securitySchemes"] == (await card_of(place))["securitySchemes"]
            for binding in (JSONRPC, REST, GRPC):
                async with caller(proxy, V1_0, binding) as nobody:
                    with pytest.raises(UnauthenticatedError):
                        await nobody.send("hello")
                async with caller(proxy, V1_0, binding, **bearer(ALICE)) as alice:
                    task = await alice.send("hello")
                    assert [known.id for known in (await alice.list(context_id=task.context_id)).tasks] == [task.id]
                async with caller(proxy, V1_0, binding, **bearer(BOB)) as bob:
                    with pytest.raises(TaskNotFoundError):
                        await bob.get(task.id)


async def test_the_extended_card_is_the_one_that_the_agent_shows_to_its_caller() -> None:
    app = App(secured_agent(), security=tokens(alice=ALICE))
    with fail_after(20):
        async with on_ports(app) as place, proxy_of(place["url"]) as proxy:
            async with caller(proxy, V1_0, GRPC, **bearer(ALICE)) as alice:
                card = await alice.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())
            assert [skill.id for skill in card.skills] == ["vault"]
            assert {face.url for face in card.interfaces} == {f"{proxy['url']}/", proxy["url"], proxy["grpc"]}
            assert [skill["id"] for skill in (await card_of(proxy))["skills"]] == ["secured"]
            async with caller(proxy, V1_0, GRPC) as nobody:
                with pytest.raises(UnauthenticatedError):
                    await nobody.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())


@pytest.mark.parametrize("location", list(ApiKeyLocation), ids=str)
async def test_keys_go_on_in_the_place_that_the_card_names(location: ApiKeyLocation) -> None:
    keys = ApiKeys([StoredSecret(name="alice", hash=hash_secret(ALICE))], parameter="X-Agent", location=location)
    app = App(conformance_agent("Keyed"), security=Security({"key": keys}))
    with fail_after(20):
        async with on_ports(app) as place, proxy_of(place["url"]) as proxy, caller(proxy, V0_3, JSONRPC) as peer:
            with pytest.raises(UnauthenticatedError):
                await peer.send("hello")
            where: dict[str, Any] = {
                ApiKeyLocation.HEADER: {"headers": {"X-Agent": ALICE}},
                ApiKeyLocation.QUERY: {"params": {"X-Agent": ALICE}},
                ApiKeyLocation.COOKIE: {"headers": {"Cookie": f"other=1; X-Agent={ALICE}"}},
            }[location]
            _, path, body = peer.http_request(ops.SEND_MESSAGE, peer.request(peer.message("hello")))
            headers = peer.http_headers() | where.pop("headers", {})
            reply = await peer.http.post(path, content=body, headers=headers, **where)
            assert reply.json()["result"]["status"]["state"] == "completed"


async def test_a_callers_credentials_go_to_no_other_origin_than_the_one_that_was_named() -> None:
    app = App(secured_agent(), security=tokens(alice=ALICE))
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(place["url"], bindings=[GRPC]) as proxy,
            caller(proxy, V1_0, JSONRPC, **bearer(ALICE)) as alice,
        ):
            with pytest.raises(UnauthenticatedError, match="not a trusted origin"):
                await alice.send("hello")
        async with (
            on_ports(App(secured_agent(), security=tokens(alice=ALICE))) as place,
            proxy_of(place["url"], bindings=[GRPC], trusted=[place["grpc"]]) as proxy,
            caller(proxy, V1_0, JSONRPC, **bearer(ALICE)) as alice,
        ):
            assert (await alice.send("hello")).id


async def test_behind_a_door_of_its_own_the_proxy_has_its_own_credentials_and_keeps_callers_apart() -> None:
    app = App(secured_agent(), security=tokens(proxy=OURS))
    ours, door = Credentials({"bearer": OURS}), tokens(alice=ALICE, bob=BOB)
    with fail_after(20):
        async with on_ports(app) as place, proxy_of(place["url"], credentials=ours, security=door) as proxy:
            assert list((await card_of(proxy))["securitySchemes"]) == ["token"]
            async with (
                caller(proxy, V1_0, JSONRPC, **bearer(ALICE)) as alice,
                caller(proxy, V1_0, GRPC, **bearer(BOB)) as bob,
                caller(proxy, V1_0, JSONRPC) as nobody,
            ):
                task = await alice.send("ask")
                assert [known.id for known in (await alice.list()).tasks] == [task.id]
                assert (await bob.list()).tasks == ()
                with pytest.raises(TaskNotFoundError):
                    await bob.cancel(task.id)
                with pytest.raises(TaskNotFoundError):
                    await bob.send("mine", task=task)
                with pytest.raises(UnauthenticatedError):
                    await nobody.send("hello")
                assert (await alice.send("yes", task=task)).artifacts


@pytest.mark.parametrize("ours", [Credentials({"bearer": "wrong"}), Credentials()], ids=["wrong", "none"])
async def test_credentials_of_the_proxy_that_do_not_help_are_not_the_callers_fault(ours: Credentials) -> None:
    app = App(secured_agent(), security=tokens(proxy=OURS))
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(place["url"], credentials=ours) as proxy,
            caller(proxy, V1_0, JSONRPC) as peer,
        ):
            assert "securitySchemes" not in await card_of(proxy)
            with pytest.raises(UnavailableError, match="proxy"):
                await peer.send("hello")


async def test_who_the_agent_lets_in_says_whether_the_proxy_is_open() -> None:
    async with on_ports(App(secured_agent(), security=tokens(alice=ALICE))) as place:
        async with proxied(place["url"]) as app:
            assert not app.is_unauthenticated
        async with proxied(place["url"], credentials=Credentials({"bearer": ALICE})) as app:
            assert app.is_unauthenticated
        async with proxied(place["url"], security=tokens(bob=BOB)) as app:
            assert not app.is_unauthenticated
    async with on_ports(App(conformance_agent("Open"))) as place, proxied(place["url"]) as app:
        assert app.is_unauthenticated


async def test_tenants_are_the_agents() -> None:
    """An agent of 1.0 has them; one of 0.3 could not tell them apart, so nobody may name one."""
    with fail_after(20):
        async with on_ports(App(conformance_agent("Open"))) as place:
            async with proxy_of(place["url"]) as proxy, caller(proxy, V1_0, REST) as peer:
                peer.tenant = "red"
                task = await peer.send("hello")
                peer.tenant = "blue"
                with pytest.raises(TaskNotFoundError):
                    await peer.get(task.id)
            async with proxy_of(place["url"], versions=[V0_3]) as proxy, caller(proxy, V1_0, REST) as peer:
                peer.tenant = "red"
                with pytest.raises(InvalidParamsError):
                    await peer.send("hello")


async def test_headers_that_are_no_credentials_stay_with_the_proxy() -> None:
    heard: list[dict[str, str]] = []
    agent = Agent("Listener")

    @agent.on_message
    async def hear(turn: Any) -> str:
        return turn.text

    app = App(agent)

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            heard.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    async with app.running(), serving(listening) as http:
        url = str(http.base_url).rstrip("/")
        async with (
            proxy_of(url) as proxy,
            caller(proxy, V1_0, JSONRPC, **bearer(ALICE), **{"x-other": "private", "cookie": "a=b"}) as peer,
        ):
            await peer.send("hello")
    assert heard[-1]["authorization"] == f"Bearer {ALICE}"
    assert not {"x-other", "cookie"} & set(heard[-1])


def test_a_door_demands_what_stands_behind_it() -> None:
    card = AgentCard("Keyed", "", "1", (), security_schemes={"key": KEY}, security=({"key": ()},))
    door = ProxyAuthenticator(card)
    assert (door.schemes, door.requirements_for(["a"])) == ({"key": KEY}, ({"key": ()},))
    own = ProxyAuthenticator(card, own=tokens(alice=ALICE))
    assert own.requirements_for(["a"]) == ({"token": ("a",)},)
    assert challenges_of(own.authentication_required()) == ('Bearer realm="parley"',)


@pytest.mark.parametrize("cookie", ["a=b", "\x00=", ""])
async def test_a_cookie_that_is_no_key_is_nobodys(cookie: str) -> None:
    card = AgentCard("Keyed", "", "1", (), security_schemes={"key": KEY}, security=({"key": ()},))
    assert await ProxyAuthenticator(card).authenticate(PresentedCredentials({"cookie": cookie})) == ANONYMOUS


@pytest.mark.parametrize("behind", [JSONRPC, GRPC], ids=str)
async def test_what_cannot_be_in_a_header_is_handed_on_to_nobody(behind: Binding) -> None:
    """Raw, because no client sends such headers."""
    app = App(secured_agent(), security=tokens(alice=ALICE))
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(place["url"], bindings=[behind], trusted=[place["grpc"]]) as proxy,
            httpx2.AsyncClient() as http,
        ):

            async def status(*headers: tuple[bytes, bytes]) -> int:
                body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "absent"}}
                reply = await http.post(f"{proxy['url']}/", json=body, headers=[(b"a2a-version", b"1.0"), *headers])
                return reply.json()["error"]["code"]

            token = b"Bearer " + ALICE.encode()
            assert await status((b"authorization", b"Bearer \xe9\xff")) == UnauthenticatedError.row.code
            assert await status((b"authorization", b"Bearer a\tb")) == UnauthenticatedError.row.code
            extensions = (b"a2a-extensions", b"urn:\xe9, urn:other")
            assert await status((b"authorization", token), extensions) == TaskNotFoundError.row.code


async def test_who_guesses_credentials_of_the_agent_is_stopped_at_the_proxy() -> None:
    """The agent sees one address, the proxy's, and would stop everybody."""
    app = App(secured_agent(), security=tokens(alice=ALICE))
    limits = ServerLimits(rates=RateLimits(failures_per_minute=3))
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(place["url"], limits=limits) as proxy,
            caller(proxy, V1_0, JSONRPC) as nobody,
            caller(proxy, V1_0, REST, **bearer("guess")) as eve,
        ):
            for _ in range(5):
                with pytest.raises(UnauthenticatedError):
                    await nobody.send("hello")  # who brings nothing guesses nothing
            for _ in range(2):
                with pytest.raises(UnauthenticatedError):
                    await eve.send("hello")
            with pytest.raises(UnauthenticatedError):
                await eve.stream_of("hello")
            with pytest.raises(RateLimitedError):
                await eve.send("hello")


async def test_an_agent_that_also_lets_strangers_in_leaves_the_door_open() -> None:
    either = ({"key": ()}, {})
    card = AgentCard("Keyed", "", "1", (), security_schemes={"key": KEY}, security=either)
    assert ProxyAuthenticator(card).is_unauthenticated
    assert not ProxyAuthenticator(structs.replace(card, security=either[:1])).is_unauthenticated


@pytest.mark.parametrize("behind", [JSONRPC, REST, GRPC], ids=str)
async def test_a_refusal_says_what_the_agent_wants(behind: Binding) -> None:
    app = App(secured_agent(), security=tokens(alice=ALICE))
    with fail_after(20):
        async with (
            on_ports(app) as place,
            proxy_of(place["url"], bindings=[behind], trusted=[place["grpc"]]) as proxy,
            httpx2.AsyncClient(base_url=proxy["url"], headers={"a2a-version": "1.0"}) as http,
        ):
            for reply in (await http.get("/tasks/absent"), await http.get("/extendedAgentCard")):
                assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")


def test_a_card_cannot_put_words_into_a_header() -> None:
    schemes = {
        "basic": HttpAuthScheme("basic"),
        "odd": HttpAuthScheme("Bearer\r\nset-cookie: a=b"),
        "key": ApiKeyScheme(ApiKeyLocation.HEADER, "X-Key"),
        "quoted": ApiKeyScheme(ApiKeyLocation.QUERY, 'a", b="'),
        "certificate": MutualTlsScheme(),
        "openid": OpenIdConnectScheme("https://login.example"),
    }
    card = AgentCard("Odd", "", "1", (), security_schemes=schemes)
    assert challenges_for(card) == ("Basic", 'ApiKey in="header", name="X-Key"', "Bearer")
