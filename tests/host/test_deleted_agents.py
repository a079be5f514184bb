"""What becomes of the work of an agent that is deleted."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from parley.host.models.model import ModelRequest
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, read_events, running_host
from tests.host.stores import MemoryDatabase, MemoryStore

pytestmark = pytest.mark.anyio

CLERK = {"id": "clerk", "name": "Clerk", "role": "clerk", "goal": "Waits.", "model": "parley/test"}


async def wait_for_ever(request: ModelRequest) -> AsyncIterator[str]:
    yield "I wait."
    await asyncio.Event().wait()


MODELS = {"parley/test": FunctionModel(wait_for_ever)}


async def begin(tenant: HostTenant) -> str:
    """A request to an agent that does not end by itself."""
    assert (await tenant.client.post("/v1/agents", json=CLERK)).status_code == 201
    path = "/v1/agents/clerk/chat"
    (received, *_) = await read_events(tenant.client, "POST", path, json={"message": "wait"}, until="text")
    return received.payload["request_id"]


async def test_deleting_an_agent_stops_its_work_and_says_why() -> None:
    async with running_host(models=MODELS, tenants=("acme",)) as running:
        request_id = await begin(running.acme)
        assert (await running.acme.client.delete("/v1/agents/clerk")).json() == {"deleted": True}
        (*_, done) = await read_events(running.acme.client, "GET", f"/v1/requests/{request_id}/events")
        assert (done.name, done.payload["ok"], done.payload["error"]) == ("done", False, "The agent was deleted.")


async def test_work_that_a_crash_left_without_its_agent_is_failed_at_the_next_start() -> None:
    database = MemoryDatabase()
    async with running_host(models=MODELS, tenants=("acme",), store=MemoryStore(database)) as running:
        request_id, token, tenant_id = await begin(running.acme), running.acme.token, running.acme.id
    async with running_host(models=MODELS, tenants=(), store=MemoryStore(database)) as running:
        await running.host.agents.delete(tenant_id, "clerk")  # and the host dies before it can stop the work
    async with running_host(models=MODELS, tenants=(), store=MemoryStore(database)) as running:
        client = await running.client(token)
        request = (await client.get(f"/v1/requests/{request_id}")).json()["request"]
        assert (request["state"], request["error_message"]) == (
            "failed",
            "The agent was deleted while it worked on this task.",
        )
