"""The AI Catalog of an app: all its agents, with what their public cards say."""

from __future__ import annotations

from typing import Any

import pytest

from parley import Agent
from parley.ai_catalog.model import CATALOG_TYPE
from parley.server.app import App
from parley.server.pages import catalog
from tests.ai_catalog.schema import check_catalog
from tests.server.serving import echo_agent, running

pytestmark = pytest.mark.anyio

PATH = "/.well-known/ai-catalog.json"


async def test_an_app_lists_its_agents_as_they_come_and_go() -> None:
    app = App(echo_agent("One"), echo_agent("Two"))
    async with running(app) as client:
        first = await client.get(PATH)
        assert (first.status_code, first.headers["content-type"]) == (200, CATALOG_TYPE)
        check_catalog(first.json())
        for entry in first.json()["entries"]:
            card = (await client.get(entry["url"])).json()
            shown = ("displayName", "description", "version")
            assert [entry[name] for name in shown] == [card["name"], card["description"], card["version"]]
        known = {"if-none-match": first.headers["etag"]}
        assert (await client.get(PATH, headers=known)).status_code == 304
        assert (await client.head(PATH)).content == b""
        assert (await client.post(PATH)).status_code == 405
        app.add(echo_agent("Three"))
        app.remove("one")
        changed = await client.get(PATH, headers=known)
        assert [entry["displayName"] for entry in changed.json()["entries"]] == ["Three", "Two"]


async def test_skills_that_are_not_public_are_not_listed() -> None:
    agent = Agent("Agent", description="Has a secret.")

    @agent.skill(tags=["open"])
    def open(turn: Any) -> str:
        """For everyone."""
        return "open"

    @agent.skill(tags=["hidden"], public=False)
    def hidden(turn: Any) -> str:
        """For some."""
        return "hidden"

    async with running(App(agent)) as client:
        (entry,) = (await client.get(PATH)).json()["entries"]
        assert (entry["tags"], entry["metadata"], "hidden" in str(entry)) == (["open"], {"skills": ["open"]}, False)


async def test_many_agents_are_listed_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = dict(catalog.catalog_document.__kwdefaults__ or {})
    monkeypatch.setattr(catalog.catalog_document, "__kwdefaults__", {**defaults, "page_entries": 2})
    async with running(App(*[echo_agent(f"Agent {number}") for number in range(3)])) as client:
        pages = (await client.get(PATH)).json()["entries"]
        listed = [(await client.get(page["url"])).json() for page in pages]
        assert [len(page["entries"]) for page in listed] == [2, 1]
        for page in ("3", "0", "-1", "x", "99999999999"):
            assert (await client.get(PATH, params={"page": page})).status_code == 404
