"""Checks that pages start: of own agents, of agents elsewhere, their progress, reports and end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from parley.console.checks import records as records_module
from parley.console.checks.checks import Checks
from parley.console.checks.records import COLLECTION
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.console.consoles import Browser, console_of, console_of_host
from tests.console.foreign_agents import added, agent_elsewhere, foreign_server, hang
from tests.server.serving import echo_agent

pytestmark = pytest.mark.anyio

QUICK = ["G1.16", "G1.7"]


async def started(browser: Browser, agent: str, **body: Any) -> str:
    reply = await browser.post("/console/api/checks", {"agent": agent, "only": QUICK, **body})
    assert reply.status_code == 200, reply.text
    return reply.json()["check"]


async def report_of(browser: Browser, check: str) -> dict[str, Any]:
    page = await browser.page()
    await page.open("k", "check", check=check)
    frames = await page.rest_of("k")
    assert frames[-1].get("end") is True, frames[-1]
    await page.vanish()
    return frames[-2]["data"]["report"]


def secured() -> Security:
    return Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret("t-ada"))])})


async def test_an_own_agent_is_checked_and_its_report_is_that_of_the_command() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        check = await started(browser, "echo")
        page = await browser.page()
        await page.open("k", "check", check=check)
        frames = await page.rest_of("k")
        assert set(frames[0]["data"]["progress"]) == {"endpoint", "case", "done"}
        report = frames[-2]["data"]["report"]
        assert report["agent"] == "Echo"
        assert report["counts"]["failed"] == 0
        assert report["counts"]["passed"] > 0
        assert {finding["rule"] for finding in report["findings"]} <= set(QUICK)
        shown = (await browser.get(f"/console/api/checks/{check}")).json()
        assert (shown["state"], shown["report"], shown["error"]) == ("done", report, None)
        (row,) = (await browser.get("/console/api/checks")).json()["checks"]
        assert (row["id"], row["agent"], row["agent_name"], row["state"]) == (check, "echo", "Echo", "done")
        assert row["counts"] == report["counts"]


async def test_a_page_that_looks_while_the_report_is_stored_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = records_module.CheckRecords.finish

    async def finish_slowly(*arguments: Any) -> None:
        await asyncio.sleep(0.5)  # several looks of the page later
        await finish(*arguments)

    monkeypatch.setattr(records_module.CheckRecords, "finish", finish_slowly)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        report = await report_of(browser, await started(browser, "echo"))
        assert report["counts"]["failed"] == 0


async def test_an_own_agent_behind_a_login_is_checked_as_the_caller() -> None:
    async with console_of(echo_agent(), security=secured()) as server:
        browser = await server.browser()
        assert (await browser.log_in(scheme="token", values={"token": "t-ada"})).status_code == 200
        report = await report_of(browser, await started(browser, "echo"))
        assert report["counts"]["passed"] > 0
        assert report["counts"]["failed"] == 0
        assert "t-ada" not in json.dumps(report)


async def test_an_agent_of_a_host_is_checked_as_its_tenant() -> None:
    async with console_of_host() as server:
        assert server.host is not None
        _, token = await server.host.create_tenant("Acme")
        browser = await server.browser()
        scheme = browser.session["schemes"][0]["name"]
        assert (await browser.log_in(scheme=scheme, values={"token": token})).status_code == 200
        report = await report_of(browser, await started(browser, "index"))
        assert report["counts"]["passed"] > 0, report
        assert token not in json.dumps(report)


async def test_an_agent_elsewhere_is_checked_with_the_sessions_login() -> None:
    async with agent_elsewhere(security=secured()) as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        login = {"scheme": "token", "values": {"token": "t-ada"}}
        assert (await browser.post(f"/console/api/agents/{agent['id']}/login", login)).status_code == 200
        report = await report_of(browser, await started(browser, agent["id"], versions=["1.0"], bindings=["JSONRPC"]))
        assert report["counts"]["passed"] > 0
        assert "t-ada" not in json.dumps(report)


async def test_one_check_of_a_session_runs_at_a_time_and_can_be_stopped() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser, other = await server.browser(), await server.browser()
        agent = await added(browser, foreign.url)
        foreign.answer = hang
        check = await started(browser, agent["id"])
        second = await browser.post("/console/api/checks", {"agent": agent["id"]})
        assert (second.status_code, second.json()["error"]["code"]) == (409, "conflict")
        assert (await other.get(f"/console/api/checks/{check}")).status_code == 404
        assert (await other.client.delete(f"/console/api/checks/{check}", headers=other.headers)).status_code == 404
        assert (await other.get("/console/api/checks")).json() == {"checks": []}
        page = await browser.page()
        await page.open("k", "check", check=check)
        stopped = await browser.client.delete(f"/console/api/checks/{check}", headers=browser.headers)
        assert (stopped.status_code, stopped.json()) == (200, {})
        last = (await page.rest_of("k"))[-1]
        assert last["error"]["code"] in ("agent_error", "not_found")
        assert (await browser.get(f"/console/api/checks/{check}")).status_code == 404


async def test_a_check_ends_with_its_session() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        foreign.answer = hang
        check = await started(browser, agent["id"])
        task = server.console.shared(Checks)._running[check].task  # pyright: ignore[reportPrivateUsage]
        assert task is not None
        assert (await browser.post("/console/api/session/logout", {})).status_code == 200
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        assert await server.app.store.records.list(COLLECTION, "", limit=10) == []


async def test_a_check_is_known_to_every_process_on_the_store() -> None:
    """Processes share the records of checks and nothing else, so other `Checks` on one store stand for another one."""
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        check = await started(browser, "echo")
        report = await report_of(browser, check)
        owner = (await server.console.shared(Checks)._records.all())[0].owner  # pyright: ignore[reportPrivateUsage]
        elsewhere = Checks(server.console)
        frames = [frame async for frame in elsewhere.follow(owner, check)]
        assert msgspec.json.decode(msgspec.json.encode(frames[-1]))["report"] == report
        # One that runs is stopped from there as well.
        agent = await added(browser, foreign.url)
        foreign.answer = hang
        hanging = await started(browser, agent["id"])
        task = server.console.shared(Checks)._running[hanging].task  # pyright: ignore[reportPrivateUsage]
        assert task is not None
        await elsewhere.stop(owner, hanging)
        await asyncio.wait([task], timeout=5)
        assert task.done()
        assert (await browser.get(f"/console/api/checks/{hanging}")).status_code == 404


async def test_a_check_whose_process_has_died_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "DEAD_SECONDS", -1.0)
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        foreign.answer = hang
        await started(browser, agent["id"])
        (row,) = (await browser.get("/console/api/checks")).json()["checks"]
        assert row["state"] == "failed"


async def test_a_check_of_an_agent_that_cannot_be_found_fails_with_the_reason() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        foreign.card = []
        check = await started(browser, agent["id"])
        page = await browser.page()
        await page.open("k", "check", check=check)
        last = (await page.rest_of("k"))[-1]
        assert last["error"]["code"] == "agent_error"
        shown = (await browser.get(f"/console/api/checks/{check}")).json()
        assert (shown["state"], shown["report"]) == ("failed", None)
        assert "card" in shown["error"]


async def test_a_bounded_number_of_reports_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MOST_OF_OWNER", 2)
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        checks: list[str] = []
        for _ in range(3):
            checks.append(await started(browser, "echo", only=["G1.7"]))
            await report_of(browser, checks[-1])
        listed = [row["id"] for row in (await browser.get("/console/api/checks")).json()["checks"]]
        assert listed == [checks[2], checks[1]]


@pytest.mark.parametrize(("format", "beginning"), [("json", b"{"), ("html", b"<!doctype html>"), ("junit", b"<?xml")])
async def test_reports_are_files_that_the_browser_saves(format: str, beginning: bytes) -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        check = await started(browser, "echo", only=["G1.7"])
        await report_of(browser, check)
        reply = await browser.get(f"/console/api/checks/{check}/report?format={format}")
        assert reply.content.startswith(beginning)
        assert reply.headers["content-disposition"].startswith("attachment; filename=")
        assert "sandbox" in reply.headers["content-security-policy"]
        assert (await browser.get(f"/console/api/checks/{check}/report?format=exe")).status_code == 400


async def test_the_rules_are_listed_as_reports_quote_them() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        rules = {rule["id"]: rule for rule in (await browser.get("/console/api/checks/rules")).json()["rules"]}
        assert rules["G1.7"] == {
            "id": "G1.7",
            "says": "The answer to a message is a task or a message.",
            "versions": ["1.0"],
            "unobservable": None,
        }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"agent": "nope"}, "not_found"),
        ({"agent": "echo", "only": ["X9"]}, "bad_request"),
        ({"agent": "echo", "message": ""}, "bad_request"),
        ({"agent": "echo", "timeout": 1e9}, "bad_request"),
        ({"agent": "echo", "bindings": ["SMTP"]}, "bad_request"),
        ({}, "bad_request"),
    ],
)
async def test_a_check_that_makes_no_sense_is_refused(body: dict[str, Any], code: str) -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        reply = await browser.post("/console/api/checks", body)
        assert reply.json()["error"]["code"] == code
