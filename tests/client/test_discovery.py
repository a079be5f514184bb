"""Finding cards: of every generation, at every place, from servers that are slow, huge, wrong or hostile."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from parley.client.client import Client
from parley.client.credentials.credentials import Credentials
from parley.client.discovery.card_cache import CardCache
from parley.client.discovery.discovery import DiscoveredCard, Discovery, card_urls
from parley.client.discovery.signatures import MAX_KEY_SETS, SignaturePolicy, read_key_set
from parley.client.errors import DiscoveryError, ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.guard import Guard
from parley.client.options import Bounds, Retries, Timeouts
from parley.client.transports.connections import Connections
from parley.dialects.registry import DIALECTS
from parley.network.urls import with_scheme
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import LocalProtocolError, PeerProtocolError, SignatureInvalidError
from parley.protocol.signing import CardForm, sign_card
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.pages.signer import Signer
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

KEY = ECKey.generate_key("P-256")
OTHER_KEY = ECKey.generate_key("P-256")
JSON = {"content-type": "application/json"}


def card_of(version: Version, url: str = "https://agents.example/a2a", name: str = "Found") -> AgentCard:
    face = AgentInterface(url, Binding.JSONRPC, version.value)
    return AgentCard(name, "Is found", "1.0.0", (face,))


def document(version: Version = Version.V1_0, **options: Any) -> bytes:
    return DIALECTS[version].encode_card(card_of(version, **options))


def signed(key: ECKey = KEY, *, key_id: str = "k1", jku: str | None = None, **more: Any) -> dict[str, Any]:
    """A card of 1.0 with a signature, as an object to spoil."""
    card = json.loads(document())
    signature = sign_card(card, key, key_id=key_id, jku=jku)
    return {**card, "signatures": [{"protected": signature.protected, "signature": signature.signature}], **more}


class Site:
    """A site with pages, which notes what it is asked. A page is a body, or a status and headers and a body."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        page = self.pages.get(scope["path"], (404, {}, b"nothing"))
        if isinstance(page, list):  # one after the other, the last for ever
            page = page.pop(0) if len(page) > 1 else page[0]
        status, headers, body = page if isinstance(page, tuple) else (200, JSON, page)
        if (tag := headers.get("etag")) and self.headers[-1].get("if-none-match") == tag:
            status, body = 304, b""
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})


