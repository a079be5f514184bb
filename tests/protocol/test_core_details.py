"""Details of the core that the suites of other layers use: detached signatures, messages of a status, busy tasks."""

from __future__ import annotations

import pytest
from joserfc import jws
from joserfc.jwk import ECKey
from msgspec import Struct

from parley.dialects.fields import Fault, Reader
from parley.protocol.errors import SignatureInvalidError, TaskBusyError
from parley.protocol.events import StatusUpdate, TaskCreated
from parley.protocol.lifecycle import fold
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.signing import verify_detached
from parley.protocol.tasks import TaskState, TaskStatus


class StrictBody(Struct, forbid_unknown_fields=True):
    """A body that knows all its members."""

    name: str = ""


def test_a_detached_signature_is_one_of_its_payload_only() -> None:
    key = ECKey.generate_key("P-256")
    keys = {"k": ECKey.import_key(key.as_dict(private=False))}
    protected, _, signed = jws.serialize_compact({"alg": "ES256", "kid": "k"}, b"payload", key).split(".")
    assert verify_detached(f"{protected}..{signed}", b"payload", keys).key_id == "k"
    for signature, payload in ((f"{protected}..{signed}", b"other"), (f"{protected}.cGF5.{signed}", b"payload")):
        with pytest.raises(SignatureInvalidError):
            verify_detached(signature, payload, keys)


def test_the_message_of_a_status_becomes_history_when_the_next_one_comes() -> None:
    said = Message("m", Role.AGENT, (TextPart("At work."),))
    task = fold(
        None,
        [
            TaskCreated("t", "c", TaskStatus(TaskState.SUBMITTED)),
            StatusUpdate("t", "c", TaskStatus(TaskState.WORKING, said)),
            StatusUpdate("t", "c", TaskStatus(TaskState.COMPLETED)),
        ],
    )
    assert task.history == (said,)


def test_a_busy_task_is_named() -> None:
    error = TaskBusyError.for_task("t-1")
    assert (error.message, error.details["taskId"]) == ("The task t-1 is at work", "t-1")


def test_members_that_a_strict_struct_does_not_know_are_refused_by_the_tolerant_reading_too() -> None:
    with pytest.raises(Fault, match="nmae"):
        Reader(StrictBody).read(b'{"nmae": "x", "name": null}')
