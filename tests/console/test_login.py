"""Logging in at agents elsewhere: forms of every scheme, client credentials, device codes; and where secrets stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from starlette.responses import JSONResponse

from parley.client.credentials.origins import origin_of
from parley.console.agents.connections import RemoteConnections
from parley.console.agents.logins import logins_of
from parley.console.agents.pending import PendingLogins
from parley.console.session_cookie import SessionSecret
from parley.console.sessions import COLLECTION, Session
from parley.protocol.cards import ApiKeyLocation, OAuthFlow, OAuthFlows
from parley.server.security.authentication import Security
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.basic import BasicUser, BasicUsers, hash_password
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.openid import OpenIdConnect
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.console.consoles import Browser, ConsoleServer, console_of
from tests.console.foreign_agents import CARD_PATH, added, agent_elsewhere, card, details, foreign_server
from tests.server.authorization_server import (
    AUDIENCE,
    CLIENT,
    PUBLIC_CLIENT,
    AuthorizationServer,
    authorization_server,
)
from tests.server.serving import echo_agent, send

pytestmark = pytest.mark.anyio

SECRET = "s-3cret-of-ada"


def flows_of(issuer: AuthorizationServer, *names: str) -> OAuthFlows:
    url = issuer.url
    flows = {
        "client_credentials": OAuthFlow(token_url=f"{url}/token"),
        "device_code": OAuthFlow(token_url=f"{url}/token", device_authorization_url=f"{url}/device"),
        "authorization_code": OAuthFlow(
            token_url=f"{url}/token", authorization_url=f"{url}/authorize", scopes={"agent:call": "Call the agent"}
        ),
    }
    return OAuthFlows(**{name: flows[name] for name in names or flows})


def oauth_security(issuer: AuthorizationServer, *names: str) -> Security:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer, *names))
    return Security({"company": scheme}, [{"company": ("agent:call",)}])


async def logged_in(browser: Browser, agent: dict[str, Any], **body: Any) -> dict[str, Any]:
    reply = await browser.post(f"/console/api/agents/{agent['id']}/login", body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def works(browser: Browser, agent: dict[str, Any], message_id: str = "m-1") -> bool:
    reply = await browser.post(agent["url"], send("hello", message_id=message_id))
    return "result" in reply.json()


async def session_of(server: ConsoleServer, browser: Browser) -> Session:
    cookie = next(iter(browser.client.cookies.jar)).value
    assert cookie is not None
    secret = SessionSecret.from_text(cookie)
    assert secret is not None
    return await server.console.sessions.find(secret)


BEARER = Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret(SECRET))])})
BASIC = Security({"people": BasicUsers([BasicUser(name="ada", password=hash_password("pass word"))])})


def api_key(location: ApiKeyLocation) -> Security:
    keys = ApiKeys([StoredSecret(name="ada", hash=hash_secret(SECRET))], parameter="k", location=location)
    return Security({"key": keys})


@pytest.mark.parametrize(
    ("security", "scheme", "kind", "values", "wrong"),
    [
        (BEARER, "token", "http", {"token": SECRET}, {"token": "wrong"}),
        (
            BASIC,
            "people",
            "http",
            {"username": "ada", "password": "pass word"},
            {"username": "ada", "password": "wrong"},
        ),
        (api_key(ApiKeyLocation.HEADER), "key", "api_key", {"key": SECRET}, {"key": "wrong"}),
        (api_key(ApiKeyLocation.QUERY), "key", "api_key", {"key": SECRET}, {"key": "wrong"}),
        (api_key(ApiKeyLocation.COOKIE), "key", "api_key", {"key": SECRET}, {"key": "wrong"}),
    ],
    ids=["bearer", "basic", "header", "query", "cookie"],
)
async def test_a_form_logs_in_and_out_and_its_secret_is_nowhere_to_be_read(
    security: Security, scheme: str, kind: str, values: dict[str, str], wrong: dict[str, str]
) -> None:
    async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        shown = await details(browser, agent["id"])
        assert shown["agent"]["state"] == "needs_login"
        assert shown["login"] == {"is_required": True, "is_logged_in": False, "scheme": ""}
        assert [(one["name"], one["kind"], one["flow"]) for one in shown["schemes"]] == [(scheme, kind, "form")]
        assert not await works(browser, agent)
        refused = await browser.post(f"/console/api/agents/{agent['id']}/login", {"scheme": scheme, "values": wrong})
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "agent_error")
        assert "wrong" not in refused.text
        assert await logged_in(browser, agent, scheme=scheme, values=values) == {"state": "done"}
        assert await works(browser, agent, "m-2")
        after = await browser.get(f"/console/api/agents/{agent['id']}")
        assert after.json()["login"] == {"is_required": True, "is_logged_in": True, "scheme": scheme}
        assert after.json()["agent"]["state"] == "ready"
        secrets = [value for value in values.values() if value != "ada"]
        everything = after.text + (await browser.get("/console/api/agents")).text
        kept = await server.app.store.records.list(COLLECTION, "", limit=10)
        assert not any(secret in everything + str(kept) for secret in secrets)
        assert (await browser.post(f"/console/api/agents/{agent['id']}/logout", {})).json() == {}
        assert not await works(browser, agent, "m-3")


async def test_a_login_belongs_to_its_session_alone() -> None:
    async with agent_elsewhere(security=BEARER) as url, console_of(echo_agent()) as server:
        browser, other = await server.browser(), await server.browser()
        agent = await added(browser, url)
        await logged_in(browser, agent, scheme="token", values={"token": SECRET})
        assert await works(browser, agent)
        same = await added(other, url)
        assert same["id"] == agent["id"]
        assert not await works(other, same)
        assert (await details(other, same["id"]))["login"]["is_logged_in"] is False
        assert await works(browser, agent, "m-2")


async def test_a_login_is_sent_to_the_agents_origin_and_to_no_other() -> None:
    async with foreign_server() as foreign, foreign_server() as thief, console_of(echo_agent()) as server:
        scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
        security: dict[str, Any] = {
            "securitySchemes": {"b": scheme},
            "securityRequirements": [{"schemes": {"b": {"list": []}}}],
        }
        foreign.card = card(thief.url, **security)
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        await logged_in(browser, agent, scheme="b", values={"token": SECRET})
        assert not await works(browser, agent)
        assert SECRET not in json.dumps(thief.requests)


async def test_a_private_card_can_be_logged_in_for_before_it_is_known() -> None:
    async with foreign_server() as front, console_of(echo_agent()) as server:

        async def private(request: Any) -> JSONResponse:
            if request.headers.get("authorization") != f"Bearer {SECRET}":
                return JSONResponse({}, status_code=401)
            scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
            required: list[Any] = [{"schemes": {"company": {"list": []}}}]
            return JSONResponse(card(front.url, securitySchemes={"company": scheme}, securityRequirements=required))

        front.pages[CARD_PATH] = private
        browser = await server.browser()
        agent = await added(browser, front.url)
        shown = await details(browser, agent["id"])
        assert (shown["agent"]["state"], shown["card"]) == ("needs_login", None)
        assert [one["name"] for one in shown["schemes"]] == ["bearer", "basic"]
        await logged_in(browser, agent, scheme="bearer", values={"token": SECRET})
        assert (await details(browser, agent["id"]))["card"]["name"] == "Foreign"
        assert await works(browser, agent)
        assert front.requests[-1][1]["authorization"] == f"Bearer {SECRET}"


async def test_mutual_tls_is_unsupported_with_what_helps_instead() -> None:
    async with foreign_server() as foreign, console_of(echo_agent()) as server:
        foreign.card = card(foreign.url, securitySchemes={"tls": {"mtlsSecurityScheme": {}}})
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        (scheme,) = (await details(browser, agent["id"]))["schemes"]
        assert (scheme["kind"], scheme["flow"]) == ("mutual_tls", "unsupported")
        assert "parley proxy URL --cert" in scheme["reason"]
        reply = await browser.post(f"/console/api/agents/{agent['id']}/login", {"scheme": "tls"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (501, "unsupported")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"scheme": "nope"}, "$.scheme"),
        ({"scheme": "token"}, "$.values"),
        ({"scheme": "token", "values": {"token": "a\nb"}}, "$.values"),
        ({"scheme": "token", "values": {"token": "x" * 20_000}}, "$.values.token"),
        ({"scheme": "token", "values": {"token": 7}}, "$.values[...]"),
    ],
)
async def test_values_that_cannot_be_sent_are_refused_with_their_path(body: dict[str, Any], path: str) -> None:
    async with agent_elsewhere(security=BEARER) as url, console_of(echo_agent()) as server:
        browser = await server.browser()
        agent = await added(browser, url)
        reply = await browser.post(f"/console/api/agents/{agent['id']}/login", body)
        assert (reply.status_code, reply.json()["error"]["path"]) == (400, path), reply.text


# --- OAuth without a browser ------------------------------------------------------------------------------------------


async def test_client_credentials_get_a_token_which_is_renewed_and_kept() -> None:
    async with authorization_server() as issuer:
        security = oauth_security(issuer, "client_credentials")
        async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
            browser = await server.browser()
            agent = await added(browser, url)
            (scheme,) = (await details(browser, agent["id"]))["schemes"]
            assert (scheme["kind"], scheme["flow"], scheme["flows"]) == ("oauth2", "form", ["form"])
            values = {"client_id": CLIENT[0], "client_secret": CLIENT[1], "issuer": issuer.url}
            assert await logged_in(browser, agent, scheme="company", values=values) == {"state": "done"}
            assert await works(browser, agent)
            issuer.token_seconds = 0.0
            await logged_in(browser, agent, scheme="company", values=values)
            issuer.token_seconds = 60
            assert await works(browser, agent, "m-2")
            before = len(issuer.forms)
            await server.console.shared(RemoteConnections).drop(await session_of(server, browser), agent["id"])
            assert await works(browser, agent, "m-3")
            assert len(issuer.forms) == before, "The renewed token was not kept in the session"
            assert CLIENT[1] not in (await browser.get(f"/console/api/agents/{agent['id']}")).text


async def test_a_client_secret_does_not_go_to_a_server_that_only_the_card_names() -> None:
    async with authorization_server() as issuer, foreign_server() as foreign, console_of(echo_agent()) as server:
        flow: dict[str, Any] = {"clientCredentials": {"tokenUrl": f"{issuer.url}/token", "scopes": {}}}
        scheme: dict[str, Any] = {"oauth2SecurityScheme": {"flows": flow}}
        foreign.card = card(foreign.url, securitySchemes={"company": scheme})
        browser = await server.browser()
        agent = await added(browser, foreign.url)
        body = {"scheme": "company", "values": {"client_id": CLIENT[0], "client_secret": CLIENT[1]}}
        reply = await browser.post(f"/console/api/agents/{agent['id']}/login", body)
        assert reply.json()["error"]["code"] == "bad_request"
        assert issuer.forms == []
        assert CLIENT[1] not in reply.text


async def test_a_device_code_is_shown_and_polled_until_the_person_has_confirmed_it() -> None:
    async with authorization_server() as issuer:
        issuer.device_answers = ["authorization_pending", "slow_down"]
        security = oauth_security(issuer, "device_code")
        async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
            browser = await server.browser()
            agent = await added(browser, url)
            begun = await logged_in(browser, agent, scheme="company", values={"client_id": PUBLIC_CLIENT})
            assert begun == {
                "state": "device",
                "url": f"{issuer.url}/here?user_code=WDJB-MJHT",
                "code": "WDJB-MJHT",
                "interval": 1.0,
            }
            first = await logged_in(browser, agent, scheme="company", poll=True)
            assert first == {"state": "waiting", "interval": 1.0}
            forms = len(issuer.forms)
            assert (await logged_in(browser, agent, scheme="company", poll=True))["state"] == "waiting"
            assert len(issuer.forms) == forms, "It asked again before the interval was over"
            await _let_interval_pass(server, browser)
            assert await logged_in(browser, agent, scheme="company", poll=True) == {"state": "waiting", "interval": 6.0}
            await _let_interval_pass(server, browser)
            assert await logged_in(browser, agent, scheme="company", poll=True) == {"state": "done"}
            assert await works(browser, agent)
            over = await browser.post(f"/console/api/agents/{agent['id']}/login", {"scheme": "company", "poll": True})
            assert (over.status_code, over.json()["error"]["code"]) == (409, "conflict")


async def _let_interval_pass(server: ConsoleServer, browser: Browser) -> None:
    """Make the next poll due, instead of waiting for it."""
    session = await session_of(server, browser)

    def change(stored: PendingLogins | None) -> PendingLogins:
        assert stored is not None
        return PendingLogins(tuple(structs.replace(one, next_poll=0.0) for one in stored.logins))

    await session.update("pending-logins", PendingLogins, change)


async def test_a_person_who_declines_ends_the_login_of_a_device() -> None:
    async with authorization_server() as issuer:
        issuer.device_answers = ["access_denied"]
        async with (
            agent_elsewhere(security=oauth_security(issuer, "device_code")) as url,
            console_of(echo_agent()) as server,
        ):
            browser = await server.browser()
            agent = await added(browser, url)
            await logged_in(browser, agent, scheme="company", values={"client_id": PUBLIC_CLIENT})
            body = {"scheme": "company", "poll": True}
            reply = await browser.post(f"/console/api/agents/{agent['id']}/login", body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (502, "agent_error")
            assert "access_denied" in reply.json()["error"]["message"]
            assert not logins_of(await session_of(server, browser), origin_of(url))


async def test_openid_connect_is_discovered_from_the_url_in_the_card() -> None:
    async with authorization_server() as issuer:
        scheme = OpenIdConnect(issuer.url, AUDIENCE)
        security = Security({"people": scheme}, [{"people": ()}])
        async with agent_elsewhere(security=security) as url, console_of(echo_agent()) as server:
            browser = await server.browser()
            agent = await added(browser, url)
            (shown,) = (await details(browser, agent["id"]))["schemes"]
            assert (shown["kind"], shown["flow"], shown["flows"]) == (
                "openid",
                "redirect",
                ["redirect", "device", "form"],
            )
            values = {"client_id": PUBLIC_CLIENT}
            begun = await logged_in(browser, agent, scheme="people", values=values, flow="device")
            assert begun["code"] == "WDJB-MJHT"
            assert await logged_in(browser, agent, scheme="people", poll=True) == {"state": "done"}
            assert await works(browser, agent)
