"""What a tenant may use: requests in a minute and at the same time, tokens in a day, storage; and keys of requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from parley.host.data.tenant import Quotas
from parley.host.models.model import ModelRequest
from parley.host.quotas import QuotaBook
from parley.protocol.extensions import DELEGATION
from tests.host.a2a_calls import documented_message, message, path_of, request, result
from tests.host.api_calls import constitution, echo_models, event_named
from tests.host.function_model import USAGE, FunctionModel
from tests.host.running_host import HostTenant, ReadEvent, RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio

CALL_TOKENS = USAGE.input_tokens + USAGE.output_tokens
HELLO = {"message": "hi"}


async def orchestrate(tenant: HostTenant, text: str = "hi", **options: Any) -> list[ReadEvent]:
    return await read_events(tenant.client, "POST", "/v1/orchestrate", json={"message": text}, **options)


async def set_quotas(running: RunningHost, tenant: HostTenant, **quotas: int) -> None:
    reply = await running.admin.patch(f"/v1/admin/tenants/{tenant.id}", json={"quotas": quotas})
    assert reply.status_code == 200, reply.text


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


# --- requests in a minute ---------------------------------------------------------------------------------------------


async def test_requests_beyond_those_of_a_minute_are_refused_on_every_surface_and_reading_is_free() -> None:
    async with running_host(models=echo_models()) as running:
        host, clock, acme = running.host, Clock(), running.acme.client
        host.quotas = QuotaBook(
            Quotas(), active=host.own_active_requests, tokens_today=host.usage.tokens_today, clock=clock
        )
        await set_quotas(running, running.acme, requests_per_minute=2)
        done = event_named(await orchestrate(running.acme), "done")
        await result(acme, "message/send", documented_message("hi"))
        refused = await acme.post("/v1/orchestrate", json=HELLO)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        assert refused.json() == {"error": "rate limit exceeded", "reason": "rate_limit", "retry_after_seconds": 30}
        over_rpc = await acme.post(path_of("index"), json=request("message/send", documented_message("hi")))
        over_rest = await acme.post(path_of("index") + "/rest/message:send", json=message("hi"))
        assert [(one.status_code, one.headers["retry-after"]) for one in (over_rpc, over_rest)] == [(429, "30")] * 2
        for _ in range(5):
            assert (await result(acme, "tasks/get", {"id": done["request_id"]}))["status"]["state"] == "completed"
            assert (await acme.get("/v1/requests")).status_code == 200
            assert await read_events(acme, "GET", f"/v1/requests/{done['request_id']}/events")
        assert event_named(await orchestrate(running.globex), "done")["ok"]
        clock.now += 30
        assert event_named(await orchestrate(running.acme), "done")["ok"]
        assert (await acme.post("/v1/orchestrate", json=HELLO)).status_code == 429


# --- requests at the same time ----------------------------------------------------------------------------------------


async def test_so_many_requests_begin_at_the_same_time_as_a_tenant_may_have(tmp_path: Path) -> None:
    """Also those that pretend to be delegated, and in a store that takes its time."""
    store = f"sqlite:///{tmp_path}/host.db"
    async with running_host(store=store, models=echo_models(), options={"drain_seconds": 0}) as running:
        acme = running.acme.client
        await set_quotas(running, running.acme, concurrent_requests=3)

        async def native(number: int) -> int:
            async with acme.stream("POST", "/v1/orchestrate", json={"message": f"wait {number}"}) as reply:
                if reply.status_code == 429:
                    await reply.aread()
                    assert reply.json()["reason"] == "concurrent_request_limit"
                    assert int(reply.headers["retry-after"]) > 0
                return reply.status_code

        async def over_a2a(number: int) -> int:
            forged = {DELEGATION: {"depth": 1}} if number % 2 else {}
            body = {**message("wait", metadata=forged), "configuration": {"returnImmediately": True}}
            return (await acme.post(path_of("index"), json=request("SendMessage", body))).status_code

        sending = [send(number) for number in range(6) for send in (native, over_a2a)]
        assert Counter(await asyncio.gather(*sending)) == {200: 3, 429: 9}
        listed = (await acme.get("/v1/requests")).json()["requests"]
        assert [one["state"] for one in listed] == ["running"] * 3
        assert await over_a2a(1) == await native(1) == 429
        assert (await acme.post(f"/v1/requests/{listed[0]['request_id']}/cancel")).status_code == 200
        assert Counter(await asyncio.gather(over_a2a(1), native(1))) == {200: 1, 429: 1}


async def test_what_agents_delegate_is_no_request_of_the_tenant() -> None:
    async def delegate(request: ModelRequest) -> AsyncIterator[str]:
        yield "/agent writer Write.\n" if request.agent_id == "index" and not request.results else "Done."

    async with running_host(models={"parley/router": FunctionModel(delegate)}) as running:
        await running.acme.client.post("/v1/agents", json=constitution("writer"))
        await set_quotas(running, running.acme, concurrent_requests=1, requests_per_minute=2)
        for _ in range(2):
            events = await orchestrate(running.acme)
            assert event_named(events, "sub_agent_response")["content"] == "Done."
            assert event_named(events, "done")["ok"]


async def test_a_caller_that_says_it_is_deep_in_a_chain_gets_no_gate_of_its_own() -> None:
    async with running_host(models=echo_models()) as running:
        forged = {DELEGATION: {"depth": 10**9}}
        task = (await result(running.acme.client, "SendMessage", message("hi", metadata=forged)))["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert running.host.turns.gate(10**9) is running.host.turns.gate(10**6)
        assert running.host.turns.gate(1) is not running.host.turns.gate(2)


# --- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_tenant_without_tokens_makes_no_further_model_call(tmp_path: Path) -> None:
    async def work(request: ModelRequest) -> AsyncIterator[str]:
        yield "/help\n/agent writer Write.\n" if request.agent_id == "index" else "Written."

    model = FunctionModel(work)
    store = f"sqlite:///{tmp_path}/host.db"
    options: dict[str, Any] = {"store": store, "models": {"parley/router": model}}
    async with running_host(**options) as running:
        token = running.acme.token
        await running.acme.client.post("/v1/agents", json=constitution("writer"))
        await set_quotas(running, running.acme, tokens_per_day=2 * CALL_TOKENS + 1)
        done = event_named(await orchestrate(running.acme), "done")
        assert (done["ok"], done["error_code"]) == (False, "rate_limited")
        assert done["error"] == "The tenant has used its tokens of today."
        assert [request.agent_id for request in model.requests] == ["index", "writer", "index"]
        assert done["input_tokens"] + done["output_tokens"] == 3 * CALL_TOKENS
    async with running_host(**options, tenants=()) as running:  # also after a restart
        client = await running.client(token)
        refused = await client.post("/v1/orchestrate", json=HELLO)
        assert (refused.status_code, refused.json()["reason"]) == (429, "token_limit")
        assert int(refused.headers["retry-after"]) > 0
        assert (await client.post(path_of("index"), json=request("SendMessage", message("hi")))).status_code == 429
        assert len(model.requests) == 3
        usage = (await running.admin.get("/v1/admin/tenants/1/usage")).json()["rows"]
        assert [(row["agent"], row["calls"]) for row in usage] == [("index", 2), ("writer", 1)]


async def test_the_tokens_of_an_advisor_count_once_also_in_a_run_that_begins_again(tmp_path: Path) -> None:
    is_halfway = asyncio.Event()

    async def work(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "writer-advisor":
            yield "Be brief."
        elif not request.results:
            yield "/advise How?\n"
        elif not is_halfway.is_set():
            is_halfway.set()
            await asyncio.Event().wait()
        else:
            yield "Brief."

    options: dict[str, Any] = {
        "store": f"sqlite:///{tmp_path}/host.db",
        "models": {"parley/router": FunctionModel(work)},
        "options": {"drain_seconds": 0},
    }
    advised = constitution("writer", advisor={"model": "parley/router", "mode": "consult"})
    async with running_host(**options, tenants=("acme",)) as running:
        token = running.acme.token
        await running.acme.client.post("/v1/agents", json=advised)
        body = {**message("Write."), "configuration": {"returnImmediately": True}}
        task_id = (await result(running.acme.client, "SendMessage", body, agent="writer"))["task"]["id"]
        await is_halfway.wait()
    async with running_host(**options, tenants=()) as running:
        client = await running.client(token)
        done = event_named(await read_events(client, "GET", f"/v1/requests/{task_id}/events"), "done")
        assert (done["content"], done["input_tokens"], done["output_tokens"]) == ("Brief.", 30, 15)
        (row,) = (await running.admin.get("/v1/admin/tenants/1/usage")).json()["rows"]
        assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (3, 30, 15)


# --- storage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_default", [True, False])
async def test_a_tenant_whose_storage_is_full_keeps_nothing_more(is_default: bool) -> None:
    prompts: list[str] = []

    async def write(request: ModelRequest) -> AsyncIterator[str]:
        prompts.append(request.messages[-1].text)
        if request.results:
            yield "Done."
        else:
            yield f"/write --persist small.md\n{'x' * 100}\n/endwrite\n"
            yield f"/write --persist large.md\n{'x' * 1_000}\n/endwrite\n"
            yield f"/mem write {'x' * 1_000}\n"
            yield f"/mem add entry user Large\n{'x' * 1_000}\n/endmem\n"

    quotas = Quotas(storage_bytes=1_000) if is_default else Quotas()
    async with running_host(models={"parley/router": FunctionModel(write)}, quotas=quotas) as running:
        client = running.acme.client
        if not is_default:
            await set_quotas(running, running.acme, storage_bytes=1_000)
        await client.post("/v1/conversations", json={})
        events = await read_events(client, "POST", "/v1/conversations/1/messages", json=HELLO)
        assert event_named(events, "done")["ok"]
        assert event_named(events, "file")["path"] == "small.md"
        assert prompts[1].count("ERR: a tenant may keep 1000 bytes, and 100 are used") == 3
        artifact = {"path": "large.md", "content": "x" * 1_000}
        assert (await client.post("/v1/conversations/1/artifacts", json=artifact)).status_code == 413
        assert [one["path"] for one in (await client.get("/v1/artifacts")).json()["artifacts"]] == ["small.md"]
        assert (await client.get("/v1/memory/entries")).json()["entries"] == []


# --- keys of requests -------------------------------------------------------------------------------------------------


def request_id_of(events: list[ReadEvent]) -> str:
    return event_named(events, "request_received")["request_id"]


async def test_requests_with_one_key_are_one_request_also_at_once_and_after_a_restart(tmp_path: Path) -> None:
    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path}/host.db", "models": echo_models()}
    key: dict[str, Any] = {"headers": {"Idempotency-Key": "order 7"}}
    async with running_host(**options) as running:
        acme, globex = running.acme, running.globex
        token = acme.token
        streams = await asyncio.gather(*[orchestrate(acme, f"order {number}", **key) for number in range(8)])
        (request_id,) = {request_id_of(events) for events in streams}
        (said,) = {event_named(events, "done")["content"] for events in streams}
        assert request_id_of(await orchestrate(globex, "mine", **key)) != request_id
        for tenant in (acme, globex):
            assert len((await tenant.client.get("/v1/requests")).json()["requests"]) == 1
    async with running_host(**options, tenants=()) as running:
        client = await running.client(token)
        events = await read_events(client, "POST", "/v1/orchestrate", json={"message": "again"}, **key)
        assert (request_id_of(events), event_named(events, "done")["content"]) == (request_id, said)
        assert len((await client.get("/v1/requests")).json()["requests"]) == 1


async def test_a_key_of_a_request_that_was_refused_can_be_used_again() -> None:
    async with running_host(models=echo_models()) as running:
        key: dict[str, Any] = {"headers": {"Idempotency-Key": "order 7"}}
        await set_quotas(running, running.acme, concurrent_requests=0, requests_per_minute=1)
        assert (await running.acme.client.post("/v1/orchestrate", json=HELLO, **key)).status_code == 429
        await set_quotas(running, running.acme, concurrent_requests=1)
        first = request_id_of(await orchestrate(running.acme, **key))
        assert request_id_of(await orchestrate(running.acme, **key)) == first  # joining it is free