async def gone(receive: Any) -> None:
    """Wait until the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def no_sleep(seconds: float) -> None:
    """Sleep for no time."""


@asynccontextmanager
async def looking(
    asgi: Any,
    policy: SignaturePolicy | None = None,
    *,
    cache: CardCache | None = None,
    retries: Retries | None = None,
    **options: Any,
) -> AsyncGenerator[Callable[[str], Awaitable[DiscoveredCard]]]:
    """A function that finds the card of a path of a site."""
    async with serving(asgi) as http:
        connections = Connections(**options)
        discovery = Discovery(connections, policy, cache=cache, retries=retries, sleep=no_sleep)
        url = f"http://{http.base_url.netloc.decode()}"
        try:
            yield lambda path: discovery.find(f"{url}{path}")
        finally:
            await connections.close()


# --- where ------------------------------------------------------------------------------------------------------------


async def test_our_own_servers_card_is_found_at_its_url_and_at_the_cards_own() -> None:
    async with running(App(echo_agent())) as http:
        url = f"http://{http.base_url.netloc.decode()}"
        for target in (url, f"{url}/", f"{url}/.well-known/agent-card.json", f"{url}/.well-known/agent.json"):
            async with Client(target) as client:
                assert (client.card.name, (await client.send("hello")).text) == ("Echo", "hello")


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("place", ["/.well-known/agent-card.json", "/.well-known/agent.json", "/cards/echo.json"])
async def test_a_card_of_any_version_is_found_at_any_place(version: Version, place: str) -> None:
    async with looking(Site({place: document(version)})) as find:
        found = await find(place if "cards" in place else "")
        assert (found.card.name, found.version, found.url.endswith(place)) == ("Found", version, True)


async def test_a_path_is_looked_at_before_the_root_and_last_itself() -> None:
    site = Site({"/agents/echo": document()})
    async with looking(site) as find:
        assert (await find("/agents/echo")).card.name == "Found"
    assert site.asked == [
        "/agents/echo/.well-known/agent-card.json",
        "/agents/echo/.well-known/agent.json",
        "/agents/echo/agent-card.json",
        "/.well-known/agent-card.json",
        "/.well-known/agent.json",
        "/agents/echo",
    ]


async def test_an_agent_of_a_host_is_found_by_its_own_card_and_not_by_that_of_the_host() -> None:
    pages = {"/.well-known/agent-card.json": document(name="Host"), "/v1/a2a/agents/echo/agent-card.json": document()}
    async with looking(Site(pages)) as find:
        assert [(await find(path)).card.name for path in ("/v1/a2a/agents/echo/", "")] == ["Found", "Host"]


def test_where_cards_may_be() -> None:
    known, older = "/.well-known/agent-card.json", "/.well-known/agent.json"
    site = "https://a.example"
    assert card_urls(site) == card_urls(f"{site}/") == [site + known, site + older]
    assert card_urls(f"{site}/x{older}") == [f"{site}/x{older}", f"{site}/x{known}"]
    assert card_urls(f"{site}/card.json?version=2") == [f"{site}/card.json?version=2"]
    assert card_urls(f"{site}?agent=2") == [site + known, site + older, f"{site}?agent=2"]
    with pytest.raises(DiscoveryError, match="Cards are fetched over HTTP"):
        card_urls("grpc://a.example:50051")


def test_what_people_type_becomes_a_url() -> None:
    typed = ("localhost:8080", "127.0.0.1/x", "a.example", "http://a.example")
    assert [with_scheme(target) for target in typed] == [
        "http://localhost:8080",
        "http://127.0.0.1/x",
        "https://a.example",
        "http://a.example",
    ]


async def test_the_newest_shape_is_asked_for_unless_the_url_asks_for_another() -> None:
    site = Site({"/card.json": document()})
    async with looking(site) as find:
        await find("/card.json")
        await find("/card.json?A2A-Version=0.2")
    assert [headers.get("a2a-version") for headers in site.headers] == ["1.0", None]


@pytest.mark.parametrize("version", list(Version))
async def test_who_speaks_older_versions_only_gets_the_card_of_that_version(version: Version) -> None:
    """Our own server's newest card does not list what only 0.1 and 0.2 call."""
    cards = CardCache()
    async with running(App(echo_agent())) as http:
        url = f"http://{http.base_url.netloc.decode()}"
        for accepted, spoken in (([], "1.0"), ([version], version), ([], "1.0")):
            async with Client(url, versions=accepted, cards=cards) as client:
                assert client.interface.version.startswith(spoken)
                assert (await client.send("hello")).text == "hello"


async def test_where_it_was_looked_for_is_said_when_there_is_no_card() -> None:
    site = Site({"/.well-known/agent.json": b"<html>Welcome</html>"})
    async with looking(site) as find:
        with pytest.raises(DiscoveryError, match=r"answers 404 at .*card\.json; has a web page at .*agent\.json$"):
            await find("")


async def test_all_places_have_room_in_the_error() -> None:
    path = "/agents/of/a/large/company/that/likes/long/paths/currency"
    async with looking(Site({})) as find:
        with pytest.raises(DiscoveryError, match=rf"agent\.json, {path}$"):
            await find(path)


async def test_a_page_for_people_does_not_hide_a_card_elsewhere() -> None:
    pages = {"/.well-known/agent-card.json": b"<html>Welcome</html>", "/.well-known/agent.json": document(Version.V0_2)}
    async with looking(Site(pages)) as find:
        assert (await find("")).version is Version.V0_2


async def test_a_broken_card_is_told_from_none() -> None:
    async with looking(Site({"/.well-known/agent-card.json": b'{"supportedInterfaces": 7}'})) as find:
        with pytest.raises(PeerProtocolError, match="supportedInterfaces"):
            await find("")


# --- hostile and weak servers -----------------------------------------------------------------------------------------


