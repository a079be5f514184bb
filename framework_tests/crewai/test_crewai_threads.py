"""The threads of CrewAI's runs: what stops, what is forgotten, and what the server is kept from."""

import asyncio
import gc
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from crewai.events.types.llm_events import LLMCallType
from crewai.flow.flow import Flow, start
from crewai.llms.base_llm import llm_call_context
from crewai.tools import tool

from framework_tests.crewai.agent_samples import Messages, Said, agent, call_wait
from framework_tests.crewai.scripted import ScriptedLLM, results
from parley import Agent
from parley.protocol.tasks import TaskState
from parley.testing import running

pytestmark = pytest.mark.anyio


class SpeakingAsync(ScriptedLLM):
    """Says `Hel`, waits, and says `lo`."""

    async def acall(self, *args: Any, **kwargs: Any) -> str:
        with llm_call_context():
            self._emit_call_started_event(messages=[{"role": "user", "content": "Go"}])
            self._emit_stream_chunk_event("Hel", call_type=LLMCallType.LLM_CALL)
            await asyncio.sleep(0.2)
            self._emit_stream_chunk_event("lo", call_type=LLMCallType.LLM_CALL)
            self._emit_call_completed_event("Hello", LLMCallType.LLM_CALL)
        return "Hello"


def nothing(messages: Messages) -> Said:
    yield ""


async def test_a_coroutine_tool_does_not_hold_up_the_server_and_its_model_calls_are_stopped_elsewhere() -> None:
    started, threads = threading.Event(), []

    @tool
    async def wait() -> str:
        """Calls a model itself."""
        threads.append(threading.current_thread())
        with llm_call_context():
            ScriptedLLM(nothing)._emit_call_started_event(messages=[{"role": "user", "content": "Go"}])
            started.set()
            await asyncio.Event().wait()
        return "never"

    async with running(Agent.of(agent(call_wait, wait))) as client:
        task = await client.start("Go")
        assert await asyncio.to_thread(started.wait, 30)
        assert (await client.cancel(task)).status.state is TaskState.CANCELED
    assert threading.current_thread() not in threads


async def test_a_cancel_stops_a_plain_method_of_a_flow() -> None:
    started, stopped = threading.Event(), threading.Event()

    class Counting(Flow[dict[str, Any]]):
        @start()
        def count(self) -> None:
            started.set()
            try:
                while True:
                    time.sleep(0.01)
            finally:
                stopped.set()

    async with running(Agent.of(Counting())) as client:
        task = await client.start("Go")
        assert await asyncio.to_thread(started.wait, 30)
        await client.cancel(task)
        assert await asyncio.to_thread(stopped.wait, 30)


async def test_a_tool_that_exits_fails_its_task_and_not_the_server() -> None:
    @tool
    def leave() -> str:
        """Exits."""
        sys.exit(3)

    def use_it(messages: Messages) -> Said:
        yield "done" if results(messages) else {"tool": "leave"}

    async with running(Agent.of(agent(use_it, leave))) as client:
        assert (await client.send("Go")).status.state is TaskState.FAILED


async def test_flows_that_have_ended_are_forgotten() -> None:
    class Short(Flow[dict[str, Any]]):
        @start()
        def end(self) -> str:
            return "done"

    original = Short()
    async with running(Agent.of(original)) as client:
        for _ in range(3):
            await client.send("Go")
        gc.collect()
        assert [flow for flow in gc.get_objects() if type(flow) is Short] == [original]


async def test_what_a_model_says_is_whole_while_another_method_of_the_flow_ends() -> None:
    class Both(Flow[dict[str, Any]]):
        @start()
        async def wait(self) -> None:
            await asyncio.sleep(0.1)

        @start()
        async def speak(self) -> str:
            return await SpeakingAsync(nothing).acall()

    async with running(Agent.of(Both())) as client:
        assert client.text(await client.send("Go")) == "Hello"


async def test_a_model_call_that_is_given_up_keeps_no_other_method_waiting() -> None:
    class GivingUp(Flow[dict[str, Any]]):
        @start()
        async def speak(self) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(SpeakingAsync(nothing).acall(), 0.05)

        @start()
        def wait(self) -> str:
            time.sleep(0.1)
            return "done"

    async with running(Agent.of(GivingUp())) as client:
        async with asyncio.timeout(30):
            assert "done" in client.text(await client.send("Go"))
