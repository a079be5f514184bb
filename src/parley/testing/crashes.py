"""Whether an agent survives a crash wherever it comes, in one line of its author's test:

    await survives_crashes(agent, "Plan Rome", answers=["3 days"])

The conversation is held once undisturbed. Then it is held again for every write: the process crashes right before the
write, or right after it, and the next process goes on. Each time the task must end in the same state with the same
artifacts, and so must what readers hold that only folded the stream's updates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from parley.contents import Content
from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.program import Program
from parley.protocol.messages import Part, joined, text_of
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Store
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient
from parley.testing.conversation import Answers, Conversation, Crash, crashable, shortened, shown_parts

CURE = (
    "A handler begins again from the top after a crash. What may come out differently then must be a step:"
    " `await turn.step(…)` for a value, `turn.stream(…)` for a text that comes in pieces."
)
ACCEPT = "If the text of a model may differ, and any whole one will do, pass `accept`, such as `FakeModel.said`."
REFERENCE = "Reference: "
"""What the status of a task says whose handler raised an exception."""
REPORT = "The agent has no part in this: it is a fault in Parley. Please report it."


async def survives_crashes(
    agent: Program,
    *contents: Content,
    answers: Answers = (),
    accept: Callable[[str], bool] | None = None,
    folder: Path | None = None,
    caller: Caller = ANONYMOUS_CALLER,
    others: Sequence[Program] = (),
    at_most: int = 400,
) -> Task:
    """Crash an agent at every write of a conversation in turn; returns the task of the undisturbed one.

    `answers` are given to the agent's questions, in order, or by a function of the question's text. `accept` is for an
    agent whose text is different each time: it says whether a text is the whole of one run, such as `FakeModel.said`.
    `others` are agents on the same engine. Tasks are kept in memory, or in SQLite files in a folder if one is given. Of
    more writes than half of `at_most`, only so many are tried, evenly spread.

    Raises:
        AssertionError: a crash changes what the agent says. It shows where the crash was, and both texts.
    """
    stores = _stores(folder)

    async def hold(cut: Crash | None) -> Conversation:
        async with crashable(agent, store=next(stores), caller=caller, others=others) as client:
            conversation = Conversation(client, contents, answers, (cut,) if cut else ())
            await conversation.hold()
            return conversation

    undisturbed = await hold(None)
    expected = Outcome.of(undisturbed)
    assert REFERENCE not in expected.status, "Undisturbed, the agent raises an exception; the log shows it."
    asked = len(undisturbed.questions)
    assert callable(answers) or asked == len(answers), (
        f"Undisturbed, the agent asks {asked} questions, but `answers` has {len(answers)} answers."
    )
    check_readers(undisturbed)
    for crash in _spread(undisturbed.writes, at_most):
        crashed = await hold(crash)
        check_readers(crashed)
        if accept is None:
            _check_same(expected, crashed)
        else:
            _check_accepted(accept, expected, crashed)
    return undisturbed.task


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a conversation came to, without ids and times."""

    state: TaskState
    status: str
    questions: tuple[str, ...]
    artifacts: dict[str, tuple[Part, ...]]

    @classmethod
    def of(cls, conversation: Conversation) -> Outcome:
        """The outcome of a conversation that has ended."""
        task = conversation.task
        said = text_of(task.status.message.parts) if task.status.message else ""
        artifacts = {artifact.artifact_id: joined(artifact.parts) for artifact in task.artifacts}
        questions = tuple(conversation.questions)
        return cls(task.status.state, re.sub(REFERENCE + r"\S+", REFERENCE, said), questions, artifacts)


def check_readers(conversation: Conversation) -> None:
    """Check that each reader holds what the task holds. Raises AssertionError."""
    expected = Outcome.of(conversation).artifacts
    for reader in conversation.readers:
        difference = _difference("the task has", expected, f"{reader.name} holds", reader.artifacts)
        assert not difference, f"{conversation.where}{difference}\n{REPORT}"


def _check_same(expected: Outcome, crashed: Conversation) -> None:
    found = Outcome.of(crashed)
    difference = _difference("undisturbed", expected.artifacts, "after the crash", found.artifacts)
    assert not difference, f"{crashed.where}{difference}\n{CURE}\n{ACCEPT}"
    for name in ("state", "status", "questions"):
        undisturbed, value = getattr(expected, name), getattr(found, name)
        assert value == undisturbed, (
            f"{crashed.where}the task differs in its {name}.\n"
            f"  undisturbed:     {undisturbed}\n  after the crash: {value}\n{CURE}"
        )


def _check_accepted(accept: Callable[[str], bool], expected: Outcome, crashed: Conversation) -> None:
    state, text = crashed.task.status.state, AgentClient.text(crashed.task)
    assert state is expected.state, f"{crashed.where}the task is {state}; undisturbed it is {expected.state}.\n{CURE}"
    assert accept(text), f"{crashed.where}the text is not the whole text of one run: {shortened(text)!r}\n{CURE}"


def _difference(of: str, expected: dict[str, tuple[Part, ...]], by: str, found: dict[str, tuple[Part, ...]]) -> str:
    """The first artifact that differs, as both sides have it."""
    for name in expected.keys() | found.keys():
        if (before := expected.get(name, ())) != (after := found.get(name, ())):
            return f"the artifact {name!r} differs.\n  {of}: {shown_parts(before)}\n  {by}: {shown_parts(after)}"
    return ""


def _stores(folder: Path | None) -> Iterator[Store]:
    for number in count(1):
        yield MemoryStore() if folder is None else SqliteStore(folder / f"conversation-{number}.db")


def _spread(writes: int, at_most: int) -> Iterator[Crash]:
    step = max(1, -(-2 * writes // at_most))
    for number in range(1, writes + 1, step):
        yield Crash("before", number)
        yield Crash("after", number)
