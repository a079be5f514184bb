"""Which messages a task takes that waits for approval: decisions of principals that may decide, and nothing else.

These checks are made between the last look at a task and the start of its next run, so a message that passes is the one
that answers. They depend on the journal of the task, and not on records.
"""

from __future__ import annotations

from typing import cast

import msgspec

from parley.agents.elsewhere import id_in_name
from parley.engine.caller import Caller
from parley.engine.runs.journal import Journal
from parley.host.access.principal import PRINCIPAL, principal_of, require_scope
from parley.host.access.scopes import Scope
from parley.host.approvals.decisions import approval_told_by, check_may_decide, looks_like_decision, read_decision
from parley.host.data.approvals import ApprovalRequest
from parley.host.origin import EXTERNAL
from parley.protocol.errors import PermissionDeniedError, UnsupportedOperationError
from parley.protocol.messages import Message

_STEP = "parley:approval "
"""What the names of the values begin with that hold requests in the log."""


class NotWaitingError(UnsupportedOperationError):
    """The task does not wait for this approval, or not any more"""


def step_name(approval_id: str) -> str:
    """The name of the value that holds a request in the log of its task."""
    return _STEP + approval_id


def request_in(journal: Journal, approval_id: str) -> ApprovalRequest | None:
    """The request that a task's log holds; None if the approval belongs to another task."""
    kept = journal.recorded_step(step_name(approval_id))
    return None if kept is None else msgspec.convert(cast("object", kept), ApprovalRequest)


def may_be_decision(message: Message, caller: Caller) -> bool:
    """Whether a message from outside to a task is made like a decision."""
    return message.task_id is not None and EXTERNAL in caller.claims and looks_like_decision(message)


def is_free(message: Message, caller: Caller) -> bool:
    """Whether a message does not count as a request: a decision, of an approver or of the host."""
    if EXTERNAL in caller.claims:
        return Scope.APPROVE in caller.scopes and may_be_decision(message, caller)
    return approval_told_by(message) is not None


def admit_answer(journal: Journal, caller: Caller) -> bool:
    """Look at the newest message of a task that goes on with it. Returns whether the task waited for approval.

    Raises:
        PermissionDeniedError: the task waits for approval, and the sender may not decide; or the sender may do nothing
            but decide, and the task waits for something else.
        InvalidParamsError: the sender may decide, but the message is not a decision.
        NotWaitingError: the host has a decision for the task, and the task waits for something else.
    """
    approval_id, is_external = id_in_name(journal.question_just_answered), EXTERNAL in caller.claims
    message = journal.messages[-1]
    told = None if is_external else approval_told_by(message)
    if told is not None and told != approval_id:
        raise NotWaitingError
    if approval_id is None:
        if is_external:
            require_scope(caller, Scope.CALL)
    elif is_external:
        _admit_decision(journal, message, caller, approval_id)
    elif told is None:
        raise _waits(approval_id)
    return approval_id is not None


def _admit_decision(journal: Journal, message: Message, caller: Caller, approval_id: str) -> None:
    principal = principal_of(caller.tenant, caller.scopes, caller.claims)
    principal.require(Scope.APPROVE)
    request = request_in(journal, approval_id)
    if request is None or message.metadata.get(PRINCIPAL) != principal.name:
        raise _waits(approval_id)
    check_may_decide(request, principal)
    read_decision(message)


def _waits(approval_id: str) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"The task waits for the approval {approval_id}, which is decided with POST /v1/approvals/{approval_id}.",
        details={"approval": approval_id},
    )


def admit_to_running(message: Message, caller: Caller) -> None:
    """Look at a message to a task that is at work, so it waits for nothing.

    Raises:
        NotWaitingError: the host has a decision for it.
        PermissionDeniedError: the sender may do nothing but decide.
    """
    if EXTERNAL in caller.claims:
        require_scope(caller, Scope.CALL)
    elif approval_told_by(message) is not None:
        raise NotWaitingError
