"""Reading the catalogues of other servers: nested, looping, huge, slow, wrong and hostile ones; and calls by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from parley import Agent, Turn
from parley.ai_catalog.decoding import InvalidCatalogError
from parley.ai_catalog.model import CARD_TYPE, CATALOG_TYPE
from parley.ai_catalog.names import UnknownAgentNameError
from parley.client.client import Client
from parley.client.discovery.catalog_reader import CatalogBounds, CatalogListing, CatalogReader, catalog_url
from parley.client.errors import (
    CredentialsError,
    DiscoveryError,
    ForbiddenTargetError,
    TimedOutError,
    UnreachableError,
)
from parley.client.guard import Guard
from parley.client.transports.connections import Connections
from parley.protocol.errors import PeerProtocolError
from parley.server.app import App
from tests.client.raw_server import raw_server, reply, says
from tests.client.test_discovery import Site, document, gone
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

PATH = "/.well-known/ai-catalog.json"


def entry(name: str, **members: Any) -> dict[str, Any]:
    return {
        "identifier": f"urn:x:{name}",
        "displayName": name.title(),
        "mediaType": CARD_TYPE,
        "url": f"https://{name}.example/agent-card.json",
        **members,
    }


def nested(url: str, name: str = "more") -> dict[str, Any]:
    return entry(name, mediaType=CATALOG_TYPE, url=url)


def catalog(*entries: Any) -> bytes:
    return msgspec.json.encode({"specVersion": "1.0", "entries": entries})


async def read(url: str, *, guard: Guard | None = None, **bounds: Any) -> CatalogListing:
    connections = Connections(guard=guard)
    try:
        with fail_after(10):
            return await CatalogReader(connections, CatalogBounds(**bounds)).read(url)
    finally:
        await connections.close()


@asynccontextmanager
async def site_of(pages: dict[str, list[Any]]) -> AsyncGenerator[tuple[Site, str]]:
    """A site with catalogues. `{url}` in the URL of an entry is the site's own."""
    site = Site({})
    async with serving(site) as http:
        url = str(http.base_url).rstrip("/")
        for path, entries in pages.items():
            site.pages[path] = catalog(*entries).replace(b"{url}", url.encode())
        yield site, url


def names(listing: CatalogListing) -> list[str]:
    return [one.name for one in listing.entries]


async def test_nested_catalogues_are_read_whether_they_are_named_or_inline() -> None:
    inline = entry("inline", mediaType=CATALOG_TYPE, data=msgspec.Raw(catalog(entry("three"))))
    del inline["url"]
    pages = {PATH: [entry("one"), nested("{url}/a"), inline], "/a": [entry("two"), entry("one")]}
    async with site_of(pages) as (_, url):
        found = await read(url)
    assert (names(found), found.problems, found.is_complete, found.documents) == (["one", "two", "three"], (), True, 3)


async def test_a_catalogue_that_loops_is_read_once() -> None:
    pages = {PATH: [nested("{url}/a")], "/a": [nested("{url}/a", "self"), nested(f"{{url}}{PATH}", "up"), entry("one")]}
    async with site_of(pages) as (site, url):
        found = await read(url)
    assert (names(found), site.asked) == (["one"], [PATH, "/a"])
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "This catalogue is named more than once, and read once"
    ] * 2


async def test_a_catalogue_that_never_ends_is_cut_off() -> None:
    pages = {f"/{number}": [entry(f"e{number}"), nested(f"{{url}}/{number + 1}")] for number in range(10)}
    async with site_of(pages) as (site, url):
        found = await read(f"{url}/0")
        assert (names(found), found.is_complete) == (["e0", "e1", "e2"], False)
        assert "nested deeper than 3" in found.problems[-1]
        assert names(await read(f"{url}/0", depth=10, documents=2)) == ["e0", "e1"]
    wide = {PATH: [nested(f"{{url}}/{number}", f"n{number}") for number in range(50)]}
    async with site_of(wide) as (site, url):
        found = await read(url, documents=5)
        assert (len(site.asked), found.is_complete) == (5, False)  # also if none of them is there


@pytest.mark.parametrize(
    "target",
    ["https://10.0.0.1/c", "http://169.254.169.254/latest", "https://metadata.internal/c", "http://public.example/c"],
)
async def test_a_catalogue_cannot_send_its_reader_to_a_private_address_or_away_from_tls(target: str) -> None:
    async with site_of({PATH: [nested(target), entry("one")]}) as (_, url):
        found = await read(url)
    assert names(found) == ["one"]
    (problem,) = found.problems
    assert "It points to" in problem


