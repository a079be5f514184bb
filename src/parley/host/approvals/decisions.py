"""Decisions: which principal may make one, what a message says, and how a task's log holds it.

A decision is the message that answers the question of a task. One from outside is the approver's own message, with the
name of the principal in its metadata; one from the inbox or of a timer is a message of the host that holds the outcome.
Callers cannot write either member of the metadata.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec
from msgspec import Struct, structs

from parley.agents.forms import InvalidAnswerError
from parley.engine.caller import Caller
from parley.host.access.principal import PRINCIPAL, Principal, principal_of
from parley.host.access.scopes import Scope
from parley.host.approval_rules import Verdict
from parley.host.approvals.questions import decision_form
from parley.host.data.approvals import ApprovalOutcome, ApprovalRequest, RequiredApprover
from parley.protocol.errors import InvalidParamsError, PermissionDeniedError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import DataPart, Message, TextPart
from parley.safe_text import printable

OUTCOME = "urn:parley:host-approval:1"
"""The member of a message's metadata with which the host tells a task how its approval ended."""

RESERVED = (OUTCOME, PRINCIPAL)
"""What only the host writes into the metadata of messages."""


def stamped(message: Message, caller: Caller) -> Message:
    """A message from outside with the name of its sender, which its task's log then holds.

    Raises:
        InvalidParamsError: the message has a member that only the host writes.
    """
    for name in RESERVED:
        if name in message.metadata:
            raise InvalidParamsError("This member is reserved", path=f"$.message.metadata['{name}']")
    sender = principal_of(caller.tenant, caller.scopes, caller.claims).name
    return structs.replace(message, metadata={**message.metadata, PRINCIPAL: sender})


def check_may_decide(request: ApprovalRequest, principal: Principal) -> None:
    """Refuse principals that may not decide about a request. Raises PermissionDeniedError."""
    principal.require(Scope.APPROVE)
    if request.four_eyes and principal.name in (request.requested_by, *request.senders):
        raise PermissionDeniedError("This needs the decision of another principal than the one that asked for it.")
    if not all(_is_approver(required, principal) for required in request.approvers):
        raise PermissionDeniedError("The rule for this step names other approvers.")


def _is_approver(required: RequiredApprover, principal: Principal) -> bool:
    if any(fnmatchcase(principal.name, pattern) for pattern in required.principals):
        return True
    # A role without scopes is one that does not exist.
    return any(scopes and principal.scopes.issuperset(scopes) for scopes in required.roles.values())


def looks_like_decision(message: Message) -> bool:
    """Whether a message is a filled-in form of a decision, or its word, and nothing else."""
    match message.parts:
        case (DataPart(data=dict(data)),):
            return "decision" in data
        case (TextPart(text=text),):
            return (text.lstrip().startswith("{") and '"decision"' in text) or _word_in(text) is not None
        case _:
            return False


def read_decision(message: Message) -> tuple[Verdict, str]:
    """The decision in a message, and its comment.

    Raises:
        InvalidParamsError: the message is not a decision; the text says what is wrong.
    """
    word = _word_in(message.text)
    if word is not None and all(isinstance(part, TextPart) for part in message.parts):
        return word, ""
    try:
        fields = decision_form().read(message)
    except InvalidAnswerError as error:
        raise InvalidParamsError(str(error), path="$.message.parts") from None
    comment = fields.get("comment", "")
    return ("approve" if fields["decision"] == "approve" else "deny"), printable(str(comment))


def _word_in(text: str) -> Verdict | None:
    match text.strip().casefold():
        case "approve":
            return "approve"
        case "deny":
            return "deny"
        case _:
            return None


def outcome_by(verdict: Verdict, by: str, comment: str = "") -> ApprovalOutcome:
    """The outcome of a principal's decision."""
    return ApprovalOutcome(verdict, by, comment, "approved" if verdict == "approve" else "denied")


class _KeptOutcome(Struct, frozen=True):
    """The outcome of an approval, as a message of the host holds it."""

    approval: str
    outcome: ApprovalOutcome


def metadata_of_outcome(approval_id: str, outcome: ApprovalOutcome) -> JsonObject:
    """The metadata of a message of the host that tells a task how an approval ended."""
    return {OUTCOME: msgspec.to_builtins(_KeptOutcome(approval_id, outcome))}


def approval_told_by(message: Message) -> str | None:
    """The id of the approval whose outcome a message of the host tells; None for all other messages."""
    kept = message.metadata.get(OUTCOME)
    return None if kept is None else msgspec.convert(kept, _KeptOutcome).approval


def outcome_in(answer: Message, approval_id: str) -> ApprovalOutcome | None:
    """The outcome that an answer in a task's log holds; None if the answer is not a decision about this approval."""
    kept = answer.metadata.get(OUTCOME)
    if kept is not None:
        told = msgspec.convert(kept, _KeptOutcome)
        return told.outcome if told.approval == approval_id else None
    sender = answer.metadata.get(PRINCIPAL)
    if not isinstance(sender, str):
        return None
    try:
        verdict, comment = read_decision(answer)
    except InvalidParamsError:
        return None
    return outcome_by(verdict, sender, comment)
