"""The OpenAPI document of a host: it has every route of the table, and real replies are as it says."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from jsonschema import Draft202012Validator

from parley.host.api.event_schemas import EVENTS
from parley.host.api.matching import AnyRoute
from parley.host.api.openapi import document
from parley.host.api.route import Auth
from parley.host.api.table import ROUTES
from parley.host.host import AppOptions
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from tests.host.api_calls import constitution, echo_models
from tests.host.running_host import RunningHost, read_events, running_host
from tests.host.test_api_isolation import (
    BODIES,
    HELLO,
    QUERIES,
    REFUSED,
    THIS_MACHINE,
    WITH_ID,
    ends_what_others_need,
    fill,
    id_in,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
A2A = {
    ("GET", "/.well-known/agent-card.json"),
    ("POST", "/v1/a2a/agents/{id}"),
    ("GET", "/v1/a2a/agents/{id}/agent-card.json"),
}
WRITES = {
    "/v1/orchestrate": HELLO,
    "/v1/requests": HELLO,
    "/v1/agents": constitution("another"),
    "/v1/catalog/agents": {"url": "{host}/v1/a2a/agents/of-acme-only", "name": "further"},
    "/v1/catalog/sources": {"url": "{host}", "name": "further"},
    "/v1/conversations": {},
    "/v1/schedules": {"name": "x", "message": "x", "cron": "@yearly"},
    "/v1/memory/entries": {"type": "user", "title": "x"},
    "/v1/memory/links": {"source_id": 2, "relation": "refines", "target_id": 3},
    "/v1/approval_rules": {"rules": [{"on": "command", "timeout": "1 day"}]},
    "/v1/budgets": {"agents": {"writer": {"month": {"cost": "99.5"}}}},
    "/v1/admin/tenants/{id}/budgets": {"tenant": {"day": {"tokens": 1_000_000}}, "request": {"cost": "99"}},
    "/v1/access/tokens": {"name": "x", "role": "viewer"},
    "/v1/access/roles/{id}": {"scopes": ["read"]},
    "/v1/access/accounts/{id}": {"role": "viewer"},
    "/v1/stop": {"reason": "x"},
    "/v1/admin/tenants/{id}/stop": {"reason": "x"},
    "/v1/admin/tenants": {"name": "initech"},
    "/v1/admin/tenants/{id}": {"name": "globex"},
    "/v1/admin/tenants/{id}/rotate-token": {"overlap_seconds": 60},
}
"""What is sent to routes beside those of `BODIES`."""


def described() -> dict[str, Any]:
    return msgspec.json.decode(document(ROUTES, "https://host.example"))


def references(value: Any) -> set[str]:
    """All references in a document."""
    match value:
        case {"$ref": str(found)}:
            return {found}
        case dict():
            return set[str]().union(*map(references, value.values()))
        case list():
            return set[str]().union(*map(references, value))
        case _:
            return set()


def test_it_is_openapi(tmp_path: Path) -> None:
    """`make peers` creates the environment of the validator."""
    path = tmp_path / "host.json"
    path.write_bytes(document(ROUTES, "https://host.example"))
    validator = ROOT / ".peers" / "schemathesis" / "bin" / "openapi-spec-validator"
    done = subprocess.run([validator, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_every_route_of_the_table_and_no_other() -> None:
    listed = {(verb.upper(), path) for path, item in described()["paths"].items() for verb in item}
    assert listed == {(route.method, route.plain_path) for route in ROUTES} | A2A


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    found = described()
    schemas = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert references(found) == schemas


def test_every_schema_is_a_schema() -> None:
    for schema in described()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_it_says_which_token_a_route_needs() -> None:
    paths = described()["paths"]
    assert paths["/v1/agents"]["get"]["security"] == [{"tenant": []}]
    assert paths["/v1/admin/audit"]["get"]["security"] == [{"admin": []}]
    assert paths["/v1/health"]["get"]["security"] == []


def check(found: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    """Fail if a value is not as a schema of the document says."""
    validator = Draft202012Validator({**schema, "components": found["components"]})
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)] == []


def check_reply(found: dict[str, Any], route: AnyRoute, reply: httpx2.Response) -> None:
    """Fail if a reply is not as the document says."""
    responses = found["paths"][route.plain_path][route.method.lower()]["responses"]
    content = responses[str(reply.status_code)]["content"]
    if "application/json" in content:
        check(found, content["application/json"]["schema"], reply.json())


async def succeed(running: RunningHost, route: AnyRoute, ids: dict[str, str], found: dict[str, Any]) -> None:
    """Call a route as its caller should, and check the reply."""
    client = {Auth.NONE: running.anonymous, Auth.TENANT: running.acme.client, Auth.ADMIN: running.admin}[route.auth]
    path = (
        route.plain_path.replace("{id}", id_in(route, ids)).replace("{version}", "1")
        if route.parameters
        else route.path
    )
    body = BODIES.get((route.method, route.plain_path), WRITES.get(route.plain_path))
    send = None if route.method == "GET" else body
    if isinstance(send, dict) and str(send.get("url")).startswith("{host}"):
        send = {**send, "url": send["url"].replace("{host}", running.url), "credentials": {"token": running.acme.token}}
    if route.streams:
        is_endless = route.method == "GET"  # the request of `fill` waits for ever
        events = await read_events(client, route.method, path, json=send, until="text" if is_endless else None)
        schemas = found["paths"][route.plain_path][route.method.lower()]["responses"]["200"]["content"]
        for event in events:
            check(found, schemas["text/event-stream"]["x-events"][event.name], event.payload)
        assert events[-1].name == ("text" if is_endless else "done")
        return
    reply = await client.request(route.method, path, json=send, params=QUERIES.get(route.path))
    wanted = REFUSED.get((route.method, route.plain_path), 200)
    assert reply.status_code in (wanted, 201, 202), (route.method, path, reply.text)
    check_reply(found, route, reply)


async def test_the_reply_of_every_route_is_as_it_says() -> None:
    options: AppOptions = {"telemetry": Telemetry(metrics=Metrics())}
    async with running_host(models=echo_models(), options=options, remote_agents=THIS_MACHINE) as running:
        reply = await running.anonymous.get("/openapi.json")
        assert reply.headers["content-type"] == "application/json; charset=utf-8"
        found = reply.json()
        assert found["servers"] == [{"url": running.url}]
        ids = {**await fill(running.acme), "admin": "2"}
        for route in sorted(ROUTES, key=ends_what_others_need):
            await succeed(running, route, ids, found)


async def test_errors_are_as_it_says() -> None:
    async with running_host(models=echo_models()) as running:
        found = (await running.anonymous.get("/openapi.json")).json()
        ids = {
            "agents": "never",
            "catalog": "never",
            "mcp": "never",
            "schedules": "never",
            "conversations": "77",
            "artifacts": "77",
            "memory": "77",
            "requests": "never",
            "approvals": "never",
            "queue": "never",
            "tokens": "never",
            "roles": "never",
            "accounts": "never",
        }
        for route in WITH_ID:
            path = route.plain_path.replace("{id}", id_in(route, ids)).replace("{version}", "1")
            body = BODIES.get((route.method, route.plain_path))
            for client, status in ((running.acme.client, 404), (running.anonymous, 401)):
                reply = await client.request(route.method, path, json=body)
                assert reply.status_code == status
                check_reply(found, route, reply)


async def test_events_of_delegation_are_as_it_says() -> None:
    async with running_host(tenants=("acme",), with_starters=True) as running:
        found = (await running.anonymous.get("/openapi.json")).json()
        events = await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "15% of 80?"})
        assert {"intent", "agent_start", "sub_agent_response", "token_usage"} <= {event.name for event in events}
        for event in events:
            check(found, {"$ref": f"#/components/schemas/{EVENTS[event.name].__name__}"}, event.payload)
