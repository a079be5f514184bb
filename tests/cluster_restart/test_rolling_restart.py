"""Three replicas behind a balancer are restarted one after the other, and their callers notice a pause at most."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from parley.client.calls import Attempt
from parley.client.client import Client
from parley.protocol import operations
from parley.protocol.requests import SendMessageRequest
from tests.cluster_restart.load import Load, SdkLoad, send, stream
from tests.cluster_restart.replica import Replica
from tests.services.balancer import Balancer
from tests.services.nats import Nats
from tests.services.postgres import free_port

pytestmark = pytest.mark.anyio

REPLICAS = 3
WORDS = 30
WHOLE = "".join(f"{number} " for number in range(WORDS))
PAUSES = (0.005, 0.03, 0.04, 0.06)
"""Between two words, for each caller of a kind: different, so that restarts meet each of them at another word. All but
the first take longer than the drain, so that runs are handed on in the middle."""
DRAIN_SECONDS = "0.3"


async def started(stack: AsyncExitStack, folder: Path, store: str, cluster: str) -> list[Replica]:
    """The replicas, all started at once."""
    options = ("--store", store, "--cluster", cluster, "--drain-seconds", DRAIN_SECONDS, "--log-level", "warning")
    replicas = [
        Replica(free_port(), *options, log=folder / f"replica-{number}.log", begun=folder / "begun")
        for number in range(REPLICAS)
    ]
    for replica in replicas:
        stack.push_async_callback(replica.kill)
    await asyncio.gather(*(replica.start() for replica in replicas))
    return replicas


class Repeats:
    """An interceptor that counts what a client does by itself: streams resumed, and messages sent again."""

    def __init__(self) -> None:
        self.resumed = 0
        self.sent: Counter[str] = Counter()

    async def __call__(self, attempt: Attempt) -> Attempt:
        """Note an attempt."""
        self.resumed += attempt.operation is operations.SUBSCRIBE_TO_TASK
        if isinstance(attempt.request, SendMessageRequest):
            self.sent[attempt.request.message.message_id] += 1
        return attempt

    @property
    def repeated(self) -> int:
        """How many messages were sent more than once."""
        return sum(times > 1 for times in self.sent.values())


def handed_on(begun: Path) -> int:
    """How many tasks were run by more than one process."""
    processes: dict[str, set[str]] = defaultdict(set)
    for line in begun.read_text().splitlines():
        task, process = line.split()
        processes[task].add(process)
    return sum(len(pids) > 1 for pids in processes.values())


@pytest.mark.deadline(300)  # half a minute on a machine of its own
async def test_a_rolling_restart_under_load_loses_and_doubles_nothing(
    tmp_path: Path, postgres_url: str, nats_server: Nats
) -> None:
    load, repeats = Load(), Repeats()
    async with asyncio.timeout(280), AsyncExitStack() as stack:
        replicas = await started(stack, tmp_path, postgres_url, nats_server.url)
        balancer = Balancer([replica.port for replica in replicas])
        url = f"http://127.0.0.1:{await balancer.start()}"
        stack.push_async_callback(balancer.close)
        client = await stack.enter_async_context(Client(url, interceptors=[repeats]))
        texts = [f"count {WORDS} {pause}" for pause in PAUSES]
        sdk = SdkLoad(load, url, texts)
        async with asyncio.TaskGroup() as callers:
            callers.create_task(sdk.run())
            for text in texts:
                callers.create_task(load.keep(partial(send, client, text)))
                callers.create_task(load.keep(partial(stream, client, text)))
            await load.until_each_caller_has(more=1)
            cuts = [0]
            while not all(cuts):  # whom a restart cuts off depends on who is connected to which replica
                for replica in replicas:
                    await replica.stop()
                    await replica.start()
                    await load.until_each_caller_has(more=len(PAUSES))
                cuts = [handed_on(tmp_path / "begun"), repeats.resumed, repeats.repeated, load.breaks]
            load.end()
            sdk.end()
        stored = {task.id: task.status.state.name async for task in client.list()}
    assert {(answer.state, answer.text) for answer in load.answers} == {("COMPLETED", WHOLE)}
    # One task for each message, also for those that were sent again.
    assert sorted(stored) == sorted(str(answer.task) for answer in load.answers)
    assert set(stored.values()) == {"COMPLETED"}
    assert all(cuts), "the restarts did cut runs, streams and waiting senders off"
