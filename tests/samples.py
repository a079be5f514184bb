"""One rich example of everything A2A can say, for tests that want realistic values instead of arbitrary ones.

Every optional member is set somewhere; texts are not only ASCII. Nothing here is about a dialect.
"""

from __future__ import annotations

from datetime import UTC, datetime

from parley.protocol import cards as c
from parley.protocol import requests as r
from parley.protocol.errors import WIRE_ERRORS, A2AError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, UrlPart
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.requests import Request, Result
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
CITATIONS = "https://extensions.example/citations/v1"

# --- messages and tasks -----------------------------------------------------------------------------------------------

PARTS = (
    TextPart("Plans für die Woche – jusqu'au dernier œuf", metadata={"lang": "mul"}),
    TextPart("# Menu", "text/markdown", "menu.md"),
    RawPart(b"\x89PNG\x00\xff", "image/png", "soup.png", {"pixels": 12}),
    RawPart(b""),
    UrlPart("https://files.example/menu.pdf", "application/pdf", "menu.pdf", {"pages": 2}),
    DataPart({"guests": 4, "ratio": 0.5, "vegan": True, "note": None, "tags": ["a", 1]}, metadata={"kind": "order"}),
    DataPart(["no", "object"], "application/json"),
    DataPart(None),
)
MESSAGE = Message(
    "m-1",
    Role.USER,
    PARTS,
    context_id="c-1",
    task_id="t-1",
    metadata={"n": 3, CITATIONS: {"style": "short"}},
    extensions=(CITATIONS,),
    reference_task_ids=("t-0", "t-00"),
)
REPLY = Message("m-2", Role.AGENT, (TextPart("Sept dîners."),), "c-1", "t-1")
ARTIFACT = Artifact("a-1", PARTS, "menu", "What there will be", {"draft": False}, (CITATIONS,))


def task_in(state: TaskState) -> Task:
    """A task in this state, with everything a task can have."""
    return Task(
        "t-1",
        "c-1",
        TaskStatus(state, REPLY, NOON),
        (ARTIFACT, Artifact("a-2", (TextPart("more"),))),
        (MESSAGE, REPLY),
        {"desk": "north", "depth": {"a": [1, "two", None]}},
    )


TASKS = tuple(task_in(state) for state in TaskState)
OUR_TASKS = TASKS[:-1]
"""Without `unknown`, which is a state of peers' tasks alone."""
BARE_TASK = Task("t-2", "c-2", TaskStatus(TaskState.SUBMITTED))
EVENTS: tuple[StreamEvent, ...] = (
    task_in(TaskState.WORKING),
    REPLY,
    *(StatusUpdate("t-1", "c-1", TaskStatus(state, REPLY, NOON), {"step": 1}) for state in TaskState),
    ArtifactUpdate("t-1", "c-1", ARTIFACT),
    ArtifactUpdate("t-1", "c-1", ARTIFACT, append=True, last_chunk=True, metadata={"chunk": 2}),
)

# --- webhooks ---------------------------------------------------------------------------------------------------------

PUSH_CONFIG = PushConfig(
    "https://caller.example/hook", "t-1", "hook-1", "token-1", PushAuthentication(("Bearer",), "secret")
)
PUSH_CONFIGS = (PUSH_CONFIG, PushConfig("https://caller.example/other", "t-1", "hook-2"))

# --- the card ---------------------------------------------------------------------------------------------------------

CARD = c.AgentCard(
    name="Recipe desk",
    description="Plans meals – jusqu'au dernier œuf 🥚",
    version="2.4.1",
    interfaces=(
        c.AgentInterface("https://agent.example/a2a", c.Binding.JSONRPC, "1.0", "kitchen"),
        c.AgentInterface("https://agent.example/rest", c.Binding.HTTP_JSON, "1.0"),
        c.AgentInterface("https://agent.example/a2a", c.Binding.JSONRPC, "0.3"),
        c.AgentInterface("https://agent.example", c.Binding.HTTP_JSON, "0.3"),
        c.AgentInterface("agent.example:443", c.Binding.GRPC, "0.3"),
    ),
    capabilities=c.AgentCapabilities(
        streaming=True,
        push_notifications=True,
        extended_card=True,
        state_transition_history=False,
        extensions=(
            c.AgentExtension(CITATIONS, "Names the source of each claim.", True, {"limit": 3, "styles": ["short"]}),
            c.AgentExtension("https://extensions.example/trace/v2"),
        ),
    ),
    skills=(
        c.AgentSkill(
            "plan",
            "Plan a week",
            "Turns wishes into seven dinners.",
            ("planning", "dinner"),
            ("Plan a week without meat",),
            ("text/plain",),
            ("application/json", "text/markdown"),
            ({"login": ("plan",)},),
        ),
        c.AgentSkill("pantry", "Look into the pantry", "Says what is left.", ("pantry",)),
    ),
    default_input_modes=("text/plain", "application/json"),
    default_output_modes=("text/plain",),
    provider=c.AgentProvider("Example Kitchens", "https://kitchens.example"),
    documentation_url="https://kitchens.example/docs",
    icon_url="https://kitchens.example/icon.png",
    security_schemes={
        "key": c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Kitchen-Key", "A key per kitchen."),
        "bearer": c.HttpAuthScheme("Bearer", "JWT", "From the desk."),
        "login": c.OAuth2Scheme(
            c.OAuthFlows(
                authorization_code=c.OAuthFlow(
                    {"plan": "Plan meals"},
                    "https://login.example/authorize",
                    "https://login.example/token",
                    "https://login.example/refresh",
                    pkce_required=True,
                )
            ),
            "https://login.example/.well-known/oauth-authorization-server",
            "Signs a cook in.",
        ),
        "several": c.OAuth2Scheme(
            c.OAuthFlows(
                client_credentials=c.OAuthFlow({"plan": "Plan meals"}, token_url="https://login.example/token"),
                implicit=c.OAuthFlow({}, authorization_url="https://login.example/authorize"),
                password=c.OAuthFlow({"plan": "Plan meals"}, token_url="https://login.example/token"),
                device_code=c.OAuthFlow(
                    {"plan": "Plan meals"},
                    token_url="https://login.example/token",
                    device_authorization_url="https://login.example/device",
                ),
            )
        ),
        "oidc": c.OpenIdConnectScheme("https://login.example/.well-known/openid-configuration", "Single sign-on."),
        "mtls": c.MutualTlsScheme("Kitchen certificates."),
    },
    security=({"login": ("plan", "pantry")}, {"key": (), "mtls": ()}, {"several": ("plan",)}),
    signatures=(c.CardSignature("eyJhbGciOiJFUzI1NiIsImtpZCI6ImsxIn0", "aW52ZW50ZWQ", {"note": "invented"}),),
)
BARE_CARD = c.AgentCard(
    "Bare",
    "Says nothing more.",
    "1",
    (c.AgentInterface("https://bare.example/", c.Binding.JSONRPC, "1.0"),),
    skills=(c.AgentSkill("answer", "Answer", "Answers.", ("talk",)),),
)

