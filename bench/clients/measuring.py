"""How a client is measured, in its own environment: its sends for some seconds, and the chunks of one stream."""

import argparse
import asyncio
import json
import resource
import time


def options() -> argparse.Namespace:
    """How the benchmark starts a client."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--binding", default="JSONRPC")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=4_000)
    parser.add_argument("--streams", type=int, default=5)
    return parser.parse_args()


async def measured(send, stream, chosen: argparse.Namespace) -> None:
    """Print how many sends and chunks a second this client makes, and what processor time each took."""
    for _ in range(20):
        await send()
    count, end = 0, time.perf_counter() + chosen.seconds

    async def keep_sending() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await send()
            count += 1

    begun, used = time.perf_counter(), _cpu()
    await asyncio.gather(*(keep_sending() for _ in range(chosen.senders)))
    sends, send_cpu = count / (time.perf_counter() - begun), (_cpu() - used) / count
    await stream()
    begun, used = time.perf_counter(), _cpu()
    chunks = 0
    for _ in range(chosen.streams):
        chunks += await stream()
    assert chunks == chosen.chunks * chosen.streams, chunks
    took = time.perf_counter() - begun
    figures = {"sends": sends, "send_cpu": send_cpu, "chunks": chunks / took, "chunk_cpu": (_cpu() - used) / chunks}
    print(json.dumps(figures))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
