"""The console of a host: links that log in once, tenants and operators, and several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest

from parley.cluster.hints import LocalHints
from parley.console.backend import ConsoleCaller, OwnerFilter
from parley.console.settings import ConsoleSettings
from parley.console.streams import elsewhere
from parley.engine.limits import Limits
from parley.host.access.principal import Principal
from parley.host.data.roles import Grant
from parley.server.run import Serving
from parley.server.security.credentials import Identity
from parley.stores.interface import Owner, PutRecord, RecordKey
from tests.console.consoles import ADMIN_TOKEN, Browser, ConsoleServer, console_of_host, streaming
from tests.host.stores import MemoryDatabase, MemoryStore
from tests.server.serving import send

pytestmark = pytest.mark.anyio

INDEX = "/v1/a2a/agents/index"
EAGER = ConsoleSettings(recheck_seconds=0, heartbeat_seconds=0.05)


async def tenant_of(server: ConsoleServer, name: str = "acme") -> tuple[str, str]:
    """A new tenant: its id and its token."""
    assert server.host is not None
    tenant, token = await server.host.create_tenant(name)
    return tenant.id, token


def error_of(reply: httpx2.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


# --- links ------------------------------------------------------------------------------------------------------------


async def test_a_link_logs_in_as_the_tenant_once_and_its_token_ends_with_the_session() -> None:
    async with console_of_host() as server:
        assert server.host is not None
        tenant, _ = await tenant_of(server)
        code = await server.console.create_link(None)
        browser, thief = await server.browser(), await server.browser()
        assert (await browser.log_in(once=code)).status_code == 200
        assert browser.session["caller"] == {
            "name": "acme",
            "tenant": tenant,
            "tenant_name": "acme",
            "scopes": ["approve", "audit", "call", "manage", "read"],
            "is_operator": False,
        }
        stolen = await thief.log_in(once=code)
        assert error_of(stolen) == (401, "unauthenticated")
        assert "used before, or is older than ten minutes" in stolen.json()["error"]["message"]
        assert not (await thief.load())["is_logged_in"]
        assert (await browser.get("/v1/agents")).json()["count"] > 0
        (token,) = await server.host.access_tokens.list(tenant)
        assert (token.name, token.created_by) == ("Console link", "console")
        await browser.post("/console/api/session/logout", {})
        assert await server.host.access_tokens.list(tenant) == []


async def test_a_link_with_the_wrong_tenant_leaves_no_token_behind() -> None:
    async with console_of_host() as server:
        assert server.host is not None
        tenant, _ = await tenant_of(server)
        browser = await server.browser()
        refused = await browser.log_in(once=await server.console.create_link(None), tenant="other")
        assert refused.status_code in (401, 404)
        assert await server.host.access_tokens.list(tenant) == []


async def test_an_old_link_is_refused() -> None:
    async with console_of_host() as server:
        await tenant_of(server)
        code = await server.console.create_link(None)
        records = server.app.store.records
        (link,) = await records.list("console-links", "", limit=10)
        await records.write(PutRecord(link.key, link.value, sort=1))
        browser = await server.browser()
        assert error_of(await browser.log_in(once=code)) == (401, "unauthenticated")


async def test_an_operator_gets_new_links_and_tenants_get_none() -> None:
    async with console_of_host() as server:
        first, token = await tenant_of(server)
        second, _ = await tenant_of(server, "globex")
        links = "/console/api/links"
        async with server.program(Authorization=f"Bearer {ADMIN_TOKEN}") as operator:
            reply = await operator.post(links, json={"tenant": second})
            assert reply.status_code == 201
            url, _, code = reply.json()["url"].partition("#once=")
            assert url == f"{server.url}/console/"
            assert error_of(await operator.post(links, json={"tenant": "99"})) == (404, "not_found")
        browser = await server.browser()
        await browser.log_in(once=code)
        assert browser.session["caller"]["tenant"] == second
        assert error_of(await browser.post(links, {"tenant": first})) == (403, "forbidden")
        async with server.program(Authorization=f"Bearer {token}") as tenant:
            assert error_of(await tenant.post(links, json={})) == (403, "forbidden")


# --- tenants ----------------------------------------------------------------------------------------------------------


async def test_a_session_of_a_tenant_that_is_disabled_is_refused_and_its_stream_ends() -> None:
    async with console_of_host(settings=EAGER) as server:
        assert server.host is not None
        tenant, token = await tenant_of(server)
        browser = await server.browser()
        await browser.log_in_with(token)
        page = await browser.page()
        await page.open("c1", "a2a", url=INDEX, request=streaming("hello"))
        assert (await page.rest_of("c1"))[-1] == {"channel": "c1", "end": True}
        await server.host.tenants.update(tenant, disabled=True)
        assert (await browser.get("/v1/agents")).status_code == 401
        assert (await browser.post(INDEX, send("hello", message_id="m-2"))).status_code == 401
        assert error_of(await browser.post("/console/api/session/tenant", {})) == (401, "unauthenticated")
        assert await page.rest() == []
        assert not (await browser.load())["is_logged_in"]
        await server.host.tenants.update(tenant, disabled=False)
        assert (await browser.load())["is_logged_in"]


async def test_a_token_that_is_revoked_ends_the_stream_of_its_session() -> None:
    async with console_of_host(settings=EAGER) as server:
        assert server.host is not None
        tenant, _ = await tenant_of(server)
        owner = Principal("test", tenant)
        kept, token = await server.host.access_tokens.create("laptop", Grant(role="caller"), by=owner)
        browser = await server.browser()
        await browser.log_in_with(token)
        assert browser.session["caller"]["scopes"] == ["call", "read"]
        page = await browser.page()
        await server.host.access_tokens.revoke(kept.id, by=owner)
        assert await page.rest() == []
        assert (await browser.get("/v1/agents")).status_code == 401


async def test_tenants_do_not_see_one_another() -> None:
    async with console_of_host() as server:
        _, token = await tenant_of(server)
        second, _ = await tenant_of(server, "globex")
        browser = await server.browser()
        await browser.log_in_with(token)
        assert error_of(await browser.post("/console/api/session/tenant", {"tenant": second})) == (403, "forbidden")
        named = {**browser.headers, "Parley-Tenant": second}
        reply = await browser.client.get("/v1/agents", headers=named)
        assert "globex" not in reply.text


async def test_a_page_hears_how_many_approvals_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.console.streams.approvals_channel.LOOK_SECONDS", 0.01)
    async with console_of_host() as server:
        assert server.host is not None
        tenant, token = await tenant_of(server)
        browser, operator = await server.browser(), await server.browser()
        await browser.log_in_with(token)
        page = await browser.page()
        await page.open("c1", "approvals")
        assert (await page.frame("c1"))["data"] == {"waiting": 0}
        key = RecordKey("approvals_pending", tenant, "a-1")
        await server.host.records.write(PutRecord(key, {}))
        assert (await page.frame("c1"))["data"] == {"waiting": 1}
        await operator.log_in_with(ADMIN_TOKEN)
        page = await operator.page()
        await page.open("c1", "approvals")
        assert (await page.frame("c1"))["data"] == {"waiting": 0}


# --- operators --------------------------------------------------------------------------------------------------------


async def test_an_operator_acts_for_a_tenant_over_a2a_and_the_native_api() -> None:
    async with console_of_host() as server:
        tenant, _ = await tenant_of(server)
        browser = await server.browser()
        await browser.log_in_with(ADMIN_TOKEN)
        assert browser.session["caller"]["is_operator"]
        assert browser.session["caller"]["tenant"] == ""
        assert (await browser.get("/v1/admin/tenants")).status_code == 200
        assert (await browser.post(INDEX, send("hello", message_id="m"))).status_code == 401
        choice = "/console/api/session/tenant"
        assert error_of(await browser.post(choice, {"tenant": "77"})) == (404, "not_found")
        chosen = (await browser.post(choice, {"tenant": tenant})).json()
        assert (chosen["caller"]["tenant_name"], chosen["caller"]["is_operator"]) == ("acme", True)
        assert (await browser.get("/v1/agents")).json()["count"] > 0
        assert (await browser.get("/v1/admin/tenants")).status_code == 200
        answer = (await browser.post(INDEX, send("hello", message_id="m"))).json()
        assert "result" in answer, answer
        nobody = (await browser.post(choice, {"tenant": None})).json()
        assert nobody["caller"]["tenant"] == ""
        assert (await browser.get("/v1/agents")).status_code == 401


async def test_an_operator_who_disables_the_tenant_goes_on_as_operator() -> None:
    async with console_of_host() as server:
        tenant, _ = await tenant_of(server)
        browser = await server.browser()
        await browser.log_in_with(ADMIN_TOKEN)
        await browser.post("/console/api/session/tenant", {"tenant": tenant})
        path = f"/v1/admin/tenants/{tenant}"
        reply = await browser.client.patch(path, json={"disabled": True}, headers=browser.headers)
        assert reply.status_code == 200
        assert (await browser.load())["caller"]["tenant"] == ""
        assert (await browser.post(INDEX, send("hello", message_id="m"))).status_code == 401
        assert (await browser.get("/v1/admin/tenants")).status_code == 200


async def test_an_operator_sees_the_tasks_of_all_tenants_and_a_tenant_only_its_own() -> None:
    async with console_of_host() as server:
        tenant, _ = await tenant_of(server)
        backend = server.console.backend
        name = f"bearer:{tenant}"
        member = ConsoleCaller(identity=Identity(name, tenant=tenant), name="acme", tenant=tenant)
        operator = ConsoleCaller(identity=Identity("operator"), name="operator", is_operator=True)
        own, other = Owner(tenant, name), Owner("77", "bearer:77")
        assert [backend.owners(member).admits(one) for one in (own, other)] == [True, False]
        assert [backend.owners(operator).admits(one) for one in (own, other)] == [True, True]
        assert backend.owners(member).within("77") is None
        assert backend.owners(operator).within("77") == OwnerFilter("77", None)
        ids = {agent.id: agent for agent in backend.agents(member)}
        assert ids["index"].path == INDEX
        assert ids["index"].program_id == f"{tenant}/index"
        assert backend.agents(operator) == ()
        found = backend.agent_of_program(f"{tenant}/index", tenant)
        assert found is not None
        assert found.name == "index"
        assert backend.agent_of_program("77/index", tenant) is None
        assert (backend.tenant_name(tenant), backend.tenant_name("77")) == ("acme", "77")


# --- replicas ---------------------------------------------------------------------------------------------------------

HOST_NAME = "console.example"


@asynccontextmanager
async def replicas(*, has_hints: bool = True) -> AsyncGenerator[tuple[ConsoleServer, ConsoleServer]]:
    """Two processes of one host, as a balancer shows them: under one name."""
    database, hints = MemoryDatabase(), LocalHints() if has_hints else None
    serving = Serving(port=0, allowed_hosts=(HOST_NAME,))
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                console_of_host(
                    store=MemoryStore(database),
                    serving=serving,
                    settings=EAGER,
                    options={"hints": hints, "engine_limits": Limits(poll_seconds=0.1)},
                )
            )
            for _ in range(2)
        ]
        yield servers[0], servers[1]


async def balanced(one: ConsoleServer, two: ConsoleServer) -> tuple[Browser, Browser]:
    """One browser that has logged in, whose requests reach the first and the second process."""
    _, token = await tenant_of(one)
    first = await one.browser(is_loaded=False)
    first.client.headers["Host"] = HOST_NAME
    await first.load()
    await first.log_in_with(token)
    second = one.same_cookies(first, two.url)
    second.client.headers["Host"] = HOST_NAME
    second.client.cookies = first.client.cookies
    return first, second


async def test_replicas_share_sessions_and_their_ends() -> None:
    async with replicas() as (one, two):
        first, second = await balanced(one, two)
        assert (await second.get("/v1/agents")).json()["count"] > 0
        page = await first.page()
        await second.post("/console/api/session/logout", {})
        assert await page.rest() == []
        assert (await first.get("/v1/agents")).status_code == 401


@pytest.mark.parametrize("has_hints", [True, False])
async def test_a_channel_is_opened_and_closed_through_any_replica(has_hints: bool) -> None:
    async with replicas(has_hints=has_hints) as (one, two):
        first, second = await balanced(one, two)
        page = await first.page()
        path = f"/console/api/stream/{page.id}"
        body = {"channel": "c1", "kind": "a2a", "url": INDEX, "request": streaming("hello")}
        assert (await second.post(f"{path}/open", body)).json() == {}
        frames = await page.rest_of("c1")
        assert len(frames) > 1
        assert frames[-1] == {"channel": "c1", "end": True}
        assert (await second.post(f"{path}/close", {"channel": "c2"})).json() == {}
        await second.post(f"{path}/open", {**body, "channel": "c3"})
        await page.rest_of("c3")
        stranger = await two.browser(is_loaded=False)
        stranger.client.headers["Host"] = HOST_NAME
        await stranger.load()
        await stranger.log_in_with(ADMIN_TOKEN)
        assert error_of(await stranger.post(f"{path}/open", body)) == (404, "not_found")
        await page.vanish()
        records = one.app.store.records
        while await records.count(elsewhere.PAGES, "") or await records.count(elsewhere.REQUESTS, page.id):
            await asyncio.sleep(0)
        assert error_of(await second.post(f"{path}/open", body)) == (404, "not_found")


async def test_what_pages_ask_another_replica_for_cannot_be_read_in_the_store() -> None:
    async with replicas(has_hints=False) as (one, two):
        first, second = await balanced(one, two)
        page = await first.page()
        written = list[Any]()
        records = two.app.store.records
        original = records.write

        async def write(*changes: Any) -> None:
            written.extend(changes)
            await original(*changes)

        records.write = write
        body = {"channel": "c1", "kind": "a2a", "url": INDEX, "request": streaming("a secret question")}
        await second.post(f"/console/api/stream/{page.id}/open", body)
        assert any(isinstance(change, PutRecord) for change in written)
        assert "secret question" not in repr(written)
        await page.rest_of("c1")
