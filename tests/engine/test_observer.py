"""What an engine tells its observer."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.observer import DeliveryOutcome, PushConfigAction
from parley.engine.owner_data import DeletedData, Selection
from parley.engine.runs.run import Run, Stopped
from parley.protocol.events import TaskEvent
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, DeletePushConfigRequest, SendConfiguration
from parley.protocol.requests import SendMessageRequest as Request
from parley.stores.interface import TaskKey
from parley.testing.client import AgentClient
from tests.bounded import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]

ADA = Caller("ada")


class Notes:
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    @contextmanager
    def run(self, run: Run) -> Generator[None]:
        self.lines.append(("run", run.key.task_id, run.program.id, run.caller.name))
        try:
            yield
        except BaseException as error:
            self.lines.append(("ended by", type(error)))
            raise
        self.lines.append(("ended",))

    def committed(self, key: TaskKey, agent: str, events: Sequence[TaskEvent], seconds: float) -> None:
        assert seconds >= 0
        self.lines.append(("committed", key.task_id, agent, len(events)))

    def canceled(self, key: TaskKey, agent: str, caller: Caller) -> None:
        self.lines.append(("canceled", key.task_id, agent, caller.name))

    def deleted(self, caller: Caller, selection: Selection, deleted: DeletedData) -> None:
        self.lines.append(("deleted", caller.name, selection, deleted))

    def push_config_changed(
        self, key: TaskKey, agent: str, caller: Caller, action: PushConfigAction, config_id: str
    ) -> None:
        self.lines.append((action, key.task_id, agent, caller.name, config_id))

    def blocked(self, agent: str | None, seconds: float) -> None:
        self.lines.append(("blocked", agent))

    def diverged(self, run: Run, text: str) -> None:
        self.lines.append(("diverged", run.key.task_id, text))

    def delivered(self, key: TaskKey, agent: str, config_id: str, outcome: DeliveryOutcome, seconds: float) -> None:
        self.lines.append((outcome, key.task_id, agent, config_id))


def agent_of(handler: Any) -> Agent:
    agent = Agent("Test")
    agent.on_message(handler)
    return agent


@pytest.mark.embedded
async def test_a_run_and_its_writes_are_told() -> None:
    async def echo(turn: Turn) -> str:
        return turn.text

    notes = Notes()
    async with bounded(agent_of(echo), caller=ADA, observer=notes) as client:
        await client.send("go")

    assert notes.lines == [("run", "id-1", "test", "ada"), ("ended",), ("committed", "id-1", "test", 5)]


async def test_a_question_passes_through_as_stopped_and_a_failure_as_itself() -> None:
    async def handler(turn: Turn) -> None:
        await turn.ask("?")
        raise ZeroDivisionError

    notes = Notes()
    async with bounded(agent_of(handler), observer=notes) as client:
        task = await client.send("go")
        await client.send("answer", task=task)

    assert [line for line in notes.lines if line[0] == "ended by"] == [
        ("ended by", Stopped),
        ("ended by", ZeroDivisionError),
    ]


async def test_who_cancels_a_task_is_told_whether_it_is_at_work_or_waits() -> None:
    begun = asyncio.Event()

    async def handler(turn: Turn) -> None:
        if turn.text == "ask":
            await turn.ask("?")
        begun.set()
        await asyncio.Event().wait()

    notes = Notes()
    async with bounded(agent_of(handler), caller=ADA, observer=notes) as client:
        working = await client.start("go")
        await begun.wait()
        await client.cancel(working)
        asked = await client.send("ask")
        await client.cancel(asked)

    assert ("ended by", asyncio.CancelledError) in notes.lines
    assert [line for line in notes.lines if line[0] == "canceled"] == [
        ("canceled", working.id, "test", "ada"),
        ("canceled", asked.id, "test", "ada"),
    ]
    assert notes.lines[-2] == ("committed", asked.id, "test", 1)


async def test_changes_of_webhooks_are_told() -> None:
    async def echo(turn: Turn) -> str:
        return turn.text

    notes = Notes()
    async with bounded(agent_of(echo), caller=ADA, observer=notes) as client:
        config = PushConfig("https://x.example", id="with the message")
        request = Request(client.message("go"), SendConfiguration(push_config=config))
        task: Any = await client.agent.send_message(request, ADA)
        hooks = client.agent
        await hooks.create_push_config(CreatePushConfigRequest(task.id, PushConfig("https://x.example")), ADA)
        await hooks.delete_push_config(DeletePushConfigRequest(task.id, "default"), ADA)

    assert [line for line in notes.lines if line[0] in ("created", "deleted")] == [
        ("created", task.id, "test", "ada", "with the message"),
        ("created", task.id, "test", "ada", task.id),
        ("deleted", task.id, "test", "ada", task.id),
    ]


@pytest.mark.embedded
async def test_a_run_begins_in_the_context_of_its_sender_also_when_it_waited_for_its_turn() -> None:
    sender: ContextVar[str] = ContextVar("sender")
    seen: list[tuple[str, str]] = []

    async def handler(turn: Turn) -> None:
        seen.append((turn.text, sender.get()))
        await asyncio.sleep(0)

    def plain(turn: Turn) -> None:
        seen.append((turn.text, sender.get()))

    for handle in (handler, plain):
        async with bounded(agent_of(handle), limits=Limits(runs_at_once=1)) as client:

            async def send(name: str, client: AgentClient = client) -> None:
                sender.set(name)
                await client.send(name)

            await asyncio.gather(*(send(name) for name in "abc"))

    assert sorted(seen) == [(name, name) for name in "aabbcc"]
