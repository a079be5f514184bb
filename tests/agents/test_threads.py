"""Threads for plain functions: what is called, what is not called any more, and what is kept of a call."""

import asyncio
import threading
import weakref
from typing import Any

import pytest

from parley.agents.threads import DaemonThreads, in_thread
from tests.cycles import no_cycles

pytestmark = pytest.mark.anyio


async def test_a_call_whose_caller_is_cancelled_before_a_thread_is_free_is_not_made() -> None:
    threads, is_free, made = DaemonThreads(1, "test"), threading.Event(), list[str]()
    first = asyncio.create_task(in_thread(threads, is_free.wait))
    second = asyncio.create_task(in_thread(threads, made.append, "effect"))
    await asyncio.sleep(0)  # both wait for their threads
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second

    is_free.set()
    await first
    await in_thread(threads, int)

    assert made == []


async def test_what_a_failed_call_was_given_is_freed_without_the_collector() -> None:
    class Large:
        pass

    async def fail() -> weakref.ref[Large]:
        large = Large()
        with pytest.raises(ZeroDivisionError):
            await in_thread(threads, lambda _: 1 / 0, large)
        return weakref.ref(large)

    threads = DaemonThreads(1, "test")
    with no_cycles():
        given = await fail()
        await in_thread(threads, int)  # the thread is done with the call before
        assert given() is None


async def test_a_thread_that_the_system_refuses_is_started_for_a_later_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    threads = DaemonThreads(1, "test")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            await in_thread(threads, int)

    assert await asyncio.wait_for(in_thread(threads, int), 5) == 0
