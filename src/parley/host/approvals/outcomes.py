"""Outcomes of approvals in words, as errors, and as messages to the tasks that wait for them."""

from __future__ import annotations

from parley.host.approval_rules import Verdict
from parley.host.approvals.decisions import metadata_of_outcome
from parley.host.approvals.questions import moment_text
from parley.host.data.approvals import Approval, ApprovalOutcome, ApprovalRequest
from parley.host.data.errors import AlreadyExistsError
from parley.protocol.messages import Message, Role, TextPart
from parley.safe_text import printable_line

HOST_NAME = "host"
"""The principal of what the host does itself."""

WITHDRAWN = ApprovalOutcome("deny", HOST_NAME, "", "withdrawn")

_TEXTS: dict[Verdict, str] = {"approve": "Approved.", "deny": "Denied."}


class DecidedError(AlreadyExistsError):
    """The approval is decided. `approval` says how, by whom and when."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(decided_text(approval))
        self.approval = approval


def decided_text(approval: Approval) -> str:
    """How an approval ended, by whom and when."""
    comment = f": {printable_line(approval.comment[:100])}" if approval.comment else ""
    when = moment_text(approval.decided_at)
    return f"The approval was {approval.state} by {approval.decided_by} at {when}{comment}"


def outcome_of(approval: Approval) -> ApprovalOutcome:
    """The outcome that a record holds."""
    is_default = approval.state == "expired" and approval.request.default == "approve"
    verdict: Verdict = "approve" if approval.state == "approved" or is_default else "deny"
    return ApprovalOutcome(verdict, approval.decided_by, approval.comment, approval.state)


def telling(message_id: str, task_id: str, approval_id: str, outcome: ApprovalOutcome) -> Message:
    """The message that tells a task how an approval ended."""
    return Message(
        message_id,
        Role.USER,
        (TextPart(_TEXTS[outcome.verdict]),),
        task_id=task_id,
        metadata=metadata_of_outcome(approval_id, outcome),
    )


def waking(task_id: str, request: ApprovalRequest, outcome: ApprovalOutcome) -> Message:
    """The message that continues a task which waits with another one: the same, however often it is sent."""
    return telling(f"{request.id}-{task_id}", task_id, request.id, outcome)