async def test_a_redirect_is_not_followed() -> None:
    inside = Site({"/secret.json": document()})
    async with serving(inside) as http:
        elsewhere = (302, {"location": f"http://127.0.0.1:{http.base_url.port}/secret.json"}, b"")
        async with looking(Site({"/.well-known/agent-card.json": elsewhere})) as find:
            with pytest.raises(DiscoveryError, match="redirects; give its real URL"):
                await find("")
    assert inside.asked == []


async def test_a_huge_card_is_not_taken_in() -> None:
    huge = b'{"name":"' + b"x" * 100_000 + b'"}'
    async with looking(Site({"/card.json": huge}), bounds=Bounds(card_bytes=10_000)) as find:
        with pytest.raises(DiscoveryError, match="has more than 10000 bytes"):
            await find("/card.json")


async def test_an_endless_card_is_not_waited_for() -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        reader = asyncio.create_task(gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not reader.done():
            await send({"type": "http.response.body", "body": b" " * 65_536, "more_body": True})
            await asyncio.sleep(0)

    async with looking(endless, bounds=Bounds(card_bytes=1_000_000)) as find:
        with pytest.raises(DiscoveryError, match="has more than 1000000 bytes"):
            await find("/card.json")


@pytest.mark.parametrize("dribbles", [False, True])
async def test_a_card_that_does_not_come_in_time_is_given_up(dribbles: bool) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        reader = asyncio.create_task(gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while dribbles and not reader.done():
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.wait([reader], timeout=0.01)
        await reader

    async with looking(slow, timeouts=Timeouts(card=0.2), retries=Retries(attempts=1)) as find:
        with pytest.raises(TimedOutError):
            await find("/card.json")


async def test_a_host_where_nobody_listens_is_unreachable() -> None:
    connections = Connections()
    try:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))  # and does not listen; nothing else is given the port meanwhile
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(UnreachableError) as caught, fail_after(5):
                await Discovery(connections, sleep=no_sleep).card(url)
        assert caught.value.was_sent is False
    finally:
        await connections.close()


async def test_a_server_that_is_busy_for_now_is_asked_again() -> None:
    busy = (503, {}, b"")
    site = Site({"/card.json": [busy, busy, document()]})
    async with looking(site) as find:
        assert (await find("/card.json")).card.name == "Found"
    assert site.asked == ["/card.json"] * 3


async def test_a_server_that_stays_busy_is_given_up() -> None:
    site = Site({"/card.json": (503, {}, b"")})
    async with looking(site, retries=Retries(attempts=2)) as find:
        with pytest.raises(DiscoveryError, match="answers 503"):
            await find("/card.json")
    assert site.asked == ["/card.json"] * 2


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"name":', b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b'{"name":1}']
)
@pytest.mark.parametrize("policy", [SignaturePolicy(), SignaturePolicy(keys={"k1": KEY})])
async def test_nonsense_is_no_card(body: bytes, policy: SignaturePolicy) -> None:
    async with looking(Site({"/card.json": body}), policy) as find:
        with pytest.raises((DiscoveryError, PeerProtocolError)):
            await find("/card.json")


async def test_a_card_of_a_named_host_cannot_send_the_client_into_a_private_network() -> None:
    secret = Site({})
    async with serving(secret) as http:
        port = http.base_url.port
        for url in (f"http://10.0.0.1:{port}/", f"https://metadata.internal:{port}/", "unix:/var/run/docker.sock"):
            async with serving(Site({"/card.json": document(url=url)})) as site:
                with pytest.raises(ForbiddenTargetError):
                    async with Client(f"http://127.0.0.1:{site.base_url.port}/card.json"):
                        pass
    assert secret.asked == []


async def test_a_url_that_strangers_named_is_not_trusted() -> None:
    site = Site({"/card.json": document()})
    async with looking(site, guard=Guard(trust_named=False)) as find:
        with pytest.raises(ForbiddenTargetError, match="The URL leads to"):
            await find("/card.json")
    assert site.asked == []


