"""The agents of a session: own ones, those of catalogues, those that are added, and what is shown of their cards."""

from __future__ import annotations

import pytest
from joserfc.jwk import ECKey
from starlette.responses import RedirectResponse, Response

from parley.client.options import Timeouts
from parley.console.agents import card_report, catalogs, connection
from parley.console.settings import ConsoleSettings
from parley.host.remote.config import RemoteAgentConfig, RemoteAgents
from parley.server.app import App
from parley.server.pages.signer import Signer
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.console.consoles import Browser, console_of, console_of_host
from tests.console.foreign_agents import CARD_PATH, added, agent_elsewhere, card, details, foreign_server, hang
from tests.server.serving import echo_agent, running

pytestmark = pytest.mark.anyio


def secured() -> Security:
    return Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret("t-ada"))])})


async def test_own_agents_are_listed_with_the_path_that_the_browser_calls() -> None:
    async with console_of(echo_agent("One"), echo_agent("Two")) as server:
        browser = await server.browser()
        listed = (await browser.get("/console/api/agents")).json()
        assert listed["sources"] == []
        assert listed["agents"][0] == {
            "id": "one",
            "name": "One",
            "description": "Says what it hears",
            "kind": "own",
            "url": "/agents/one",
            "address": f"{server.url}/agents/one",
            "version": "1.0",
            "binding": "JSONRPC",
            "state": "ready",
            "error": None,
            "skills": listed["agents"][0]["skills"],
            "streams": True,
            "is_added": False,
        }
        found = (await browser.get("/console/api/agents?q=TWO")).json()["agents"]
        assert [one["id"] for one in found] == ["two"]


async def test_an_own_agent_is_shown_with_its_card_as_served_and_decoded() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        shown = await details(browser, "echo")
        served = (await browser.client.get(CARD_PATH, headers={"A2A-Version": "1.0"})).json()
        assert shown["raw"] == served
        assert shown["card"]["name"] == "Echo"
        assert shown["card_version"] == "1.0"
        assert shown["signature"] == {"state": "unsigned", "detail": "The card is not signed."}
        assert [one["is_used"] for one in shown["interfaces"]].count(True) == 1
        assert shown["login"] == {"is_required": False, "is_logged_in": False, "scheme": ""}


async def test_an_own_agent_behind_a_login_is_shown_to_those_who_have_logged_in() -> None:
    async with console_of(echo_agent(), security=secured()) as server:
        browser = await server.browser()
        assert (await browser.get("/console/api/agents")).status_code == 401
        reply = await browser.log_in(scheme="token", values={"token": "t-ada"})
        assert reply.status_code == 200, reply.text
        shown = await details(browser, "echo")
        assert shown["login"] == {"is_required": True, "is_logged_in": True, "scheme": ""}
        assert "t-ada" not in str(shown)


async def test_an_agent_of_a_host_is_shown_from_the_card_of_its_tenant() -> None:
    async with console_of_host() as server:
        assert server.host is not None
        _, token = await server.host.create_tenant("Acme")
        browser = await server.browser()
        reply = await browser.log_in(scheme=browser.session["schemes"][0]["name"], values={"token": token})
        assert reply.status_code == 200, reply.text
        listed = (await browser.get("/console/api/agents")).json()["agents"]
        assert "index" in [one["id"] for one in listed]
        shown = await details(browser, "index")
        assert shown["card"]["supportedInterfaces"][0]["url"].endswith("/v1/a2a/agents/index")
        assert token not in str(shown)


async def test_an_agent_is_added_by_url_called_and_removed() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        assert (agent["kind"], agent["name"], agent["state"], agent["is_added"]) == (
            "remote",
            "Elsewhere",
            "unknown",
            True,
        )
        assert agent["url"] == f"/console/remote/{agent['id']}"
        shown = await details(browser, agent["id"])
        assert (shown["agent"]["state"], shown["agent"]["version"], shown["agent"]["binding"]) == (
            "ready",
            "1.0",
            "JSONRPC",
        )
        assert shown["card"]["name"] == "Elsewhere"
        assert shown["problems"] == []
        gone = await browser.client.delete(f"/console/api/agents/{agent['id']}", headers=browser.headers)
        assert (gone.status_code, gone.json()) == (200, {})
        assert (await browser.get(f"/console/api/agents/{agent['id']}")).status_code == 404
        again = await browser.client.delete(f"/console/api/agents/{agent['id']}", headers=browser.headers)
        assert again.json()["error"]["code"] == "not_found"


