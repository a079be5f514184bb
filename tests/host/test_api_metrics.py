"""Health, metrics and models over the native API."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from parley.host.data.tenant import Quotas
from tests.host.a2a_calls import documented_message, path_of, request
from tests.host.api_calls import echo_models
from tests.host.running_host import RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio


async def scrape(running: RunningHost, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name, by the values of their labels, which come in the order of the labels' names."""
    reply = await running.anonymous.get("/v1/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(reply.text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in samples}


async def test_requests_are_counted_by_tenant_and_route_and_how_they_ended() -> None:
    async with running_host(models=echo_models()) as running:
        client = running.acme.client
        await read_events(client, "POST", "/v1/orchestrate", json={"message": "hi"})
        await read_events(client, "POST", "/v1/agents/index/chat", json={"message": "please fail"})
        await client.post("/v1/conversations", json={})
        await read_events(client, "POST", "/v1/conversations/1/messages", json={"message": "hi"})
        assert await scrape(running, "arbiter_requests_started_total") == {
            ("orchestrate", "1"): 1.0,
            ("agent_chat", "1"): 1.0,
            ("messages", "1"): 1.0,
        }
        ended = {("true", "orchestrate", "1"): 1.0, ("false", "agent_chat", "1"): 1.0, ("true", "messages", "1"): 1.0}
        assert await scrape(running, "arbiter_requests_completed_total") == ended
        durations = await scrape(running, "arbiter_request_duration_ms_sum")
        assert set(durations) == {("orchestrate", "1"), ("agent_chat", "1"), ("messages", "1")}
        assert all(milliseconds > 0 for milliseconds in durations.values())


async def test_requests_at_work_are_shown_also_those_of_a2a() -> None:
    async with running_host(models=echo_models()) as running:
        assert await scrape(running, "arbiter_in_flight") == {}
        await read_events(running.acme.client, "POST", "/v1/orchestrate", json={"message": "wait"}, until="text")
        send = request("message/stream", documented_message("wait"))
        async with running.globex.client.stream("POST", path_of("index"), json=send) as reply:
            await anext(reply.aiter_bytes())
            assert await scrape(running, "arbiter_in_flight") == {("1",): 1.0, ("2",): 1.0}
            assert await scrape(running, "arbiter_runs") == {("orchestrate", "1"): 1.0, ("a2a", "2"): 1.0}


async def test_repeated_keys_and_refusals_are_counted() -> None:
    async with running_host(models=echo_models(), tenants=("acme",), quotas=Quotas(requests_per_minute=1)) as running:
        client, body = running.acme.client, {"message": "hi"}
        for _ in range(3):
            await read_events(client, "POST", "/v1/orchestrate", json=body, headers={"Idempotency-Key": "a"})
        assert (await client.post("/v1/orchestrate", json=body)).status_code == 429
        assert await scrape(running, "arbiter_idempotency_miss_total") == {(): 1.0}
        assert await scrape(running, "arbiter_idempotency_replay_total") == {(): 2.0}
        assert await scrape(running, "arbiter_requests_started_total") == {("orchestrate", "1"): 1.0}
        assert await scrape(running, "arbiter_rate_limited_total") == {("rate_limit", "1"): 1.0}


async def test_calls_of_providers_are_counted() -> None:
    """The counts are set as calls would set them; `test_model_retries` makes real calls."""
    async with running_host(tenants=("acme",)) as running:
        counts = running.host.models._state("openai").counts  # pyright: ignore[reportPrivateUsage]
        counts.calls, counts.retries, counts.server_errors, counts.rate_limited, counts.circuit_opened = 5, 4, 3, 2, 1
        names = ("calls", "retries", "5xx", "429", "circuit_open")
        found = [await scrape(running, f"arbiter_provider_{name}_total") for name in names]
        assert found == [{("openai",): float(count)} for count in (5, 4, 3, 2, 1)]


async def test_health_says_whether_the_host_takes_requests_and_why_not() -> None:
    async with running_host(tenants=()) as running:
        reply = await running.anonymous.get("/v1/health")
        assert (reply.status_code, reply.json()) == (200, {"ok": True})
        running.host.app.health.is_draining = True
        reply = await running.anonymous.get("/v1/health")
        reason = {"reason": "draining", "text": "The server is shutting down."}
        assert (reply.status_code, reply.json()) == (503, {"ok": False, "reasons": [reason]})


async def test_models_are_listed_with_their_providers() -> None:
    async with running_host(tenants=("acme",)) as running:
        reply = (await running.acme.client.get("/v1/models")).json()
        assert reply["count"] == len(reply["models"]) > 1
        builtin = next(model for model in reply["models"] if model["id"] == "parley/router")
        assert (builtin["provider"], builtin["is_ready"], builtin["prices"]) == ("parley", True, None)
        priced = next(model for model in reply["models"] if model["prices"] is not None)
        assert priced["context_window"] > 0
        assert float(priced["prices"]["input"]) > 0
