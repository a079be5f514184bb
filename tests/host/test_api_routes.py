"""What every route of the native API shares: paths, methods, callers, bodies and errors."""

from __future__ import annotations

import logging

import pytest

from parley.host.api.table import ROUTES
from parley.server.limits import ServerLimits
from parley.server.security.throttle import RateLimits
from tests.host.api_calls import constitution
from tests.host.running_host import running_host

pytestmark = pytest.mark.anyio

JSON = "application/json; charset=utf-8"


def test_no_two_routes_have_the_same_method_and_path() -> None:
    lines = [(route.method, route.plain_path) for route in ROUTES]
    assert len(lines) == len(set(lines))
    names = [route.handler.__name__ for route in ROUTES]
    assert len(names) == len(set(names)), "operation ids of the OpenAPI document"


async def test_a_path_that_does_not_exist_is_a_json_404() -> None:
    async with running_host(tenants=()) as running:
        for path in ("/", "/v1", "/v1/agents/", "/v1/agents/a/b", "/v2/agents", "/v1//agents"):
            reply = await running.anonymous.get(path)
            assert (reply.status_code, reply.json(), reply.headers["content-type"]) == (
                404,
                {"error": "not found"},
                JSON,
            )


async def test_another_method_is_refused_with_those_that_are_allowed() -> None:
    async with running_host(tenants=()) as running:
        reply = await running.anonymous.put("/v1/agents/writer")
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, PATCH, DELETE")
        assert reply.json() == {"error": "method not allowed; use GET or HEAD or PATCH or DELETE"}
        reply = await running.anonymous.head("/v1/requests/1/events")
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET")


async def test_options_names_the_methods_without_a_token() -> None:
    async with running_host(tenants=()) as running:
        reply = await running.anonymous.options("/v1/conversations")
        assert (reply.status_code, reply.headers["allow"], reply.content) == (204, "POST, GET, HEAD", b"")


async def test_head_answers_as_get_without_the_body() -> None:
    async with running_host(tenants=("acme",)) as running:
        whole = await running.acme.client.get("/v1/agents")
        head = await running.acme.client.head("/v1/agents")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"]


async def test_callers_without_a_valid_token_are_refused_in_json() -> None:
    async with running_host(tenants=("acme",)) as running:
        for headers in ({}, {"Authorization": "Bearer atr_wrong"}, {"Authorization": "Bearer adm_x"}):
            reply = await running.anonymous.get("/v1/agents", headers=headers)
            assert (reply.status_code, reply.json()) == (401, {"error": "missing or invalid bearer token"})
            assert reply.headers["www-authenticate"].startswith("Bearer ")
        assert (await running.admin.get("/v1/agents")).status_code == 401


async def test_the_admin_routes_refuse_tokens_of_tenants() -> None:
    async with running_host(tenants=("acme",)) as running:
        for client in (running.anonymous, running.acme.client):
            reply = await client.get("/v1/admin/tenants")
            assert (reply.status_code, reply.json()) == (401, {"error": "missing or invalid bearer token"})
            assert reply.headers["www-authenticate"].startswith("Bearer ")


async def test_without_an_admin_token_the_admin_routes_are_closed() -> None:
    async with running_host(admin_token="", tenants=()) as running:
        for headers in ({}, {"Authorization": "Bearer x"}):
            reply = await running.anonymous.get("/v1/admin/tenants", headers=headers)
            assert (reply.status_code, list(reply.json())) == (503, ["error"])


async def test_guessing_the_admin_token_is_slowed_down() -> None:
    limits = ServerLimits(rates=RateLimits(failures_per_minute=2))
    async with running_host(tenants=(), options={"limits": limits}) as running:
        wrong = {"Authorization": "Bearer adm_guess"}
        statuses = [(await running.anonymous.get("/v1/admin/tenants", headers=wrong)).status_code for _ in range(3)]
        assert statuses == [401, 401, 429]
        reply = await running.admin.get("/v1/admin/tenants")
        assert reply.status_code == 429
        assert reply.json()["error"] == "rate limit exceeded"
        assert int(reply.headers["retry-after"]) == reply.json()["retry_after_seconds"] > 0


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "invalid JSON: "),
        (b"{", "invalid JSON: "),
        (b"[]", "$: Expected `object`, got `array`"),
        (b'{"message": "hi", "channel": "smoke"}', "$.channel: Invalid enum value 'smoke'"),
        (b'{"message": 5}', "$.message: Expected `str | array`, got `int`"),
        (b'{"message": []}', "$.message: Expected `array` of length >= 1"),
        (b'{"message": [{"type": "text"}]}', "$.message[0]: Object missing required field `text`"),
        (b'{"message": [{"type": "video"}]}', "$.message[0].type: Invalid value 'video'"),
        (b'{"message": "  "}', "$.message: must not be empty"),
        (b"{}", "$: Object missing required field `message`"),
        (b'{"message": "hi", "agent_def": []}', "$.agent_def: Expected `object | null`, got `array`"),
        (b'{"message": "hi", "agent_def": {"id": "x"}}', "$.agent_def.name: is required"),
    ],
)
async def test_a_body_that_is_not_valid_is_refused_with_the_path_of_the_fault(body: bytes, error: str) -> None:
    async with running_host(tenants=("acme",)) as running:
        client = running.acme.client
        headers = {"Content-Type": "application/json"}
        reply = await client.post("/v1/orchestrate", content=body, headers=headers)
        assert (reply.status_code, reply.json()["error"][: len(error)]) == (400, error)
        assert (await client.get("/v1/requests")).json() == {"requests": []}


async def test_a_body_of_another_type_or_too_long_is_refused() -> None:
    limits = ServerLimits(body_bytes=2_000)
    async with running_host(tenants=("acme",), options={"limits": limits}) as running:
        client = running.acme.client
        reply = await client.post("/v1/agents", content=b"id=x", headers={"Content-Type": "text/plain"})
        assert (reply.status_code, list(reply.json())) == (415, ["error"])
        reply = await client.post("/v1/agents", json=constitution(goal="x" * 2_000))
        assert (reply.status_code, list(reply.json())) == (413, ["error"])


async def test_an_unexpected_error_is_logged_and_the_caller_gets_a_reference(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_host(tenants=("acme",)) as running:
        monkeypatch.setattr(running.host, "models", None)
        with caplog.at_level(logging.ERROR):
            reply = await running.acme.client.get("/v1/models")
        assert (reply.status_code, reply.headers["content-type"]) == (500, JSON)
        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert record.exc_info is not None
        reference = reply.json()["error"].rpartition(" ")[2]
        assert reference in record.getMessage()
        assert "NoneType" not in reply.text


async def test_a_disabled_tenant_is_refused() -> None:
    async with running_host(tenants=("acme",)) as running:
        await running.host.tenants.update(running.acme.id, disabled=True)
        assert (await running.acme.client.get("/v1/agents")).status_code == 401