# --- the cache --------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that stands still until it is moved."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """A site whose pages are for those alone who have the token."""

    def __init__(self, site: Site, token: str) -> None:
        self.site = site
        self.expected = f"Bearer {token}"
        self.proofs: list[str | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        proof = dict(scope["headers"]).get(b"authorization")
        self.proofs.append(None if proof is None else proof.decode())
        if self.proofs[-1] == self.expected:
            await self.site(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials({"bearer": "sesame"}),
        Credentials(headers={"authorization": "Bearer sesame"}),
    ],
)
async def test_a_card_that_is_not_for_everybody_is_asked_for_with_what_the_caller_has(credentials: Credentials) -> None:
    cards = CardCache()
    private = {**JSON, "cache-control": "max-age=60", "etag": '"1"'}
    gate = Gate(Site({}), "sesame")
    async with serving(gate) as http:
        body = document(url=str(http.base_url))
        gate.site.pages["/.well-known/agent-card.json"] = (200, private, body)
        async with Client(str(http.base_url), credentials=credentials, cards=cards) as client:
            assert client.card.name == "Found"
        assert gate.proofs == [None, "Bearer sesame"]
        with pytest.raises(DiscoveryError, match="401"):  # what only some may see is not kept for all
            await Client(str(http.base_url), cards=cards).__aenter__()


async def test_a_card_for_everybody_is_asked_for_without_credentials() -> None:
    gate = Gate(Site({}), "sesame")
    async with serving(gate.site) as http:
        gate.site.pages["/.well-known/agent-card.json"] = document(url=str(http.base_url))
        async with Client(str(http.base_url), credentials=Credentials({"bearer": "sesame"})):
            pass
    assert all("authorization" not in headers for headers in gate.site.headers)


async def test_credentials_that_open_no_card_are_told_from_none() -> None:
    gate = Gate(Site({}), "sesame")
    async with serving(gate) as http:
        with pytest.raises(DiscoveryError, match="401 to the credentials"):
            async with Client(str(http.base_url), credentials=Credentials({"bearer": "wrong"})):
                pass
        with pytest.raises(DiscoveryError, match=r"answers 401 at /"):
            async with Client(str(http.base_url)):
                pass


async def test_a_card_is_fetched_again_only_when_it_has_changed() -> None:
    clock, path = Clock(), "/.well-known/agent.json"
    tagged = {**JSON, "etag": '"1"', "cache-control": "public, max-age=60"}
    site = Site({path: (200, tagged, document(name="First"))})
    async with looking(site, cache=CardCache(clock=clock)) as find:
        assert (await find("")).card.name == "First"
        site.asked.clear()
        assert ((await find("")).card.name, site.asked) == ("First", [])  # it is fresh
        clock.now += 61
        assert ((await find("")).card.name, site.asked) == ("First", [path])  # it has not changed
        assert site.headers[-1]["if-none-match"] == '"1"'
        clock.now += 59
        assert ((await find("")).card.name, site.asked) == ("First", [path])  # and is fresh again
        clock.now += 2
        site.pages[path] = (200, {**tagged, "etag": '"2"'}, document(name="Second"))
        assert ((await find("")).card.name, site.asked) == ("Second", [path] * 2)


@pytest.mark.parametrize("now", [(404, {}, b""), (302, {"location": "/"}, b""), b"<html></html>"])
async def test_a_card_that_has_moved_is_looked_for_again(now: Any) -> None:
    older, newer = "/.well-known/agent.json", "/.well-known/agent-card.json"
    site = Site({older: document(Version.V0_2)})
    async with looking(site, cache=CardCache()) as find:
        assert (await find("")).version is Version.V0_2
        site.pages |= {older: now, newer: document(Version.V1_0)}
        assert (await find("")).version is Version.V1_0


async def test_a_card_in_the_cache_is_verified_like_any_other() -> None:
    site, cache = Site({"/card.json": json.dumps(signed()).encode()}), CardCache()
    async with looking(site, pinned("required"), cache=cache) as find:
        assert (await find("/card.json")).signature is not None
        site.pages["/card.json"] = json.dumps(signed(OTHER_KEY)).encode()
        with pytest.raises(SignatureInvalidError):
            await find("/card.json")