async def test_a_name_that_resolves_to_a_private_address_is_not_called() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with site_of({PATH: [nested("https://rebind.example/c")]}) as (site, url):
        connections = Connections(resolve=resolve)
        found = await CatalogReader(connections).read(url)
        await connections.close()
    assert "has an address that is not public" in found.problems[0]
    assert site.asked == [PATH]


async def test_a_url_that_others_give_must_be_public_too() -> None:
    async with site_of({PATH: []}) as (site, url):
        with pytest.raises(ForbiddenTargetError):
            await read(url, guard=Guard(trust_named=False))
    assert site.asked == []


async def test_redirects_are_not_followed() -> None:
    site = Site({PATH: (302, {"location": "http://169.254.169.254/"}, b"")})
    async with serving(site) as http:
        with pytest.raises(ForbiddenTargetError, match="redirects"):
            await read(str(http.base_url))


async def test_a_catalogue_of_60_megabytes_is_refused() -> None:
    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(60):
            await send({"type": "http.response.body", "body": b" " * 1024 * 1024, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(flood) as http:
        with pytest.raises(PeerProtocolError, match="more than 8388608 bytes"):
            await read(str(http.base_url))


async def test_of_100_000_entries_the_first_10_000_are_read() -> None:
    short = [
        {"identifier": f"u:{number}", "mediaType": CARD_TYPE, "url": "https://a.example"} for number in range(100_000)
    ]
    async with site_of({PATH: short}) as (_, url):
        found = await read(url, document_bytes=32 * 1024 * 1024)
    assert len(found.found) == 10_000
    assert "Only the first 10000 of 100000 entries are read" in found.problems[0]


async def test_all_documents_together_are_bounded() -> None:
    pages = {PATH: [nested(f"{{url}}/{number}", f"n{number}") for number in range(3)]}
    pages |= {f"/{number}": [entry(f"e{number}", description="x" * 1_000)] for number in range(3)}
    async with site_of(pages) as (_, url):
        found = await read(url, total_bytes=2_000)
        assert names(found) == ["e0"]
        assert names(await read(url, entries=2)) == ["e0", "e1"]


@pytest.mark.parametrize(
    "body", [b"nonsense", b"<html>hello", b"{}", b"[]", b"\x00" * 1000, b'{"specVersion":"9.0","entries":[]}']
)
async def test_nonsense_is_an_error_at_the_first_url_and_a_problem_below(body: bytes) -> None:
    async with site_of({"/above": [nested("{url}/below"), entry("one")]}) as (site, url):
        site.pages |= {"/below": body, PATH: body}
        with pytest.raises(InvalidCatalogError):
            await read(url)
        found = await read(f"{url}/above")
    assert (names(found), len(found.problems)) == (["one"], 1)


async def test_a_server_that_hangs_is_left_after_some_time_with_what_was_read() -> None:
    async def hang(scope: Any, receive: Any, send: Any) -> None:
        await gone(receive)

    async with serving(hang) as slow, site_of({PATH: [entry("one"), nested(str(slow.base_url))]}) as (_, url):
        with pytest.raises(TimedOutError):
            await read(str(slow.base_url), seconds=0.2)
        found = await read(url, seconds=2, documents=5)
    assert (names(found), found.is_complete) == (["one"], False)


async def test_a_server_that_sends_one_byte_at_a_time_is_left_as_well() -> None:
    async with raw_server(says(b"HTTP/1.1 200 OK\r\n\r\n", then=b" ", every=0.01)) as it:
        with pytest.raises(UnreachableError):
            await read(f"{it.url}catalog", seconds=0.2)


async def test_invalid_http_is_an_error() -> None:
    async with raw_server(says(reply(b"{}", b"content-encoding: gzip\r\n"))) as it:
        with pytest.raises(PeerProtocolError):
            await read(f"{it.url}catalog")


async def test_a_server_without_a_catalogue_is_named_in_the_error() -> None:
    async with serving(Site({})) as http:
        with pytest.raises(
            DiscoveryError, match=r"No AI Catalog is at .*/\.well-known/ai-catalog\.json: it answers 404"
        ):
            await read(str(http.base_url))


def test_the_url_of_a_server_means_its_well_known_catalogue() -> None:
    assert catalog_url("agents.example") == f"https://agents.example{PATH}"
    assert catalog_url("localhost:8080/") == f"http://localhost:8080{PATH}"
    assert catalog_url("https://agents.example/c.json?x=1") == "https://agents.example/c.json?x=1"
    for wrong in ("", "ftp://x", "https://u@x"):
        with pytest.raises(ForbiddenTargetError):
            catalog_url(wrong)


# --- clients ----------------------------------------------------------------------------------------------------------


async def test_a_client_calls_an_agent_by_its_name_in_a_catalogue() -> None:
    async with running(App(echo_agent("One"), echo_agent("Two"))) as http:
        url = str(http.base_url)
        for target in ("two", "Two", "urn:air:127.0.0.1:agent:two"):
            async with Client(target, catalog=url) as client:
                assert (client.card.name, (await client.send("hi")).text) == ("Two", "hi")
        both = f"catalog+{url}{PATH.lstrip('/') if url.endswith('/') else PATH}#one"
        client = Client(both)
        async with client, client.copy() as again:
            assert (client.card.name, again.card.name, client.target) == ("One", "One", both)
        async with Client(f"{url}/agents/two".replace("//agents", "/agents"), catalog=url) as client:
            assert client.card.name == "Two"  # a URL stays one
        with pytest.raises(UnknownAgentNameError, match="'three'; there are: one, two"):
            await Client("three", catalog=url).__aenter__()


async def test_an_app_in_process_is_called_by_name() -> None:
    app = App(echo_agent("One"), echo_agent("Two"))
    async with app.running(), Client("two", catalog="http://app.example", app=app) as client:
        assert (await client.send("hi")).text == "hi"


async def test_credentials_are_for_the_catalogues_origin_and_not_for_what_it_names() -> None:
    """The catalogue names an agent on another origin, which demands a token: the caller's token is not for it."""
    secured = msgspec.json.decode(document())
    secured |= {
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
    }
    other = Site({"/agent-card.json": (401, {}, b""), "/open.json": b""})
    async with serving(other) as far:
        far_url = str(far.base_url).rstrip("/")
        secured["supportedInterfaces"][0]["url"] = far_url
        other.pages["/open.json"] = msgspec.json.encode(secured)
        pages = {
            PATH: [entry("closed", url=f"{far_url}/agent-card.json"), entry("open", url=f"{far_url}/open.json")],
        }
        async with site_of(pages) as (_, url):
            with pytest.raises(DiscoveryError):
                await Client("closed", catalog=url, credentials="s3cret").__aenter__()
            async with Client("open", catalog=url, credentials="s3cret") as client:
                with pytest.raises(CredentialsError, match="The credentials are for"):
                    await client.send("hi")
    assert not any("s3cret" in str(headers) for headers in other.headers)


async def test_an_entry_cannot_lead_to_a_private_host() -> None:
    card = msgspec.Raw(document(url="https://10.0.0.1/"))
    inline = entry("inline", data=card)
    del inline["url"]
    async with site_of({PATH: [entry("near", url="https://10.0.0.1/card.json"), inline]}) as (_, url):
        for name in ("near", "inline"):
            with pytest.raises(ForbiddenTargetError, match="not public"):
                await Client(name, catalog=url).__aenter__()


async def test_a_catalogue_that_demands_a_token_gets_it() -> None:
    seen: list[str | None] = []

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization")
        seen.append(token and token.decode())
        body = catalog(entry("one", url=f"http://127.0.0.1:{scope['server'][1]}/card.json"))
        await send({"type": "http.response.start", "status": 200 if token else 401, "headers": []})
        await send({"type": "http.response.body", "body": body if scope["path"] == PATH else document()})

    async with serving(guarded) as http, Client("one", catalog=str(http.base_url), credentials="t0ken") as client:
        assert client.card.name == "Found"
    assert seen == [None, "Bearer t0ken", None, "Bearer t0ken"]


async def test_a_handler_delegates_to_a_name_in_the_catalogue_of_its_app() -> None:
    caller = Agent("caller", description="Asks others.")

    @caller.on_message
    async def ask(turn: Turn) -> str:
        return (await turn.delegate(turn.text, "hello")).text

    async with running(App(echo_agent("Far"))) as http:
        app = App(caller, catalog=str(http.base_url))
        async with app.running(), Client("http://app.example", app=app) as client:
            assert (await client.send("far")).text == "hello"
        app = App(caller)
        async with app.running(), Client("http://app.example", app=app) as client:
            assert (await client.send(f"catalog+{str(http.base_url).rstrip('/')}{PATH}#far")).text == "hello"


async def test_reading_gives_other_work_its_turn() -> None:
    """A large document is decoded beside the event loop."""
    many = [entry(f"e{number}") for number in range(9_000)]
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with site_of({PATH: many}) as (_, url):
        ticking = asyncio.create_task(tick())
        found = await read(url)
        ticking.cancel()
    assert len(found.found) == 9_000
    assert ticks > 20