# --- what is asked and answered, by the name of the operation ---------------------------------------------------------

_SEND = r.SendMessageRequest(
    MESSAGE,
    r.SendConfiguration(
        ("text/plain", "application/json"),
        PushConfig("https://caller.example/hook", None, "hook-1", "token-1", PUSH_CONFIG.authentication),
        5,
    ),
    {"trace": "abc"},
    "kitchen",
)
_BARE_SEND = r.SendMessageRequest(Message("m-3", Role.USER, (TextPart("hi"),)))
_SEND_NOW = r.SendMessageRequest(_BARE_SEND.message, r.SendConfiguration(return_immediately=True))

REQUESTS: dict[str, tuple[Request, ...]] = {
    "SendMessage": (_SEND, _BARE_SEND, _SEND_NOW),
    "SendStreamingMessage": (_SEND, _BARE_SEND),
    "GetTask": (
        r.GetTaskRequest("t-1"),
        r.GetTaskRequest("t-1", 0),
        r.GetTaskRequest("t-1", 10, {"trace": "abc"}, "kitchen"),
    ),
    "ListTasks": (
        r.ListTasksRequest(),
        r.ListTasksRequest("c-1", TaskState.COMPLETED, 20, "after-20", 3, NOON, True, "kitchen"),
    ),
    "CancelTask": (r.CancelTaskRequest("t-1"), r.CancelTaskRequest("t-1", {"why": "zu spät"}, "kitchen")),
    "SubscribeToTask": (
        r.SubscribeToTaskRequest("t-1"),
        r.SubscribeToTaskRequest("t-1", {"trace": "abc"}, "kitchen"),
    ),
    "CreateTaskPushNotificationConfig": (
        r.CreatePushConfigRequest("t-1", PUSH_CONFIG),
        r.CreatePushConfigRequest("t-1", PushConfig("https://caller.example/hook", "t-1"), tenant="kitchen"),
    ),
    "GetTaskPushNotificationConfig": (r.GetPushConfigRequest("t-1", "hook-1"),),
    "ListTaskPushNotificationConfigs": (
        r.ListPushConfigsRequest("t-1"),
        r.ListPushConfigsRequest("t-1", 20, "after-20", tenant="kitchen"),
    ),
    "DeleteTaskPushNotificationConfig": (r.DeletePushConfigRequest("t-1", "hook-1"),),
    "GetExtendedAgentCard": (r.GetExtendedCardRequest(), r.GetExtendedCardRequest("kitchen")),
}

RESULTS: dict[str, tuple[Result, ...]] = {
    "SendMessage": (*TASKS, BARE_TASK, MESSAGE, REPLY),
    "GetTask": (*TASKS, BARE_TASK),
    "ListTasks": (r.TaskPage(OUR_TASKS, "after-8", 8, 40), r.TaskPage((), "", 50, 0)),
    "CancelTask": (task_in(TaskState.CANCELED),),
    "CreateTaskPushNotificationConfig": PUSH_CONFIGS,
    "GetTaskPushNotificationConfig": PUSH_CONFIGS,
    "ListTaskPushNotificationConfigs": (r.PushConfigPage(PUSH_CONFIGS, "after-2"), r.PushConfigPage()),
    "DeleteTaskPushNotificationConfig": (None,),
    "GetExtendedAgentCard": (CARD, BARE_CARD),
}

ERRORS: tuple[A2AError, ...] = (
    *(error() for error in WIRE_ERRORS),
    *(error("Nicht gefunden", path="$.message.parts[0]", details={"taskId": "t-1"}) for error in WIRE_ERRORS),
)