async def test_our_own_servers_cards_are_cached_for_all_clients_that_share_a_cache() -> None:
    cards, clock = CardCache(clock=(clock := Clock())), clock
    async with running(App(echo_agent())) as http:
        for _ in range(2):
            async with Client(f"http://{http.base_url.netloc.decode()}", cards=cards) as client:
                assert (await client.send("hello")).text == "hello"
            clock.now += 10_000


def test_a_cache_keeps_what_it_may_as_long_as_it_may_and_no_more_than_it_can() -> None:
    clock = Clock()
    cache = CardCache(max_cards=2, clock=clock)
    cache.keep("a", "url", b"a", {"cache-control": "No-Store"})
    assert cache.get("a") is None
    for headers in ({}, {"cache-control": "no-cache, max-age=60"}, {"cache-control": "max-age=x"}):
        cache.keep("a", "url", b"a", headers)
        assert (kept := cache.get("a")) is not None
        assert not cache.is_fresh(kept)
    cache.keep("a", "url", b"a", {"cache-control": "max-age=99999999999"})
    assert (kept := cache.get("a")) is not None
    assert kept.fresh_until == clock.now + 3_600
    cache.keep("b", "url", b"b", {})
    cache.get("a")
    cache.keep("c", "url", b"c", {})
    assert [cache.get(name) is not None for name in "abc"] == [True, False, True]
    cache.forget("a")
    cache.forget("a")
    assert cache.get("a") is None


# --- signatures -------------------------------------------------------------------------------------------------------


def pinned(mode: Any = "if signed") -> SignaturePolicy:
    return SignaturePolicy(mode, keys={"k1": KEY.as_pem(private=False)})


async def found_under(policy: SignaturePolicy | None, card: Any, **pages: Any) -> DiscoveredCard:
    body = card if isinstance(card, bytes) else json.dumps(card).encode()
    async with looking(Site({"/card.json": body, **pages}), policy, retries=Retries(attempts=1)) as find:
        return await find("/card.json")


@pytest.mark.parametrize("mode", ["if signed", "required"])
async def test_a_card_that_is_signed_by_a_pinned_key_is_read_from_what_was_signed(mode: Any) -> None:
    unsigned = {"url": "https://evil.example/", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
    found = await found_under(pinned(mode), signed(**unsigned))
    assert found.signature is not None
    assert (found.signature.header.key_id, found.signature.form) == ("k1", CardForm.SPEC)
    assert [face.url for face in found.card.interfaces] == ["https://agents.example/a2a"]
    assert len(found.card.signatures) == 1


@pytest.mark.parametrize("mode", ["if signed", "required"])
@pytest.mark.parametrize(
    "card",
    [
        signed(name="Somebody else"),
        signed(OTHER_KEY),
        signed(key_id="k2"),
        signed(signatures=[{"protected": "e30", "signature": ""}]),
        signed(signatures=[7]),
        signed(signatures=7),
    ],
)
async def test_a_card_whose_signature_does_not_verify_is_refused(mode: Any, card: Any) -> None:
    with pytest.raises(SignatureInvalidError):
        await found_under(pinned(mode), card)


async def test_an_unsigned_card_is_refused_only_where_signatures_are_required() -> None:
    assert (await found_under(pinned("if signed"), document())).signature is None
    assert (await found_under(pinned("off"), signed(OTHER_KEY))).signature is None
    assert (await found_under(None, signed(OTHER_KEY))).signature is None  # nobody is known to verify it with
    with pytest.raises(SignatureInvalidError, match="has no signatures"):
        await found_under(pinned("required"), document())


def test_a_policy_that_could_accept_nothing_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="no key or host to verify them with"):
        SignaturePolicy("required")
    with pytest.raises(LocalProtocolError, match="The key cannot be read"):
        SignaturePolicy(keys={"k1": "nonsense"})


