"""Steps that need approval: the run waits before the step until a decision is in its log.

What is asked for is recorded before it is asked, so that a change of the rules while a task waits changes nothing for
it, and a step that has begun is never asked about. The order is: the request into the log, into the inbox, and then the
task waits; afterwards the outcome into the inbox and the audit, and then the step.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import msgspec

from parley.agents.delegation.delegation import depth_of
from parley.agents.elsewhere import ask_elsewhere, question_name
from parley.agents.turn import run_of
from parley.engine.runs.journal import Journal
from parley.host.access.principal import PRINCIPAL
from parley.host.approval_rules import ApprovalRule, Demand, RuleKind, needs_approval_for_spend
from parley.host.approvals.admission import request_in, step_name
from parley.host.approvals.decisions import outcome_in
from parley.host.approvals.questions import MAX_ACTION, approval_id, question_of, shown_action, shown_detail
from parley.host.budgets.estimate import estimate
from parley.host.commands.syntax import Command
from parley.host.data.approvals import ApprovalOutcome, ApprovalRequest, ChainLink, RequiredApprover
from parley.host.data.epoch import milliseconds
from parley.host.data.roles import Grant
from parley.host.models.model import ModelRequest
from parley.host.orchestration.command_subject import demand_for_command
from parley.host.orchestration.turn_context import TurnContext, TurnFailedError
from parley.host.origin import origin_of
from parley.protocol.extensions import DELEGATION
from parley.protocol.messages import Message
from parley.stores.interface import TaskKey

NOT_APPROVED = "not_approved"
"""The error code of a request whose model call was not approved."""


class StepToApprove(msgspec.Struct, frozen=True, kw_only=True):
    """A step as approvers see it."""

    on: RuleKind
    names: tuple[str, ...]
    action: str
    detail: str = ""
    cost: str | None = None
    tokens: int = 0


async def refusal_of_command(context: TurnContext, command: Command, step: str) -> str | None:
    """Wait for the approval of a command, if it needs one. Returns why it must not run; None if it may.

    Raises:
        Stopped: the task waits for a decision.
    """
    found = demand_for_command(_rules(context), command)
    kind, names, demand = found if found is not None else ("command", (command.name,), None)
    line = command.line or f"/{command.name} {command.args}".rstrip()
    detail = "\n".join(filter(None, [line if len(line) > MAX_ACTION else "", command.body]))
    about = StepToApprove(on=kind, names=names, action=line, detail=detail)
    content = hashlib.blake2b(f"{line}\n{command.body}".encode(errors="replace"), digest_size=16).hexdigest()
    outcome = await _outcome(context, about, demand, step, label=f" {content}")
    if outcome is None or outcome.verdict == "approve":
        return None
    return _refusal(f"/{command.name}", outcome)


async def approve_spend(context: TurnContext, model: str, request: ModelRequest, step: str) -> None:
    """Wait for the approval of a model call that may cost or take more than a rule allows without.

    Raises:
        Stopped: the task waits for a decision.
        TurnFailedError: it was denied.
    """
    rules = [rule for rule in _rules(context) if rule.on == "spend"]
    if not rules and not run_of(context.turn).journal.is_replayed:
        return  # as in nearly every call
    bound = estimate(context.services.models, model, request)
    demand = needs_approval_for_spend(rules, cost=bound.cost, tokens=bound.tokens)
    cost = None if bound.cost is None else f"{bound.cost:f}"
    about = StepToApprove(on="spend", names=(model,), action=f"Call {model}", cost=cost, tokens=bound.tokens)
    outcome = await _outcome(context, about, demand, step, label=" spend")
    if outcome is not None and outcome.verdict == "deny":
        raise TurnFailedError(_refusal(f"The call of {model}", outcome), NOT_APPROVED)


def _rules(context: TurnContext) -> tuple[ApprovalRule, ...]:
    return (*context.tenant.settings.approvals, *context.constitution.approvals)


async def _outcome(
    context: TurnContext, about: StepToApprove, demand: Demand | None, step: str, *, label: str
) -> ApprovalOutcome | None:
    """The outcome of the approval of a step; None if it needs none.

    The label is part of what is approved: if a run that begins again came to another command, it would ask again.
    """
    run = run_of(context.turn)
    id = approval_id(context.turn.task_id, step + label)
    request = request_in(run.journal, id)
    if request is None:
        if demand is None or run.journal.has_begun(step):
            return None
        request = await _request(context, about, demand, id)
    kept = run.steps.value(step_name(id), lambda: msgspec.to_builtins(request))
    request = msgspec.convert(kept, ApprovalRequest)
    context.narration.note("approval_requested", agent=context.agent_id, stream_id=0, **_shown(request))
    desk, tenant = context.services.approvals, context.tenant.id
    if not run.journal.has_answer(question_name(id)):
        await run.prepare_effect()
        await desk.request(tenant, request)
    while (outcome := outcome_in(await ask_elsewhere(run, id, question_of(request)), id)) is None:
        pass  # an answer that is not a decision does not count
    context.narration.note(
        "approval_decided",
        agent=context.agent_id,
        stream_id=0,
        approval_id=id,
        decision=outcome.verdict,
        state=outcome.state,
        decided_by=outcome.by,
        comment=outcome.comment,
    )
    if not run.journal.has_begun(step):
        await run.prepare_effect()
        await desk.settle(tenant, request, outcome)
    return outcome


async def _request(context: TurnContext, about: StepToApprove, demand: Demand, id: str) -> ApprovalRequest:
    run = run_of(context.turn)
    now = run.engine.clock.now()
    detail, hidden = shown_detail(about.detail)
    chain, others = await _chain(context)
    return ApprovalRequest(
        id=id,
        request_id=context.turn.task_id,
        agent=context.agent_id,
        on=about.on,
        names=about.names,
        action=shown_action(about.action),
        detail=detail,
        hidden_characters=hidden,
        cost=about.cost,
        tokens=about.tokens,
        requested_by=context.lineage.principal,
        requested_at=milliseconds(now),
        expires_at=_expiry(demand, now),
        default=demand.default,
        approvers=await _approvers(context, demand),
        four_eyes=demand.four_eyes,
        senders=tuple(sorted({sender for journal in (run.journal, *others) for sender in _senders(journal)})),
        messages=demand.messages,
        chain=chain,
    )


def _expiry(demand: Demand, now: datetime) -> int:
    return 0 if demand.timeout is None else milliseconds(now + demand.timeout)


async def _approvers(context: TurnContext, demand: Demand) -> tuple[RequiredApprover, ...]:
    roles, tenant = context.services.roles, context.tenant.id
    found: list[RequiredApprover] = []
    for rule in demand.approvers:
        scopes = {name: tuple(map(str, sorted(await roles.scopes_of(tenant, Grant(name))))) for name in rule.roles}
        found.append(RequiredApprover(rule.principals, scopes))
    return tuple(found)


def _senders(journal: Journal) -> set[str]:
    """The principals that have sent messages to a task while it was at work."""
    names = [message.metadata.get(PRINCIPAL) for message in journal.later_messages]
    return {name for name in names if isinstance(name, str)}


async def _chain(context: TurnContext) -> tuple[tuple[ChainLink, ...], list[Journal]]:
    """The tasks of the host that this one was delegated from, the user's request first, and their logs."""
    run, chain, journals = run_of(context.turn), list[ChainLink](), list[Journal]()
    message: Message | None = run.message
    while message is not None and origin_of(message).delegated_by and len(chain) <= depth_of(run.message):
        parent = message.metadata.get(DELEGATION)
        task_id = parent.get("taskId") if isinstance(parent, dict) else None
        if not isinstance(task_id, str):
            break
        chain.append(ChainLink(task_id, origin_of(message).delegated_by))
        journals.append(Journal.read(await run.engine.views.events(TaskKey(run.key.owner, task_id))))
        message = journals[-1].opening
    return tuple(reversed(chain)), journals


def _shown(request: ApprovalRequest) -> dict[str, msgspec.Raw | str | int]:
    return {
        "approval_id": request.id,
        "on": request.on,
        "action": request.action,
        "requested_by": request.requested_by,
        "expires_at": request.expires_at // 1000,
        "default": request.default,
    }


def _refusal(what: str, outcome: ApprovalOutcome) -> str:
    """Why a step must not be taken, for the model that asked for it, or for the caller."""
    if outcome.state == "expired":
        return f"{what} was not approved in time, so it was not done."
    comment = f" The approver says: {outcome.comment}" if outcome.comment else ""
    return f"{what} was not approved, so it was not done.{comment}"
