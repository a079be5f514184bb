"""The constitution of an agent: who it is, which model it uses, what it may do. This is what tenants store.

`read_constitution` reads what a caller sent and names the member that is wrong; unknown members are ignored, so that
constitutions written for a newer host can be sent to this one. `render` is its inverse. The module knows neither the
store nor the prompt that a constitution becomes.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import Meta, Struct, structs, to_builtins

from parley.dialects.fields import Fault, Reader
from parley.host.approval_rules import ApprovalRules
from parley.host.budget_limits import BudgetLimit
from parley.host.data.errors import InvalidValueError
from parley.protocol.jsonvalue import JsonObject, JsonValue

Brevity: TypeAlias = Literal["lite", "full", "ultra"]
Mode: TypeAlias = Literal["", "standard", "conversational", "spoken", "writer", "planner"]
Channel: TypeAlias = Literal["", "voice"]
AdvisorMode: TypeAlias = Literal["off", "consult", "gate"]
IntentMode: TypeAlias = Literal["off", "heuristic", "hybrid", "llm"]
WhenBusyMode: TypeAlias = Literal["queue", "interrupt", "refuse"]
PriorityName: TypeAlias = Literal["low", "normal", "high"]

_AGENT_ID = r"^[A-Za-z0-9_-]{1,64}\Z"
_AgentId: TypeAlias = Annotated[str, Meta(pattern=_AGENT_ID)]
# A constitution is part of every prompt: these bounds are far above what a model can make use of.
_Name: TypeAlias = Annotated[str, Meta(max_length=200)]
_Line: TypeAlias = Annotated[str, Meta(max_length=1_000)]
_Text: TypeAlias = Annotated[str, Meta(max_length=20_000)]
_Names: TypeAlias = Annotated[tuple[_Name, ...], Meta(max_length=64)]
_McpTools: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}(/[!-~]{1,128})?\Z")], ...], Meta(max_length=64)
]
_Lines: TypeAlias = Annotated[tuple[_Line, ...], Meta(max_length=64)]
_Rules: TypeAlias = Annotated[tuple[Annotated[str, Meta(max_length=4_000)], ...], Meta(max_length=100)]


class InvalidConstitutionError(InvalidValueError):
    """A constitution is not valid. `path` is the JSON path of the member at fault."""


class Advisor(Struct, frozen=True):
    """A stronger model that the agent may ask, or that checks what it answers."""

    model: _Name = ""
    prompt: _Text = ""
    """Replaces the built-in instructions of the gate."""
    mode: AdvisorMode = "consult"
    max_redirects: Annotated[int, Meta(ge=0, le=10)] = 2
    malformed_halts: bool = True


class MemorySettings(Struct, frozen=True):
    """How the agent uses structured memory."""

    search_expand: bool = False
    auto_tag: bool = False
    auto_supersede: bool = False
    intent_routing: bool = True
    age_decay: bool = True
    age_half_life_days: Annotated[int, Meta(ge=1, le=36_500)] = 90
    age_floor: Annotated[float, Meta(gt=0, le=1)] = 0.5


class Intent(Struct, frozen=True):
    """Whether requests are classified before the agent sees them, and how."""

    mode: IntentMode = "off"
    min_confidence: float = 0.8
    apply_routing: bool = True
    model: _Name = ""


class Constitution(Struct, frozen=True, kw_only=True):
    """An agent as its tenant describes it."""

    id: _AgentId
    name: _Name = ""
    role: _Line = ""
    personality: _Text = ""
    goal: _Text = ""
    brevity: Brevity = "full"
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 1024
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.3
    model: _Name = ""
    """Empty: the host's default model."""
    mode: Mode = ""
    channel: Channel = ""
    advisor: Advisor | None = None
    advisor_model: _Name = ""
    """The older form of `advisor`; always equal to its model."""
    memory: MemorySettings = MemorySettings()
    intent: Intent = Intent()
    rules: _Rules = ()
    capabilities: _Names = ()
    """The commands that the agent may use; empty: all of them."""
    mcp: _McpTools = ()
    """The MCP servers (`time`) and tools (`git/git_log`) that the agent may use; empty: all that the tenant has."""
    event_types: _Names = ()
    examples: _Lines = ()
    """Requests that the agent is made for. Routing and the card's `chat` skill use them."""
    when_busy: WhenBusyMode = "queue"
    """What becomes of a message while its task, or another one of its conversation, is at work."""
    priority: PriorityName = "normal"
    """How urgent requests to this agent are among those of its tenant, if they do not say it themselves."""
    approvals: ApprovalRules = ()
    """Steps of the agent that wait until they are approved, beside those that its tenant's rules name."""
    budget: BudgetLimit | None = None
    """What one request to this agent may use, with everything that it delegates."""