async def test_our_own_servers_signed_card_is_verified_with_the_keys_that_it_publishes() -> None:
    app = App(echo_agent(), signer=Signer(KEY, "k1"))
    async with running(app) as http:
        url = f"http://{http.base_url.netloc.decode()}"
        async with Client(url, signatures=SignaturePolicy("required", jwks_hosts=("127.0.0.1",))) as client:
            assert (await client.send("hello")).text == "hello"
        with pytest.raises(SignatureInvalidError, match=r"Keys from http://127\.0\.0\.1:\d+ are not allowed"):
            async with Client(url, signatures=SignaturePolicy("required", jwks_hosts=("keys.example",))):
                pass


@pytest.mark.parametrize(
    ("jku", "reason"),
    [
        ("https://evil.example/keys", "are not allowed"),
        ("http://keys.example/keys", "is not encrypted"),
        ("file:///etc/passwd", r"Invalid URL: 'file://'\. It must start with"),
        ("https://keys.example@evil.example/", "must not contain a user name"),
    ],
)
async def test_keys_come_from_allowed_hosts_over_tls_alone(jku: str, reason: str) -> None:
    with pytest.raises(SignatureInvalidError, match=reason):
        await found_under(SignaturePolicy(jwks_hosts=("keys.example",)), signed(jku=jku))


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b"[]", "The key set cannot be read"),
        (b"[" * 100_000, "The key set cannot be read"),
        (b'{"keys": []}', "no key is known for kid 'k1'"),
        ((404, {}, b""), "answers 404"),
        ((302, {"location": "https://evil.example/"}, b""), "redirects"),
        (b" " * 2_000_000, "has more than 1048576 bytes"),
    ],
)
async def test_a_key_set_that_is_none_verifies_nothing(page: Any, reason: str) -> None:
    async with serving(Site({"/keys": page})) as http:
        jku = f"http://127.0.0.1:{http.base_url.port}/keys"
        with pytest.raises(SignatureInvalidError, match=reason):
            await found_under(SignaturePolicy("required", jwks_hosts=("127.0.0.1",)), signed(jku=jku))


async def test_a_card_cannot_have_many_key_sets_fetched() -> None:
    site = Site({})
    async with serving(site) as http:
        base = f"http://127.0.0.1:{http.base_url.port}"
        signatures = [signed(jku=f"{base}/{number}")["signatures"][0] for number in range(10)]
        with pytest.raises(SignatureInvalidError):
            await found_under(SignaturePolicy(jwks_hosts=("127.0.0.1",)), signed(signatures=signatures))
    assert len(site.asked) == MAX_KEY_SETS


async def test_a_pinned_key_is_not_replaced_by_one_that_a_card_names() -> None:
    site = Site({"/keys": json.dumps({"keys": [{**OTHER_KEY.as_dict(private=False), "kid": "k1"}]}).encode()})
    async with serving(site) as http:
        forged = signed(OTHER_KEY, jku=f"http://127.0.0.1:{http.base_url.port}/keys")
        policy = SignaturePolicy(keys={"k1": KEY.as_dict(private=False)}, jwks_hosts=("127.0.0.1",))
        with pytest.raises(SignatureInvalidError, match="it is not a signature of this card by this key"):
            await found_under(policy, forged)
    assert site.asked == []


def test_of_a_key_set_those_keys_count_that_sign_cards() -> None:
    public = KEY.as_dict(private=False)
    keys = [
        {**public, "kid": "a"},
        {**public, "kid": "b", "use": "enc"},
        public,
        {"kty": "oct", "k": "c2VjcmV0", "kid": "c"},
        {"kty": "EC", "crv": "P-999", "kid": "d"},
        {**public, "kid": "e", "use": "sig"},
    ]
    assert sorted(read_key_set(json.dumps({"keys": keys}).encode())) == ["a", "e"]


def test_private_members_of_a_key_set_are_not_looked_at() -> None:
    whole = RSAKey.generate_key(2048).as_dict(private=True)
    # An exponent of any length would be accepted, or refused after up to minutes.
    keys = [{**whole, "kid": "whole"}, {**whole, "kid": "long", "d": "x" * 5_000}]
    found = read_key_set(json.dumps({"keys": keys}).encode())
    assert {key_id: key.is_private for key_id, key in found.items()} == {"whole": False, "long": False}
