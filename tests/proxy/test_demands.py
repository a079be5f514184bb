"""Which messages the trace takes for answers to a demand for authorization."""

from __future__ import annotations

from parley.protocol.events import StatusUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import TaskState, TaskStatus
from parley.proxy.demands import Demands


def test_a_message_for_another_task_is_no_repeat_of_an_answer_with_its_id() -> None:
    """Clients may number the messages of each task from 1."""
    demands, answer = Demands(), Message("m-1", Role.USER, (TextPart("of-the-bank"),))
    demands.note(StatusUpdate("bank", "c-1", TaskStatus(TaskState.AUTH_REQUIRED)))
    assert demands.is_answer("bank", answer)
    demands.note(StatusUpdate("bank", "c-1", TaskStatus(TaskState.WORKING)))
    assert demands.is_answer("bank", answer), "it is sent again"
    assert not demands.is_answer("weather", Message("m-1", Role.USER, (TextPart("rain?"),)))
