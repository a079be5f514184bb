"""Approvals: the inbox of what waits for a decision, and the decisions.

A caller sees what its tenant has; whether it may decide about one is looked up when it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, to_builtins

from parley.host.access.scopes import Scope
from parley.host.api.query_parameters import LimitParameter, TextParameter, read_number
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.approval_rules import ApprovalRules, Verdict
from parley.host.approvals.outcomes import DecidedError
from parley.host.approvals.questions import MAX_COMMENT, question_text
from parley.host.constitution import is_agent_id
from parley.host.data.approvals import Approval, ApprovalState, ChainLink
from parley.host.errors import BadRequest, Conflict
from parley.protocol.errors import PermissionDeniedError
from parley.protocol.jsonvalue import JsonObject
from parley.safe_text import printable

ListedState: TypeAlias = Literal["pending", "decided"]

MOST_READ = 2_000
"""Approvals that one request for those of one agent reads."""

LIMIT = LimitParameter(default=50, most=200)
AGENT = TextParameter("agent", "Only approvals that this agent asked for.")
CURSOR = TextParameter("cursor", "The `next_cursor` of the page before.")


@dataclass(frozen=True, slots=True)
class StateParameter:
    """Which of the two lists is shown."""

    name: str = "state"
    description: str = "What waits (`pending`, the default), or what is over (`decided`)."

    @property
    def schema(self) -> JsonObject:
        """See `QueryParameter`."""
        return {"type": "string", "enum": ["pending", "decided"], "default": "pending"}

    def read(self, values: Sequence[str]) -> ListedState:
        """The list. Raises BadRequest if there is none of this name."""
        match list(values):
            case [] | ["pending"]:
                return "pending"
            case ["decided"]:
                return "decided"
            case _:
                raise BadRequest("state: must be 'pending' or 'decided'")


STATE = StateParameter()


class ApprovalView(Struct, frozen=True, kw_only=True):
    """An approval. Times are seconds since 1970; 0: none, or not yet."""

    id: str
    state: ApprovalState
    request_id: str
    """The request that waits."""
    agent: str
    on: str
    """What the rule is about: a command, a delegation, a tool of an MCP server, or what a model call may cost."""
    names: Sequence[str]
    action: str
    """What will happen, in one line."""
    detail: str
    hidden_characters: int
    """How much of the arguments `detail` does not show."""
    cost: str | None
    tokens: int
    text: str
    """All of it in words, as the task asks."""
    requested_by: str
    requested_at: int
    expires_at: int
    default: Verdict
    """What counts when the time is over."""
    four_eyes: bool
    """Whether `requested_by` may not decide."""
    chain: Sequence[ChainLink]
    """The requests that wait for this one, from the user's own on."""
    decided_by: str
    decided_at: int
    comment: str


class ApprovalPage(Struct, frozen=True):
    """Approvals, the newest first."""

    approvals: Sequence[ApprovalView]
    next_cursor: str | None


class DecisionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision."""

    decision: Verdict
    comment: Annotated[str, Meta(max_length=MAX_COMMENT)] = ""


class TenantApprovalRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules for all agents of a tenant. Rules of agents add to them."""

    rules: ApprovalRules


