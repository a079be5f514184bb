"""What a host does under load: many tenants, many stored agents, and many orchestrations at the same time.

The host runs in a process of its own, on a SQLite file and a real port; this process calls it with the built-in model.
Printed are: how long the host takes to start with its agents, its memory, and how long an orchestration with two
sub-agents takes when 500 are at work at once, for tenants that are alike, and beside one tenant that sends ten times as
much as all others together. A request that fails, or a wrong answer, ends it with exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import httpx2

from parley.host.constitution import read_constitution
from parley.host.host import Host, HostSettings
from parley.host.starters import STARTERS
from parley.server.limits import ServerLimits
from parley.server.run import Bound, Serving, serve
from parley.server.security.throttle import RateLimits

QUESTION = "5 miles in km and 12 * 12"
ANSWERS = ("8.04672 km", "144")


@dataclass(frozen=True, slots=True)
class Load:
    """How much of everything."""

    tenants: int
    agents: int
    at_once: int
    rounds: int


async def fill(store: str, load: Load) -> list[str]:
    """Make tenants with starters and so many more agents, and return their tokens."""
    host = Host(HostSettings(admin_token="bench"), store=store)
    more = load.agents // load.tenants - len(STARTERS)

    async def fill_tenant(number: int) -> str:
        tenant, token = await host.create_tenant(f"tenant-{number}")
        for place in range(more):
            clerk = {"id": f"clerk-{place}", "name": f"Clerk {place}", "role": "clerk", "goal": f"Keeps file {place}."}
            await host.agents.create(tenant.id, read_constitution(clerk))
        return token

    async with host.app.running():
        return await asyncio.gather(*(fill_tenant(number) for number in range(load.tenants)))


async def serve_host(store: str) -> None:
    """The host, until its standard input ends. It prints its URL and how long it took to start."""
    begun = perf_counter()
    rates = RateLimits(requests=None, streams=None)
    host = Host(HostSettings(admin_token="bench"), store=store, limits=ServerLimits(rates=rates))
    stop = asyncio.Event()

    def ready(bound: Bound) -> None:
        print(json.dumps({"url": bound.url, "seconds": perf_counter() - begun}), flush=True)

    await serve(host.app, Serving(port=0), on_ready=ready, stop=stop)


def resident_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def orchestrate(client: httpx2.AsyncClient, token: str) -> float:
    """The seconds of one orchestration, from the request to the last event."""
    begun = perf_counter()
    reply = await client.post(
        "/v1/orchestrate", json={"message": QUESTION}, headers={"authorization": f"Bearer {token}"}
    )
    done = reply.text.rpartition("event: done\ndata: ")[2]
    if reply.status_code != 200 or not all(answer in json.loads(done)["content"] for answer in ANSWERS):
        raise SystemExit(f"A request failed: {reply.status_code} {reply.text[-500:]}")
    return perf_counter() - begun


async def at_once(client: httpx2.AsyncClient, tokens: Sequence[str]) -> list[float]:
    return await asyncio.gather(*(orchestrate(client, token) for token in tokens))


def described(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return f"median {median(ordered):.2f} s, p99 {ordered[int(len(ordered) * 0.99)]:.2f} s, worst {ordered[-1]:.2f} s"


async def measure(url: str, pid: int, tokens: list[str], load: Load) -> None:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        await at_once(client, tokens)  # each tenant has called
        print(f"memory after each tenant has called: {resident_megabytes(pid):.0f} MB")
        callers = [tokens[number % len(tokens)] for number in range(load.at_once)]
        for _ in range(load.rounds):
            begun = perf_counter()
            seconds = await at_once(client, callers)
            took = perf_counter() - begun
            print(
                f"{load.at_once} at once, all tenants alike: {described(seconds)}; {load.at_once / took:.0f} per second"
            )
            by_tenant = [median(seconds[place :: len(tokens)]) for place in range(len(tokens))]
            print(f"  slowest tenant against the fastest, by their medians: {max(by_tenant) / min(by_tenant):.2f} ×")
        print(f"memory: {resident_megabytes(pid):.0f} MB")
        few = tokens[1 : 1 + max(1, load.at_once // 11)]
        alone = await at_once(client, few)
        greedy = asyncio.create_task(at_once(client, [tokens[0]] * (10 * len(few))))
        await asyncio.sleep(0.5)  # its requests are there first
        beside = await at_once(client, few)
        flood = await greedy
        print(f"{len(few)} tenants, one request each, alone: {described(alone)}")
        print(
            f"the same beside one tenant with {len(flood)} requests: {described(beside)}; "
            f"that tenant: {described(flood)}"
        )


async def main(load: Load) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/host.db"
        begun = perf_counter()
        tokens = await fill(store, load)
        print(f"{load.tenants} tenants and {load.agents:,} agents were stored in {perf_counter() - begun:.1f} s")
        child = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--serve", store, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert child.stdout is not None
            started = json.loads(await child.stdout.readline())
            print(f"the host starts in {started['seconds']:.1f} s, with {resident_megabytes(child.pid):.0f} MB")
            await measure(started["url"], child.pid, tokens, load)
        finally:
            child.send_signal(signal.SIGTERM)
            await child.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="STORE", help="run as the host")
    parser.add_argument("--tenants", type=int, default=50)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve_host(given.serve))
    else:
        asyncio.run(main(Load(given.tenants, given.agents, given.at_once, given.rounds)))
