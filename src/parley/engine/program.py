"""What the engine needs of an agent: something that runs. `parley.agents` makes one of an author's functions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from parley.engine.caller import Caller
from parley.protocol.messages import Message
from parley.stores.interface import TaskKey

if TYPE_CHECKING:
    from parley.engine.engine import Engine
    from parley.engine.runs.journal import Journal
    from parley.engine.runs.run import Run


class Recovery(StrEnum):
    """What becomes of a task whose run was cut off by a crash."""

    RERUN = "rerun"
    FAIL = "fail"


class OnDivergence(StrEnum):
    """What becomes of a task whose handler begins again and emits something else than before."""

    REPLACE = "replace"
    FAIL = "fail"


class FileSource(Protocol):
    """Fetches files that messages name by URL."""

    def fetch(self, url: str, *, max_bytes: int, seconds: float) -> AsyncGenerator[bytes]:
        """The chunks of a file. Raises an error of its own if it must not or cannot be fetched within these bounds."""
        ...


class Program(Protocol):
    """An agent as the engine sees it."""

    @property
    def id(self) -> str:
        """The name under which its tasks are kept."""
        ...

    @property
    def recovery(self) -> Recovery:
        """What to do with its tasks after a crash."""
        ...

    @property
    def run_attempts(self) -> int:
        """How often its work on a task may crash without making progress before the task is failed."""
        ...

    @property
    def on_divergence(self) -> OnDivergence:
        """What to do when it begins again and emits something else than before."""
        ...

    @property
    def replies_directly(self) -> bool:
        """Whether it answers with messages and keeps no tasks."""
        ...

    @property
    def waits_for_turn(self) -> bool:
        """Whether its runs may wait before they begin to work; each then calls `Run.leave_queue` when it begins."""
        ...

    def admit(self, message: Message, caller: Caller) -> None:
        """Look at a message before anything is made of it.

        One without a task id begins a task. One with a task id goes on with a task: `admit_to_task` is called as well.

        Raises:
            A2AError: the agent does not take such messages, or not from this caller.
        """
        ...

    def admit_to_task(self, journal: Journal, caller: Caller) -> None:
        """Look at a caller that sends a message to a task, of which this is the journal.

        Raises:
            A2AError: this caller may not use what works on the task.
        """
        ...

    def admit_answer(self, journal: Journal, caller: Caller) -> None:
        """Look at a message that continues a task which waits or sleeps; it is the newest one of the journal.

        Raises:
            A2AError: the task does not take this message, or not from this caller.
        """
        ...

    def admit_while_running(self, message: Message, caller: Caller) -> None:
        """Look at a message to a task that is at work, here or at another worker, before it is added to the task.

        Raises:
            TaskBusyError: the message is not to wait until the task reads it.
            RateLimitedError: there are too many messages already.
        """
        ...

    def check_room(self, message: Message, caller: Caller) -> None:
        """Look at the load before a message begins a run; the run begins at once if this passes.

        Raises:
            RateLimitedError: there is too much to do already, for all callers or for this one.
        """
        ...

    async def run(self, run: Run) -> None:
        """Work on a task until it ends or pauses. Whatever it raises ends the task as failed."""
        ...

    async def release(self, engine: Engine, key: TaskKey) -> None:
        """Stop what a task has begun elsewhere, after the task was ended without a run."""
        ...

    def may_reply(self, message: Message, caller: Caller) -> bool:
        """Whether it may answer this message with a message instead of a task."""
        ...
