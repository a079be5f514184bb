"""The tasks of a remote agent that wait for an authorization, as a trace has seen them: the answers may be credentials.

Only what was sent while the proxy ran is known, so the answer to an older demand is not recognized.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from parley.protocol.authorization import decode_authorization
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.messages import Message
from parley.protocol.requests import Result, TaskPage
from parley.protocol.tasks import Task, TaskState, TaskStatus

K = TypeVar("K")

MOST = 10_000
"""Tasks that wait, and answers to them; the oldest is dropped. Each takes some hundred bytes."""


class Demands:
    """Which tasks wait for an authorization, by the agent's ids, and which messages have answered them."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._answers: OrderedDict[tuple[str, str], None] = OrderedDict()
        """By the ids of task and message: clients may use the id of a message again for another task."""

    def note(self, sent: Result | StreamEvent) -> None:
        """Note what the agent has sent."""
        match sent:
            case StatusUpdate():
                self._note(sent.task_id, sent.status)
            case Task():
                self._note(sent.id, sent.status)
            case TaskPage():
                for task in sent.tasks:
                    self._note(task.id, task.status)
            case _:
                pass

    def _note(self, task_id: str, status: TaskStatus) -> None:
        # 0.1 has no state of its own for it.
        if status.state is TaskState.AUTH_REQUIRED or decode_authorization(status) is not None:
            _add(self._waiting, task_id)
        else:
            self._waiting.pop(task_id, None)

    def is_answer(self, task_id: str, message: Message) -> bool:
        """Whether a message for a task answers a demand, or is a repeat of one that did."""
        if task_id in self._waiting:
            if message.message_id:
                _add(self._answers, (task_id, message.message_id))
            return True
        return (task_id, message.message_id) in self._answers


def _add(keys: OrderedDict[K, None], key: K) -> None:
    keys[key] = None
    keys.move_to_end(key)
    if len(keys) > MOST:
        keys.popitem(last=False)
