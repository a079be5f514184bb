"""Executors made of functions, for tests."""

from collections.abc import Awaitable, Callable
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from framework_tests.a2a_sdk.samples import Sample
from framework_tests.a2a_sdk.versions import idioms
from parley import Agent
from parley.protocol.tasks import Task
from parley.testing import running

Work = Callable[[RequestContext, TaskUpdater], Awaitable[None]]


def executor(work: Work, on_cancel: Work | None = None) -> AgentExecutor:
    """An executor that begins with a task and then does this."""

    class Given(Sample):
        async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
            await work(context, updater)

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            assert on_cancel is not None
            await on_cancel(context, TaskUpdater(event_queue, context.task_id, context.context_id))

    return Given()


def bare_executor(execute: Callable[[RequestContext, EventQueue], Awaitable[None]]) -> AgentExecutor:
    """An executor that begins with this."""

    class Given(Sample):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            await execute(context, event_queue)

    return Given()


async def result_of(work: Work, *contents: Any) -> Task:
    async with running(Agent.of(executor(work))) as client:
        return await client.send(*(contents or ("Go",)))


def said(updater: TaskUpdater, *texts: str) -> Any:
    return updater.new_agent_message([idioms.text(text) for text in texts])
