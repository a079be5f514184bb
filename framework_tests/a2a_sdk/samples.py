"""Executors of a2a-sdk for the shared set, and for what is special to it. All of them run with 1.x and with 0.3."""

import asyncio
from collections import defaultdict
from threading import Event

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from framework_tests.a2a_sdk.versions import hello, idioms
from parley import Client

ANSWER = "large"
ANSWERED = "One large coffee."
STARTED, STOPPED = Event(), Event()
EFFECTS: list[str] = []
MEMORY: dict[tuple[str, str], list[str]] = defaultdict(list)
CARD = ("Worker", "Charges and says so.", ["charge"])


class Sample(AgentExecutor):
    """An executor that begins with a task, as most do, and then does its work."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if task is None:
            task = idioms.new_task(context.message)
            await event_queue.enqueue_event(task)
        await self.work(context, TaskUpdater(event_queue, task.id, task.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("cancel is not supported")

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        raise NotImplementedError

    async def say(self, updater: TaskUpdater, *words: str) -> None:
        """Stream words into one artifact."""
        artifact_id = updater.new_agent_message([]).message_id  # a random one, as `add_artifact` would make
        for number, word in enumerate(words):
            await updater.add_artifact(
                [idioms.text(word)],
                artifact_id=artifact_id,
                name="answer",
                append=number > 0,
                last_chunk=number == len(words) - 1,
            )


class Speaker(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work()
        await self.say(updater, "Hello", ", ", "world", ".")
        await updater.complete()


class Asker(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        EFFECTS.append(f"execute: {context.get_user_input()}")
        if len(context.current_task.history if context.current_task else []) == 0:
            await updater.add_artifact([idioms.text("One ")], artifact_id="order", name="order")
            await updater.requires_input(updater.new_agent_message([idioms.text("Small or large?")]))
        else:
            said = [text for message in context.current_task.history for text in idioms.texts(message.parts)]
            assert said == ["Go", "Small or large?", ANSWER], said
            (order,) = context.current_task.artifacts
            await updater.add_artifact([idioms.text(f"{said[-1]} coffee.")], artifact_id=order.artifact_id, append=True)
            await updater.complete()


class Hanger(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        STARTED.set()
        try:
            await asyncio.Event().wait()
        finally:
            STOPPED.set()


class Reader(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        (content,) = idioms.files(context.message)
        await updater.add_artifact([idioms.text(f"It says: {content.decode()}")])
        await updater.complete()


class Structured(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.add_artifact([idioms.data({"city": "Rome", "days": 3})], name="trip")
        await updater.complete()


class Failer(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        raise RuntimeError("secret of the framework")


class Rememberer(Sample):
    """Memory is the executor's own business; it tells conversations apart by their caller and id."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        said = MEMORY[context.call_context.user.user_name, context.context_id]
        said.append(context.get_user_input())
        await updater.add_artifact([idioms.text(", ".join(said))])
        await updater.complete()


class Worker(Sample):
    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work(updater.new_agent_message([idioms.text("Calling charge(amount=5)")]))
        EFFECTS.append("charged")
        await self.say(updater, "All", " done", ".")
        usage = {"usage": {"inputTokens": 12, "outputTokens": 3}}
        await updater.update_status(idioms.COMPLETED, metadata=usage)


class Caller(Sample):
    def __init__(self, url: str) -> None:
        self._url = url

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        async with Client(self._url) as client:
            reply = await client.send(context.get_user_input())
        await updater.add_artifact([idioms.text(reply.text)])
        await updater.complete()


speaker = Speaker()
asker = Asker()
hanger = Hanger()
reader = Reader()
structured = Structured()
failer = Failer()
rememberer = Rememberer()
worker = idioms.application(Worker())
caller = Caller
hello_world = hello.HelloWorldAgentExecutor()
currency = hello.CurrencyAgentExecutor()