async def list_approvals(call: ApiCall[None]) -> Answer:
    """A page of the inbox, or of what is decided."""
    _require_either(call)
    is_pending, limit, agent = call.query(STATE) == "pending", call.query(LIMIT), call.query(AGENT)
    if agent and not is_agent_id(agent):
        raise BadRequest("agent: must be the id of an agent")
    desk, tenant, after = call.host.approvals, call.tenant.id, _read_cursor(call.query(CURSOR))
    found: list[Approval] = []
    for _ in range(MOST_READ // LIMIT.most):
        page = await desk.approvals.list(tenant, is_pending=is_pending, after=after, limit=LIMIT.most)
        for approval in page:
            after = approval.sort, approval.request.id
            if agent and approval.request.agent != agent:
                continue
            current = await desk.refreshed(tenant, approval)
            if (current.state == "pending") == is_pending:
                found.append(current)
                if len(found) == limit:
                    return Answer(_page(found, after))
        if len(page) < LIMIT.most:
            return Answer(_page(found, None))
    return Answer(_page(found, after))


async def get_approval(call: ApiCall[None]) -> Answer:
    """One approval."""
    _require_either(call)
    desk, tenant = call.host.approvals, call.tenant.id
    return Answer(view_of(await desk.refreshed(tenant, await desk.approvals.get(tenant, call.path["id"]))))


async def decide_approval(call: ApiCall[DecisionBody]) -> Answer:
    """Approve or deny."""
    body = call.body
    try:
        approval = await call.host.approvals.decide(
            call.tenant.id,
            call.path["id"],
            body.decision,
            principal=call.principal,
            comment=printable(body.comment),
        )
    except DecidedError as error:
        raise Conflict(error.message, more={"approval": to_builtins(view_of(error.approval))}) from None
    return Answer(view_of(approval))


async def get_rules(call: ApiCall[None]) -> Answer:
    """The rules for all agents of the tenant."""
    return Answer(TenantApprovalRules(call.tenant.settings.approvals))


async def put_rules(call: ApiCall[TenantApprovalRules]) -> Answer:
    """Replace the rules for all agents of the tenant. A token that only manages cannot remove what holds it back."""
    call.principal.require(Scope.APPROVE)
    settings: JsonObject = {"approvals": list(to_builtins(call.body.rules))}
    changed = await call.host.tenants.update(call.tenant.id, settings=settings, actor=call.actor)
    return Answer(TenantApprovalRules(changed.settings.approvals))


def view_of(approval: Approval) -> ApprovalView:
    """An approval as the API shows it."""
    request = approval.request
    return ApprovalView(
        id=request.id,
        state=approval.state,
        request_id=request.request_id,
        agent=request.agent,
        on=request.on,
        names=request.names,
        action=request.action,
        detail=request.detail,
        hidden_characters=request.hidden_characters,
        cost=request.cost,
        tokens=request.tokens,
        text=question_text(request),
        requested_by=request.requested_by,
        requested_at=request.requested_at // 1000,
        expires_at=request.expires_at // 1000,
        default=request.default,
        four_eyes=request.four_eyes,
        chain=request.chain,
        decided_by=approval.decided_by,
        decided_at=approval.decided_at // 1000,
        comment=approval.comment,
    )


def _page(found: Sequence[Approval], after: tuple[int, str] | None) -> ApprovalPage:
    cursor = None if after is None else f"{after[0]}-{after[1]}"
    return ApprovalPage([view_of(approval) for approval in found], cursor)


def _read_cursor(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    number, dash, id = text.partition("-")
    sort = read_number(number)
    if sort is None or not dash or not id.isalnum() or len(id) > 64:
        raise BadRequest("cursor: must be the next_cursor of a page")
    return sort, id


def _require_either(call: ApiCall[Any]) -> None:
    """Approvers and readers may look at approvals."""
    if not (call.principal.may(Scope.APPROVE) or call.principal.may(Scope.READ)):
        raise PermissionDeniedError("This needs the scope 'approve' or 'read', which this token does not have.")


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/approvals",
        handler=list_approvals,
        needs_scope=False,
        summary="List approvals",
        description="Needs the scope `approve` or `read`.",
        query=[STATE, AGENT, LIMIT, CURSOR],
        replies=[ApiReply(ApprovalPage)],
        errors=[400],
    ),
    ApiRoute(
        method="GET",
        path="/v1/approvals/{id}",
        handler=get_approval,
        needs_scope=False,
        summary="Read an approval",
        description="Needs the scope `approve` or `read`.",
        replies=[ApiReply(ApprovalView)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/approvals/{id}",
        handler=decide_approval,
        scope=Scope.APPROVE,
        summary="Approve or deny",
        description="One that is decided, expired or withdrawn is a conflict, whose `approval` says by whom and when.",
        body=BodyReader(DecisionBody),
        replies=[ApiReply(ApprovalView)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/approval_rules",
        handler=get_rules,
        summary="Read the rules for all agents of the tenant",
        replies=[ApiReply(TenantApprovalRules)],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/approval_rules",
        handler=put_rules,
        scope=Scope.MANAGE,
        summary="Replace the rules for all agents of the tenant",
        description="Needs the scopes `manage` and `approve`.",
        body=BodyReader(TenantApprovalRules),
        replies=[ApiReply(TenantApprovalRules)],
        errors=[400],
    ),
)
