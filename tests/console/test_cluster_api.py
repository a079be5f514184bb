"""The cluster over the console's API: hosts that share a store, read and drained by an operator."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from parley.console.backend import ConsoleCaller
from parley.console.console import Console
from parley.console.hosted import HostedBackend
from parley.console.wire.wire import Wire, WireFilter, WireFrame
from parley.server.security.credentials import Identity
from tests.host.replica_hosts import replica_hosts
from tests.host.running_host import RunningHost, running_host

pytestmark = pytest.mark.anyio

CLUSTER = "/console/api/cluster"
DRAIN = "/console/api/cluster/drain"


@asynccontextmanager
async def console_of(running: RunningHost) -> AsyncGenerator[Console]:
    """Give a host that runs already a console."""
    async with Console(HostedBackend(running.host)) as console:
        running.host.app.install_console(console)
        yield console


async def test_an_operator_sees_the_replicas_that_share_the_store() -> None:
    async with replica_hosts() as (one, two), console_of(one):
        shown: dict[str, Any] = (await one.admin.get(CLUSTER)).raise_for_status().json()
    workers = {one.host.engine.lease.worker, two.host.engine.lease.worker}
    assert shown["is_shared"]
    assert {replica["worker"] for replica in shown["replicas"]} == workers
    assert {replica["state"] for replica in shown["replicas"]} == {"alive"}
    assert all(replica["lease_seconds"] > 0 for replica in shown["replicas"])
    assert (shown["held"], shown["waiting"], shown["sleeping"], shown["undelivered"]) == (0, 0, 0, 0)


async def test_a_replica_that_is_to_drain_is_asked_at_its_lease() -> None:
    async with replica_hosts() as (one, two), console_of(one):
        worker = two.host.engine.lease.worker
        reply = await one.admin.post(DRAIN, json={"replica": worker})
        leases = {each.worker: each.is_asked_to_drain for each in await one.host.store.leases.workers()}
    assert len(reply.raise_for_status().json()["asked"]) == 1
    assert leases == {worker: True, one.host.engine.lease.worker: False}


async def test_a_replica_that_does_not_exist_is_not_found() -> None:
    async with replica_hosts() as (one, _), console_of(one):
        reply = await one.admin.post(DRAIN, json={"replica": "nothing-is-called-so"})
    assert (reply.status_code, reply.json()["error"]["path"]) == (404, "$.replica")


async def test_the_only_process_of_a_store_is_not_drained() -> None:
    async with running_host() as running, console_of(running):
        shown = (await running.admin.get(CLUSTER)).raise_for_status().json()
        reply = await running.admin.post(DRAIN, json={"replica": running.host.engine.lease.worker})
    if shown["is_shared"]:  # a store of the environment, which others could use
        assert reply.status_code == 200
    else:
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")


async def test_a_tenant_neither_sees_nor_drains_replicas() -> None:
    async with running_host() as running, console_of(running):
        read = await running.acme.client.get(CLUSTER)
        drained = await running.acme.client.post(DRAIN, json={"replica": "a"})
        anonymous = await running.anonymous.get(CLUSTER)
    assert [read.status_code, drained.status_code, anonymous.status_code] == [403, 403, 401]


async def test_the_wire_of_one_of_several_processes_says_how_many_there_are() -> None:
    async with replica_hosts() as (one, _), console_of(one) as console:
        caller = ConsoleCaller(identity=Identity("operator"), name="operator", is_operator=True)
        async with aclosing(console.shared(Wire).frames(caller, "", WireFilter())) as frames:
            assert await anext(frames) == WireFrame([], 0, processes=2)
