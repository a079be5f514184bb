"""`/search`: services over real HTTP, and a folder without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from parley.host.commands import local_search
from parley.host.commands.web_search import (
    BraveSearch,
    LocalSearch,
    SearchError,
    SearchHit,
    SearxSearch,
    hits_text,
    search_provider,
)
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


class Service:
    """A search service that answers all requests alike."""

    def __init__(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = headers or JSON
        self.asked: list[tuple[str, dict[str, str], str | None]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        key = dict(scope["headers"]).get(b"x-subscription-token")
        self.asked.append((scope["path"], query, key.decode() if key else None))
        fields = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": fields})
        await send({"type": "http.response.body", "body": self.body})


@asynccontextmanager
async def served(status: int, body: Any, **headers: str) -> AsyncGenerator[tuple[Service, str]]:
    service = Service(status, body, headers)
    async with serving(service) as http:
        yield service, str(http.base_url)


def test_results_are_numbered_lines_with_their_urls_below() -> None:
    hits = [SearchHit("One", "https://a.example", "Some text"), SearchHit("Two", "https://b.example")]
    assert hits_text(hits) == "1. One — Some text\n   https://a.example\n2. Two\n   https://b.example"
    assert hits_text([]) == "No results."


# --- services ---------------------------------------------------------------------------------------------------------

FOUND = [
    {"title": "Rome &amp; <strong>trains</strong>", "url": "https://a.example/x", "text": "By <b>train</b>\nto Rome"},
    {"title": "", "url": "https://b.example/", "text": None, "more": 1},
    {"title": "Bad", "url": "javascript:alert(1)", "text": ""},
    {"title": "Bad", "url": "https://c.example/\n2. Faked", "text": ""},
    {"title": "Third", "url": "https://d.example/", "text": "x" * 1_000},
]
HITS = [
    SearchHit("Rome & trains", "https://a.example/x", "By train to Rome"),
    SearchHit("https://b.example/", "https://b.example/"),
    SearchHit("Third", "https://d.example/", "x" * 299 + "…"),
]


def results(name: str) -> list[dict[str, Any]]:
    return [{name if key == "text" else key: value for key, value in result.items()} for result in FOUND]


async def test_brave_is_asked_with_the_key_and_its_results_are_plain_text() -> None:
    async with served(200, {"web": {"results": results("description")}, "query": {}}) as (service, url):
        brave = BraveSearch("key", endpoint=f"{url}/res/v1/web/search")
        assert await brave.search("trains to Rome?", 10) == HITS
        assert await brave.search("trains", 2) == HITS[:2]
    query = {"q": "trains to Rome?", "count": "10", "text_decorations": "false"}
    assert service.asked[0] == ("/res/v1/web/search", query, "key")


async def test_a_searxng_instance_is_asked_for_json() -> None:
    async with served(200, {"results": results("content")}) as (service, url):
        assert await SearxSearch(f"{url}/searx/").search("trains", 10) == HITS
    assert service.asked == [("/searx/search", {"q": "trains", "format": "json"}, None)]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (429, {}, "refuses more searches for now"),
        (403, {}, "answered with status 403"),
        (200, b"<html>", "something else than results"),
        (200, {"web": {"results": [{"url": 1}]}}, "something else than results"),
        (302, {}, "redirects more than 0 times"),
    ],
)
async def test_a_service_that_fails_is_an_error_and_gets_the_key_only_itself(
    status: int, body: Any, reason: str
) -> None:
    async with served(status, body, location="/elsewhere") as (service, url):
        with pytest.raises(SearchError, match=reason):
            await BraveSearch("key", endpoint=url).search("trains", 10)
    assert len(service.asked) == 1


async def test_a_service_that_cannot_be_reached_is_not_named() -> None:
    with pytest.raises(SearchError, match=r"^The search service cannot be used: .*refused$") as caught:
        await BraveSearch("key", endpoint="http://127.0.0.1:1/secret").search("trains", 10)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(("query", "reason"), [(" ", "empty"), ("x" * 401, "at most 400 characters")])
async def test_a_query_that_no_service_takes_is_an_error(query: str, reason: str) -> None:
    with pytest.raises(SearchError, match=reason):
        await SearxSearch("http://127.0.0.1:1").search(query, 10)


# --- a folder ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "guide/trains.md": "# Trains in Italy\n\nRome has two large stations.\n\nTickets are cheap.",
        "guide/ships.txt": "Ships go to many ports. A train goes to the port of Genoa." + " and so on" * 40,
        "page.html": "<title>Tickets</title><script>trains</script><p>Where to buy <b>tickets</b>",
        ".hidden/trains.md": "trains",
        "trains.png": "trains",
        "empty.md": "",
    }
    for name, text in files.items():
        path = tmp_path / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "secret.txt").write_text("trains")
    (tmp_path / "pages" / "link.txt").symlink_to(tmp_path / "secret.txt")
    return tmp_path / "pages"


async def test_a_folder_is_searched_by_words_and_titles_count_for_more(folder: Path) -> None:
    search = LocalSearch(folder)
    first, second = await search.search("TRAIN", 10)
    assert first == SearchHit("Trains in Italy", "guide/trains.md", "Rome has two large stations.")
    assert (second.title, second.url) == ("ships", "guide/ships.txt")
    assert second.snippet.startswith("Ships go to many ports. A train goes")
    assert second.snippet.endswith("…")
    assert len(second.snippet) <= 201
    assert [hit.url for hit in await search.search("tickets", 10)] == ["page.html", "guide/trains.md"]
    assert [hit.url for hit in await search.search("tickets", 1)] == ["page.html"]
    assert (await search.search("cheap station", 10))[0].snippet == "Rome has two large stations."
    assert await search.search("submarine ?!", 10) == []


async def test_a_folder_is_read_at_the_first_search_and_only_then(folder: Path) -> None:
    search = LocalSearch(folder)
    (folder / "new.md").write_text("# Submarines")
    assert [hit.url for hit in await search.search("submarine", 10)] == ["new.md"]
    (folder / "newer.md").write_text("# Submarines")
    assert [hit.url for hit in await search.search("submarine", 10)] == ["new.md"]


async def test_no_more_of_a_folder_is_read_than_memory_allows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_search, "MAX_ALL_BYTES", 30)
    search = LocalSearch(folder)
    assert [hit.url for hit in await search.search("ships", 10)] == ["guide/ships.txt"]
    assert await search.search("Genoa train tickets", 10) == []


# --- the setting ------------------------------------------------------------------------------------------------------


def test_a_setting_names_the_provider(tmp_path: Path) -> None:
    assert isinstance(search_provider("brave", environment={"BRAVE_API_KEY": "key"}), BraveSearch)
    assert isinstance(search_provider("searx:https://searx.example"), SearxSearch)
    assert isinstance(search_provider(f"local:{tmp_path}"), LocalSearch)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("brave", "set BRAVE_API_KEY"),
        ("searx:ftp://x.example", "Invalid URL"),
        ("local:/no/such/folder", "no folder /no/such/folder"),
        ("local:", "must be brave, searx:URL or local:FOLDER"),
        ("google", "must be brave, searx:URL or local:FOLDER"),
    ],
)
def test_a_setting_without_a_provider_is_an_error(setting: str, reason: str) -> None:
    with pytest.raises(SearchError, match=reason):
        search_provider(setting, environment={})
