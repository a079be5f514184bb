"""No route of the native API shows or changes anything of another tenant: to its callers, that does not exist.

The test goes through the table of routes, so a new route fails it until it is listed here.
"""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from parley import Agent
from parley.host.api.matching import AnyRoute
from parley.host.api.route import Auth
from parley.host.api.table import ROUTES
from parley.host.catalogue import GivenAgent
from parley.host.remote.config import RemoteAgents
from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.running_host import HostTenant, read_events, running_host

pytestmark = pytest.mark.anyio

MARK = "of-acme-only"
TENANT_ROUTES = [route for route in ROUTES if route.auth is Auth.TENANT]
WITH_ID = [route for route in TENANT_ROUTES if route.parameters and route.method != "PUT"]
"""A PUT makes what is not there."""
WITHOUT_ID = [route for route in TENANT_ROUTES if not route.parameters]

THIS_MACHINE = RemoteAgents(allow_private_hosts=("127.0.0.1",))
"""Settings with which a host may call itself."""

HELLO = {"message": "hi"}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/v1/agents/{id}"): {"name": "Mine", "role": "worker", "goal": "Works."},
    ("POST", "/v1/agents/{id}/chat"): HELLO,
    ("PUT", "/v1/agents/{id}/public"): {"public": True},
    ("POST", "/v1/agents/{id}/rollback"): {"version": 1},
    ("POST", "/v1/agents/{id}/pin"): {"version": 1},
    ("POST", "/v1/agents/{id}/draft"): {"name": "Draft", "role": "worker", "goal": "Works."},
    ("POST", "/v1/agents/{id}/stop"): {"reason": "mine"},
    ("POST", "/v1/access/tokens/{id}/rotate"): {"overlap_seconds": 60},
    ("PATCH", "/v1/conversations/{id}"): {"title": "mine"},
    ("POST", "/v1/conversations/{id}/messages"): HELLO,
    ("POST", "/v1/requests/{id}/messages"): HELLO,
    ("POST", "/v1/requests/{id}/answer"): HELLO,
    ("POST", "/v1/approvals/{id}"): {"decision": "deny"},
    ("PATCH", "/v1/queue/{id}"): {"priority": "high"},
    ("POST", "/v1/conversations/{id}/artifacts"): {"path": "x", "content": "mine"},
    ("PATCH", "/v1/schedules/{id}"): {"name": "mine"},
    ("PUT", "/v1/mcp/servers/{id}"): {"url": "https://mcp.invalid/mine"},
}
"""What is sent to routes with an id in their paths."""

REFUSED = {
    ("POST", "/v1/requests/{id}/answer"): 409,
    ("POST", "/v1/admin/tenants/import"): 400,
    ("GET", "/.well-known/oauth-protected-resource"): 404,
}
"""Routes that refuse: the request of `fill` asks nothing, there is no file to import, and no issuer to name."""

QUERIES = {"/v1/memory/search": {"q": MARK}, "/v1/schedules/preview": {"cron": "@yearly"}}

NAMING_FOREIGN_THINGS: dict[tuple[str, str], Any] = {
    ("POST", "/v1/orchestrate"): {**HELLO, "agent": MARK},
    ("POST", "/v1/requests"): {**HELLO, "agent": MARK},
    ("POST", "/v1/conversations"): {"agent_id": MARK},
    ("POST", "/v1/memory/entries"): {"type": "user", "title": "x", "supersedes": [1]},
    ("POST", "/v1/memory/links"): {"source_id": 1, "relation": "refines", "target_id": 2},
    ("POST", "/v1/access/tokens"): {"name": "x", "account": MARK},
    ("POST", "/v1/schedules"): {"name": "x", "message": "x", "cron": "@daily", "agent_id": MARK},
}
"""Bodies without an id in the path that name what another tenant has. All are answered with 404."""

SAME_FOR_ALL = {"/v1/models", "/v1/schedules/preview"}
"""Routes without an id that show every tenant the same."""

