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
from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.running_host import HostTenant, read_events, running_host

pytestmark = pytest.mark.anyio

MARK = "of-acme-only"
TENANT_ROUTES = [route for route in ROUTES if route.auth is Auth.TENANT]
WITH_ID = [route for route in TENANT_ROUTES if route.parameters]
WITHOUT_ID = [route for route in TENANT_ROUTES if not route.parameters]

HELLO = {"message": "hi"}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/v1/agents/{id}"): {"name": "Mine", "role": "worker", "goal": "Works."},
    ("POST", "/v1/agents/{id}/chat"): HELLO,
    ("PATCH", "/v1/conversations/{id}"): {"title": "mine"},
    ("POST", "/v1/conversations/{id}/messages"): HELLO,
    ("POST", "/v1/conversations/{id}/artifacts"): {"path": "x", "content": "mine"},
}
"""What is sent to routes with an id in their paths."""

QUERIES = {"/v1/memory/search": {"q": MARK}}

NAMING_FOREIGN_THINGS: dict[tuple[str, str], Any] = {
    ("POST", "/v1/orchestrate"): {**HELLO, "agent": MARK},
    ("POST", "/v1/conversations"): {"agent_id": MARK},
    ("POST", "/v1/memory/entries"): {"type": "user", "title": "x", "supersedes": [1]},
    ("POST", "/v1/memory/links"): {"source_id": 1, "relation": "refines", "target_id": 2},
}
"""Bodies without an id in the path that name what another tenant has. All are answered with 404."""

CREATING_ITS_OWN = {("POST", "/v1/agents")}
"""A tenant may give its agents the names that another tenant's have: see `test_two_tenants_may_use_one_name`."""


async def fill(acme: HostTenant) -> dict[str, str]:
    """Give a tenant one of everything. Returns the ids by the segment of the path that they belong to."""
    client = acme.client
    await client.post("/v1/agents", json=constitution(MARK))
    await client.post("/v1/conversations", json={"title": MARK})
    await client.post("/v1/conversations/1/artifacts", json={"path": MARK, "content": MARK})
    for title in (MARK, "second"):
        await client.post("/v1/memory/entries", json={"type": "user", "title": title})
    await client.post("/v1/memory/links", json={"source_id": 1, "relation": "supports", "target_id": 2})
    path = "/v1/conversations/1/messages"
    events = await read_events(client, "POST", path, json={"message": f"wait {MARK}"}, until="text")
    request_id = event_named(events, "request_received")["request_id"]
    return {"agents": MARK, "conversations": "1", "artifacts": "1", "memory": "1", "requests": request_id}


async def everything(client: httpx2.AsyncClient) -> list[str]:
    """All that a tenant can read without knowing an id."""
    return [
        (await client.get(route.path, params=QUERIES.get(route.path))).text
        for route in WITHOUT_ID
        if route.method == "GET"
    ]


async def call(client: httpx2.AsyncClient, route: AnyRoute, ids: dict[str, str]) -> tuple[int, str]:
    """The status and the body of a call, with the id in it replaced."""
    wanted = ids[route.path.split("/")[2]]
    path = route.plain_path.replace("{id}", wanted)
    reply = await client.request(route.method, path, json=BODIES.get((route.method, route.plain_path)))
    return reply.status_code, reply.text.replace(wanted, "<id>")


async def test_ids_of_another_tenant_are_as_unknown_as_ids_that_never_were() -> None:
    async with running_host(models=echo_models()) as running:
        acme, globex = running.acme, running.globex.client
        never = {"agents": "never", "conversations": "77", "artifacts": "77", "memory": "77", "requests": "f" * 16}
        empty = await everything(globex)
        ids = await fill(acme)
        full = await everything(acme.client)
        assert [mine == theirs for mine, theirs in zip(full, empty, strict=True)].count(True) == 1  # the models
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
        return 3 if "conversations" in route.path else 2
    return 1 if route.path.endswith(("/cancel", "/invalidate")) else 0


async def test_every_route_with_an_id_answers_its_owner() -> None:
    """Otherwise the test above would show nothing: the owner might get 404 as well."""
    async with running_host(models=echo_models()) as running:
        ids = await fill(running.acme)
        for route in sorted(WITH_ID, key=ends_what_others_need):
            path = route.plain_path.replace("{id}", ids[route.path.split("/")[2]])
            body = BODIES.get((route.method, route.plain_path))
            async with running.acme.client.stream(route.method, path, json=body) as reply:
                assert reply.status_code in (200, 201), (route.method, path)  # a stream is not read to its end


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