async def test_the_agents_of_a_session_are_unknown_to_other_sessions() -> None:
    async with agent_elsewhere() as url, console_of(echo_agent()) as server:
        browser, other = await server.browser(), await server.browser()
        agent = await added(browser, url)
        assert all(one["id"] != agent["id"] for one in (await other.get("/console/api/agents")).json()["agents"])
        assert (await other.get(f"/console/api/agents/{agent['id']}")).status_code == 404
        reply = await other.post(agent["url"], {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")
        program = server.program()
        async with program:
            assert (await program.post("/console/api/agents", json={"url": url})).status_code == 501


async def test_a_server_of_several_agents_is_added_as_its_catalogue() -> None:
    async with (
        running(App(echo_agent("One"), echo_agent("Two"), drain_seconds=0.1)) as elsewhere,
        console_of(echo_agent()) as server,
    ):
        url = str(elsewhere.base_url).rstrip("/")
        browser = await server.browser()
        listed = (await browser.post("/console/api/agents", {"url": url})).json()
        found = {one["name"]: one for one in listed["agents"] if one["kind"] == "catalog"}
        assert sorted(found) == ["One", "Two"]
        (source,) = listed["sources"]
        assert (source["url"], source["error"], source["is_added"]) == (
            f"{url}/.well-known/ai-catalog.json",
            None,
            True,
        )
        shown = await details(browser, found["One"]["id"])
        assert shown["agent"]["state"] == "ready"
        removed = await browser.client.delete(f"/console/api/agents/{source['id']}", headers=browser.headers)
        assert removed.status_code == 200
        assert (await browser.get("/console/api/agents")).json()["sources"] == []


async def test_agents_and_catalogues_of_the_operator_are_there_for_every_session() -> None:
    async with (
        agent_elsewhere() as agent_url,
        running(App(echo_agent("One"), echo_agent("Two"), drain_seconds=0.1)) as catalog,
        console_of(
            echo_agent(), settings=ConsoleSettings(is_loopback=False, agents=(agent_url, str(catalog.base_url)))
        ) as server,
    ):
        browser = await server.browser()
        listed = (await browser.get("/console/api/agents")).json()
        assert {one["name"]: one["kind"] for one in listed["agents"]} == {
            "Echo": "own",
            "Elsewhere": "remote",
            "One": "catalog",
            "Two": "catalog",
        }
        for agent in listed["agents"]:
            assert (await details(browser, agent["id"]))["agent"]["state"] == "ready"


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9", "https://10.1.2.3/", "http://agents.example.com", "https://localhost", "https://[::1]"],
)
async def test_a_shared_console_calls_only_public_hosts_over_tls(url: str) -> None:
    async with console_of(echo_agent(), settings=ConsoleSettings(is_loopback=False)) as server:
        browser = await server.browser()
        reply = await browser.post("/console/api/agents", {"url": url})
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "agent_error")
        assert "The operator of this server can allow it" in reply.json()["error"]["message"]


async def test_a_shared_console_calls_hosts_that_the_operator_allows() -> None:
    settings = ConsoleSettings(is_loopback=False, allowed_hosts=("127.0.0.1",))
    async with agent_elsewhere() as url, console_of(echo_agent(), settings=settings) as server:
        browser = await server.browser()
        assert (await added(browser, url))["name"] == "Elsewhere"


@pytest.mark.parametrize("url", ["", "ftp://a.example", "not a url", "http://a.example/#x", "https://u:p@a.example"])
async def test_what_cannot_be_the_url_of_an_agent_is_refused(url: str) -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        reply = await browser.post("/console/api/agents", {"url": url})
        assert reply.status_code in (400, 502)
        assert reply.json()["error"]["path"] == "$.url"


async def test_a_url_with_neither_an_agent_nor_a_catalogue_is_not_added() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.pages[CARD_PATH] = lambda _: _reply(Response("<html>", 200))
        browser = await server.browser()
        reply = await browser.post("/console/api/agents", {"url": foreign.url})
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "agent_error")
        assert len((await browser.get("/console/api/agents")).json()["agents"]) == 1


async def _reply(response: Response) -> Response:
    return response


async def test_a_redirect_of_a_card_is_not_followed() -> None:
    async with foreign_server() as foreign, foreign_server() as inner, console_of(echo_agent()) as server:
        foreign.pages[CARD_PATH] = lambda _: _reply(RedirectResponse(f"{inner.url}{CARD_PATH}"))
        browser = await server.browser()
        reply = await browser.post("/console/api/agents", {"url": foreign.url})
        assert reply.json()["error"]["code"] == "agent_error"
        assert inner.requests == []