CREATING_ITS_OWN = {
    ("POST", "/v1/agents"),
    ("POST", "/v1/catalog/agents"),
    ("POST", "/v1/catalog/sources"),
    ("POST", "/v1/stop"),
    ("POST", "/v1/resume"),
    ("PUT", "/v1/approval_rules"),
    ("PUT", "/v1/budgets"),
}
"""A tenant may give its agents the names that another tenant's have: see `test_two_tenants_may_use_one_name`."""


async def fill(acme: HostTenant) -> dict[str, str]:
    """Give a tenant one of everything. Returns the ids by the segment of the path that they belong to."""
    client = acme.client
    await client.post("/v1/agents", json=constitution(MARK))
    published = (await client.put(f"/v1/agents/{MARK}/public", json={"public": True})).json()
    far = {"url": f"{client.base_url}/v1/a2a/agents/{MARK}", "credentials": {"token": acme.token}, "name": "far"}
    assert (await client.post("/v1/catalog/agents", json=far)).status_code == 201
    far = {"url": str(client.base_url), "name": "far"}
    assert (await client.post("/v1/catalog/sources", json=far)).status_code == 201
    await client.post("/v1/agents", json=constitution("halted"))
    await client.post("/v1/agents/halted/stop", json={"reason": MARK})
    await client.post("/v1/schedules", json={"id": MARK, "name": MARK, "message": "x", "cron": "@yearly"})
    await client.put(f"/v1/mcp/servers/{MARK}", json={"url": "https://mcp.invalid/"})
    await client.post("/v1/conversations", json={"title": MARK})
    await client.post("/v1/conversations/1/artifacts", json={"path": MARK, "content": MARK})
    for title in (MARK, "second"):
        await client.post("/v1/memory/entries", json={"type": "user", "title": title})
    await client.post("/v1/memory/links", json={"source_id": 1, "relation": "supports", "target_id": 2})
    await client.post("/v1/conversations", json={"title": MARK})
    path = "/v1/conversations/2/messages"
    events = await read_events(client, "POST", path, json={"message": f"wait {MARK}"}, until="text")
    request_id = event_named(events, "request_received")["request_id"]
    await read_events(client, "POST", "/v1/orchestrate", json=HELLO)
    rules = {"rules": [{"on": "tool", "match": [MARK]}]}
    await client.put("/v1/approval_rules", json=rules)
    costly = constitution("costly", approvals=[{"on": "spend", "above_tokens": 1}])
    await read_events(client, "POST", "/v1/orchestrate", json={**HELLO, "agent_def": costly})
    (approval,) = (await client.get("/v1/approvals")).json()["approvals"]
    waiting = await read_events(client, "POST", path, json={"message": f"wait {MARK}"}, until="queued")
    await client.put(f"/v1/access/roles/{MARK}", json={"scopes": ["read"]})
    await client.put(f"/v1/access/accounts/{MARK}", json={"role": "viewer"})
    token = (await client.post("/v1/access/tokens", json={"name": MARK, "role": "viewer"})).json()
    await client.put("/v1/budgets", json={"tenant": {"day": {"tokens": 10**9}}})
    return {
        "tokens": token["id"],
        "roles": MARK,
        "accounts": MARK,
        "agents": MARK,
        "catalog": "far",
        "public": published["card_url"].split("/")[-2],
        "mcp": MARK,
        "schedules": MARK,
        "conversations": "1",
        "artifacts": "1",
        "memory": "1",
        "requests": request_id,
        "approvals": approval["id"],
        "queue": event_named(waiting, "request_received")["request_id"],
    }


def id_in(route: AnyRoute, ids: dict[str, str]) -> str:
    """The id that belongs into the path of a route."""
    _, _, topic, *rest = route.path.split("/")
    return ids[rest[0] if topic == "access" else topic]


async def everything(client: httpx2.AsyncClient) -> list[str]:
    """All that a tenant can read without knowing an id."""
    return [
        (await client.get(route.path, params=QUERIES.get(route.path))).text
        for route in WITHOUT_ID
        if route.method == "GET"
    ]


