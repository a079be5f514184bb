"""The question that asks for an approval: a text that says what will happen, and a form with the decision.

Everything in it that a model or a caller wrote is bounded, made safe to print, and indented, so that it cannot be taken
for a line of the host. Both depend on the request alone: a run that begins again asks the same.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from parley.agents.forms import Form, form_of
from parley.forms.fields import SCHEMA_TYPE
from parley.host.approval_rules import Verdict
from parley.host.data.approvals import ApprovalRequest
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import DataPart, Part, TextPart
from parley.safe_text import printable, printable_line

MAX_COMMENT = 1_000
MAX_ACTION = 300
MAX_DETAIL = 4_000
"""Characters of the arguments that are shown. How many more there are is said."""

SCHEMA: JsonObject = {
    "type": "object",
    "title": "Approval",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["approve", "deny"]},
        "comment": {"type": "string", "title": "Comment", "maxLength": MAX_COMMENT},
    },
    "required": ["decision"],
    "additionalProperties": False,
}

_WORDS: dict[Verdict, str] = {"approve": "approved", "deny": "denied"}


def decision_form() -> Form[JsonObject]:
    """The form of a decision."""
    return form_of(SCHEMA)


def approval_id(task_id: str, step: str) -> str:
    """The id of the approval of a step: the same whenever the task comes to it."""
    return hashlib.blake2b(f"{task_id} {step}".encode(), digest_size=10).hexdigest()


def shown_action(text: str) -> str:
    """What will happen, in one safe line."""
    line = printable_line(text)
    return line if len(line) <= MAX_ACTION else f"{line[: MAX_ACTION - 1]}…"


def shown_detail(text: str) -> tuple[str, int]:
    """Arguments as approvers see them, and how many characters are left out."""
    return printable(text[:MAX_DETAIL]), max(len(text) - MAX_DETAIL, 0)


def question_of(request: ApprovalRequest) -> tuple[Part, ...]:
    """The parts of the question."""
    return TextPart(question_text(request)), DataPart(SCHEMA, SCHEMA_TYPE)


def question_text(request: ApprovalRequest) -> str:
    """What will happen, who asked for it, until when it can be decided, and what happens then."""
    lines = [f"The agent {request.agent} needs approval for this step:", "", f"    {request.action}"]
    if request.detail:
        lines += [f"    {line}" for line in request.detail.split("\n")]
    if request.hidden_characters:
        lines.append(f"    … ({request.hidden_characters} more characters)")
    lines.append("")
    if request.on == "spend":
        cost = "an unknown amount" if request.cost is None else request.cost
        lines.append(f"It may cost up to {cost} and take up to {request.tokens} tokens.")
    lines += [printable_line(message) for message in request.messages]
    through = [link.agent for link in request.chain]
    lines.append(f"Requested by {printable_line(request.requested_by)}{_path([*through, request.agent])}.")
    if request.expires_at:
        lines.append(f"Without a decision by {moment_text(request.expires_at)}, it is {_WORDS[request.default]}.")
    lines.append('Answer with {"decision": "approve"} or {"decision": "deny"}, and a "comment" if you like.')
    return "\n".join(lines)


def _path(agents: list[str]) -> str:
    return f" through {' → '.join(agents)}" if len(agents) > 1 else ""


def moment_text(milliseconds: int) -> str:
    """A moment in milliseconds since 1970, in words."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