async def test_a_card_that_leads_into_the_private_network_is_shown_and_never_followed() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.card = card("http://10.0.0.7/internal")
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        shown = await details(browser, agent["id"])
        assert shown["agent"]["state"] == "unreachable"
        assert [one["is_fatal"] for one in shown["problems"]] == [True]
        assert "10.0.0.7" in shown["problems"][0]["message"]
        assert [one["is_used"] for one in shown["interfaces"]] == [False]
        reply = await browser.post(agent["url"], {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
        assert reply.json()["error"]["code"] == "agent_error"


async def test_a_card_that_is_not_valid_is_shown_raw_with_what_it_lacks() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        foreign.card = {"name": 7, "supportedInterfaces": []}
        shown = await details(browser, agent["id"])
        assert shown["card"] is None
        assert shown["raw"] == foreign.card
        assert shown["problems"][0]["is_fatal"] is True
        assert "it lacks description" in shown["problems"][0]["message"]
        assert shown["agent"]["state"] == "unreachable"


async def test_names_of_ten_kilobytes_and_control_characters_are_cut_and_shown_as_symbols() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.card = card(foreign.url, name="\u202ea\x1b[31m" + "n" * 10_000, description="d" * 100_000)
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        assert len(agent["name"]) <= 200
        assert len(agent["description"]) <= 2_000
        assert "\x1b" not in agent["name"]
        assert "\u202e" not in agent["name"]
        shown = await details(browser, agent["id"])
        assert len(shown["agent"]["name"]) <= 200


async def test_an_agent_that_hangs_is_given_up_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (card_report, catalogs, connection):
        monkeypatch.setattr(module, "TIMEOUTS", Timeouts(card=0.2))
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        foreign.pages[CARD_PATH] = hang
        shown = await details(browser, agent["id"])
        assert shown["agent"]["state"] == "unreachable"
        assert "within 0.2 seconds" in shown["agent"]["error"]


async def test_a_signature_by_a_key_of_the_agents_own_host_is_valid_and_a_forged_card_is_not() -> None:
    signer = Signer(ECKey.generate_key("P-256", {"kid": "k-1"}), "k-1")
    async with agent_elsewhere(signer=signer) as url, foreign_server() as foreign, console_of(echo_agent()) as server:
        browser = await server.browser()
        shown = await details(browser, (await added(browser, url))["id"])
        assert shown["signature"] == {
            "state": "valid",
            "detail": "Signed with the key k-1, which the agent's own host publishes.",
        }
        foreign.card = {**shown["raw"], "name": "Forged"}
        forged = await details(browser, (await added(browser, foreign.url))["id"])
        assert forged["signature"]["state"] == "invalid"


async def test_a_signature_by_a_key_of_another_host_is_reported_as_unknown() -> None:
    key = ECKey.generate_key("P-256", {"kid": "k-1"})
    signer = Signer(key, "k-1", jku="https://keys.example.com/jwks.json")
    async with agent_elsewhere(signer=signer) as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        shown = await details(browser, (await added(browser, url))["id"])
        assert shown["signature"] == {"state": "unknown_key", "detail": "The signer's key is not known."}


async def test_a_catalogue_that_hangs_does_not_hold_up_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "WAIT_SECONDS", 0.1)
    async with foreign_server() as foreign, foreign_server() as other:
        foreign.pages["/.well-known/ai-catalog.json"] = hang
        foreign.pages[CARD_PATH] = hang
        urls = (f"{foreign.url}/.well-known/ai-catalog.json", other.url)
        async with console_of(echo_agent(), settings=ConsoleSettings(agents=urls)) as server:
            browser = await server.browser()
            listed = (await browser.get("/console/api/agents")).json()["agents"]
            assert {one["address"] for one in listed} == {server.url, *urls}
            agent = next(one for one in listed if one["address"] == other.url)
            assert (await details(browser, agent["id"]))["agent"]["state"] == "ready"


async def test_the_remote_agents_of_a_tenant_are_those_of_its_catalogue() -> None:
    async with agent_elsewhere() as url:
        listed = {"Acme": {"far": RemoteAgentConfig("far", url)}}
        remote = RemoteAgents(tenants=listed, allow_private_hosts=("127.0.0.1",))
        async with console_of_host(remote_agents=remote) as server:
            assert server.host is not None
            browsers: list[Browser] = []
            for name in ("Acme", "Other"):
                _, token = await server.host.create_tenant(name)
                browser = await server.browser()
                scheme = browser.session["schemes"][0]["name"]
                assert (await browser.log_in(scheme=scheme, values={"token": token})).status_code == 200
                browsers.append(browser)
            replies = [(await browser.get("/console/api/agents")).json()["agents"] for browser in browsers]
            found = [[one for one in agents if one["kind"] == "catalog"] for agents in replies]
            assert [len(agents) for agents in found] == [1, 0]
            shown = await details(browsers[0], found[0][0]["id"])
            assert shown["card"]["name"] == "Elsewhere"
            assert (await browsers[1].get(f"/console/api/agents/{found[0][0]['id']}")).status_code == 404


async def test_a_browser_at_the_root_of_a_server_without_an_agent_there_is_led_to_the_console() -> None:
    async with console_of(echo_agent("One"), echo_agent("Two")) as server, server.program() as program:
        led = await program.get("/", headers={"Accept": "text/html,*/*"})
        assert (led.status_code, led.headers["location"]) == (307, "console/")
        assert len((await program.get("/")).json()["agents"]) == 2
    async with console_of_host() as server, server.program() as program:
        assert (await program.get("/", headers={"Accept": "text/html,*/*"})).headers["location"] == "console/"
        assert (await program.get("/")).status_code == 404
    async with console_of(echo_agent()) as server, server.program() as program:
        assert (await program.get("/", headers={"Accept": "text/html,*/*"})).status_code == 200