async def call(client: httpx2.AsyncClient, route: AnyRoute, ids: dict[str, str]) -> tuple[int, str]:
    """The status and the body of a call, with the id in it replaced."""
    wanted = id_in(route, ids)
    path = route.plain_path.replace("{id}", wanted).replace("{version}", "1")
    reply = await client.request(route.method, path, json=BODIES.get((route.method, route.plain_path)))
    return reply.status_code, reply.text.replace(wanted, "<id>")


async def test_ids_of_another_tenant_are_as_unknown_as_ids_that_never_were() -> None:
    async with running_host(models=echo_models(), remote_agents=THIS_MACHINE) as running:
        acme, globex = running.acme, running.globex.client
        never = {
            "agents": "never",
            "catalog": "never",
            "mcp": "never",
            "schedules": "never",
            "conversations": "77",
            "artifacts": "77",
            "memory": "77",
            "requests": "f" * 16,
            "approvals": "f" * 20,
            "queue": "f" * 16,
            "tokens": "never",
            "roles": "never",
            "accounts": "never",
        }
        empty = await everything(globex)
        ids = await fill(acme)
        full = await everything(acme.client)
        reads = [route.path for route in WITHOUT_ID if route.method == "GET"]
        assert {path for path, mine, theirs in zip(reads, full, empty, strict=True) if mine == theirs} == SAME_FOR_ALL
        for route in WITH_ID:
            status, body = await call(globex, route, ids)
            assert status == 404, route.path
            assert (status, body) == await call(globex, route, never), route.path
        for route in WITHOUT_ID:
            key = (route.method, route.path)
            if route.method != "GET" and key not in CREATING_ITS_OWN:
                reply = await globex.request(*key, json=NAMING_FOREIGN_THINGS[key])
                assert reply.status_code == 404, route.path
        assert await everything(globex) == empty
        assert await everything(acme.client) == full


def ends_what_others_need(route: AnyRoute) -> int:
    """Routes that end or delete something come after those that need it, and conversations with their files last."""
    if route.method == "DELETE":
        of_agent = route.path.endswith(("/pin", "/draft"))
        return 2 if of_agent else 4 if "conversations" in route.path else 3
    if route.path.endswith(("/stop", "/resume")):
        return 2
    return 1 if route.path.endswith(("/cancel", "/invalidate")) else 0


async def test_every_route_with_an_id_answers_its_owner() -> None:
    """Otherwise the test above would show nothing: the owner might get 404 as well."""
    async with running_host(models=echo_models(), remote_agents=THIS_MACHINE) as running:
        ids = await fill(running.acme)
        for route in sorted(WITH_ID, key=ends_what_others_need):
            path = route.plain_path.replace("{id}", id_in(route, ids)).replace("{version}", "1")
            body = BODIES.get((route.method, route.plain_path))
            async with running.acme.client.stream(route.method, path, json=body) as reply:
                wanted = REFUSED.get((route.method, route.plain_path), 200)
                assert reply.status_code in (wanted, 201, 202), (route.method, path)  # a stream is not read to its end


async def test_two_tenants_may_use_one_name() -> None:
    async with running_host(models=echo_models()) as running:
        for tenant in (running.acme, running.globex):
            reply = await tenant.client.post("/v1/agents", json=constitution(goal=f"Serves {tenant.id}."))
            assert reply.status_code == 201
        assert (await running.acme.client.delete("/v1/agents/writer")).status_code == 200
        assert (await running.globex.client.get("/v1/agents/writer")).json()["goal"] == "Serves 2."
        events = await read_events(running.globex.client, "POST", "/v1/agents/writer/chat", json=HELLO)
        assert event_named(events, "done")["content"] == "writer heard hi"


async def test_an_agent_that_is_given_to_one_tenant_is_unknown_to_others() -> None:
    agent = Agent("Private", id="private", description="For one tenant.")
    agent.on_message(lambda turn: turn.text)
    async with running_host(given_agents=(GivenAgent(agent, "1"),)) as running:
        assert (await running.acme.client.get("/v1/agents/private")).status_code == 200
        for method, path in (("GET", "/v1/agents/private"), ("POST", "/v1/agents/private/chat")):
            reply = await running.globex.client.request(method, path, json=HELLO)
            assert (reply.status_code, reply.json()) == (404, {"error": "no agent 'private' for this tenant"})