INDEX = Constitution(
    id="index",
    name="index",
    role="orchestrator",
    goal=(
        "Answer the user's request: find the agents whose skills fit, hand each its part of the work, "
        "and make one answer of their results."
    ),
    brevity="lite",
    max_tokens=2048,
    temperature=0.45,
    mode="conversational",
    intent=Intent(mode="hybrid"),
)
"""The master agent that every tenant has. It is not stored and cannot be changed."""

MAX_BYTES = 64 * 1024
"""Of a constitution as JSON: all of them are in memory, and each is part of every prompt of its agent."""

_REQUIRED = ("name", "role", "goal")
_READER = Reader(Constitution)
_CHOICES = {
    "$.mode": get_args(Mode),
    "$.channel": get_args(Channel),
    "$.advisor.mode": get_args(AdvisorMode),
    "$.intent.mode": get_args(IntentMode),
    "$.when_busy": get_args(WhenBusyMode),
    "$.priority": get_args(PriorityName),
}


def is_agent_id(text: str) -> bool:
    """Whether an agent may have this id: 1 to 64 letters, digits, hyphens and underscores."""
    return re.match(_AGENT_ID, text) is not None


def read_constitution(value: JsonObject, *, id: str | None = None) -> Constitution:
    """The constitution in a JSON object. `id` is the agent's id where the caller named it elsewhere, as in a URL.

    Raises:
        InvalidConstitutionError: a member is missing, wrong or out of range, or names another id.
    """
    members = dict(value)
    if len(msgspec.json.encode(value)) > MAX_BYTES:
        raise InvalidConstitutionError(f"may have up to {MAX_BYTES} bytes")
    if id is not None and members.setdefault("id", id) != id:
        raise InvalidConstitutionError("differs from the id of the agent that is addressed", "$.id")
    for name in ("id", *_REQUIRED):
        member = members.get(name)
        if member is None or (isinstance(member, str) and not member.strip()):
            raise InvalidConstitutionError("is required", f"$.{name}")
    if isinstance(members.get("advisor"), str):
        members["advisor"] = {"model": members["advisor"]} if members["advisor"] else None
    if isinstance(members.get("brevity"), str) and members["brevity"] not in get_args(Brevity):
        members["brevity"] = "full"  # as the documents say
    try:
        return _settled(_READER.read_value(members))
    except Fault as fault:
        raise InvalidConstitutionError(_reason(fault), fault.path) from None


def _settled(read: Constitution) -> Constitution:
    """The constitution with its two forms of the advisor made equal, and with a confidence from 0 to 1."""
    advisor = read.advisor
    if advisor is None and read.advisor_model:
        advisor = Advisor(read.advisor_model)
    if advisor and advisor.mode != "off" and not advisor.model:
        raise InvalidConstitutionError("is required unless the advisor's mode is off", "$.advisor.model")
    confidence = min(max(read.intent.min_confidence, 0.0), 1.0)
    return structs.replace(
        read,
        advisor=advisor,
        advisor_model=advisor.model if advisor else "",
        intent=structs.replace(read.intent, min_confidence=confidence),
    )


def _reason(fault: Fault) -> str:
    if fault.path == "$.id":
        return "must be 1 to 64 letters, digits, '_' or '-'"
    if fault.path.startswith("$.mcp["):
        return "must be an MCP server, or one of its tools: 'git' or 'git/git_log'"
    if fault.path in _CHOICES:
        return "must be one of: " + ", ".join(repr(choice) for choice in _CHOICES[fault.path])
    return fault.reason


def render(constitution: Constitution, created_at: int | None = None, updated_at: int | None = None) -> JsonObject:
    """A constitution as the native API shows it. `read_constitution` gives the same constitution again."""
    rendered: JsonObject = {
        "id": constitution.id,
        "name": constitution.name,
        "role": constitution.role,
        "model": constitution.model,
        "goal": constitution.goal,
        "brevity": constitution.brevity,
        "max_tokens": constitution.max_tokens,
        "temperature": constitution.temperature,
    }
    for name in _SHOWN_IF_SET:
        member = getattr(constitution, name)
        if member != _DEFAULTS[name]:
            shown = to_builtins(member)
            rendered[name] = list(cast("tuple[JsonValue, ...]", shown)) if isinstance(shown, tuple) else shown
    if created_at is not None:
        rendered["created_at"] = created_at
    if updated_at is not None:
        rendered["updated_at"] = updated_at
    return rendered


_SHOWN_IF_SET = (
    "advisor",
    "advisor_model",
    "mode",
    "channel",
    "personality",
    "rules",
    "capabilities",
    "mcp",
    "intent",
    "memory",
    "event_types",
    "examples",
    "when_busy",
    "priority",
    "approvals",
    "budget",
)
_DEFAULTS = {field.name: field.default for field in structs.fields(Constitution)}
