"""The eleven operations of A2A in one table, with the name each has in every version and binding.

Servers route by it, clients call by it, and `docs/operations.md` is generated from it. An operation without an entry
for a version does not exist in that version. Spec: 1.0 section 3.1 and 5.3, 0.3 section 3.5.6, 0.1 method list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from parley.protocol import requests as r
from parley.protocol.versions import Version

V0_1, V0_2, V0_3, V1_0 = Version


class Needs(StrEnum):
    """The card capability without which an operation is refused."""

    NOTHING = "nothing"
    STREAMING = "streaming"
    PUSH = "push_notifications"
    EXTENDED_CARD = "extended_card"


@dataclass(frozen=True, slots=True)
class Route:
    """A REST route: verbs, a path template below the interface's URL, and the query parameters it reads."""

    verbs: tuple[str, ...]
    path: str
    query: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation: its 1.0 name, the verb every layer uses for it, and its names on the wire.

    There is one object per operation, so it may be a key.
    """

    name: str
    verb: str
    summary: str
    request: type
    streams: bool = False
    needs: Needs = Needs.NOTHING
    methods: dict[Version, str] = field(default_factory=dict[Version, str])
    routes: dict[Version, Route] = field(default_factory=dict[Version, Route])
    rpcs: dict[Version, str] = field(default_factory=dict[Version, str])


SEND_MESSAGE = Operation(
    name="SendMessage",
    verb="send_message",
    summary="Send a message and wait for the task or the reply.",
    request=r.SendMessageRequest,
    methods={V0_1: "tasks/send", V0_2: "message/send", V0_3: "message/send", V1_0: "SendMessage"},
    routes={V0_3: Route(("POST",), "/v1/message:send"), V1_0: Route(("POST",), "/message:send")},
    rpcs={V0_3: "SendMessage", V1_0: "SendMessage"},
)
SEND_STREAMING_MESSAGE = Operation(
    name="SendStreamingMessage",
    verb="send_streaming_message",
    summary="Send a message and follow what happens.",
    request=r.SendMessageRequest,
    streams=True,
    needs=Needs.STREAMING,
    methods={
        V0_1: "tasks/sendSubscribe",
        V0_2: "message/stream",
        V0_3: "message/stream",
        V1_0: "SendStreamingMessage",
    },
    routes={V0_3: Route(("POST",), "/v1/message:stream"), V1_0: Route(("POST",), "/message:stream")},
    rpcs={V0_3: "SendStreamingMessage", V1_0: "SendStreamingMessage"},
)
GET_TASK = Operation(
    name="GetTask",
    verb="get_task",
    summary="Read a task.",
    request=r.GetTaskRequest,
    methods={V0_1: "tasks/get", V0_2: "tasks/get", V0_3: "tasks/get", V1_0: "GetTask"},
    routes={
        V0_3: Route(("GET",), "/v1/tasks/{id}", ("historyLength",)),
        V1_0: Route(("GET",), "/tasks/{id}", ("historyLength",)),
    },
    rpcs={V0_3: "GetTask", V1_0: "GetTask"},
)
LIST_TASKS = Operation(
    name="ListTasks",
    verb="list_tasks",
    summary="Read the caller's tasks, newest first, a page at a time.",
    request=r.ListTasksRequest,
    methods={V1_0: "ListTasks"},
    routes={
        V1_0: Route(
            ("GET",),
            "/tasks",
            (
                "contextId",
                "status",
                "pageSize",
                "pageToken",
                "historyLength",
                "statusTimestampAfter",
                "includeArtifacts",
            ),
        )
    },
    rpcs={V1_0: "ListTasks"},
)
CANCEL_TASK = Operation(
    name="CancelTask",
    verb="cancel_task",
    summary="Stop a task.",
    request=r.CancelTaskRequest,
    methods={V0_1: "tasks/cancel", V0_2: "tasks/cancel", V0_3: "tasks/cancel", V1_0: "CancelTask"},
    routes={V0_3: Route(("POST",), "/v1/tasks/{id}:cancel"), V1_0: Route(("POST",), "/tasks/{id}:cancel")},
    rpcs={V0_3: "CancelTask", V1_0: "CancelTask"},
)
SUBSCRIBE_TO_TASK = Operation(
    name="SubscribeToTask",
    verb="subscribe_to_task",
    summary="Follow a task that exists already.",
    request=r.SubscribeToTaskRequest,
    streams=True,
    needs=Needs.STREAMING,
    methods={
        V0_1: "tasks/resubscribe",
        V0_2: "tasks/resubscribe",
        V0_3: "tasks/resubscribe",
        V1_0: "SubscribeToTask",
    },
    # The text of both versions says POST, their protobuf annotations GET. Servers take both; clients use the first,
    # because a2a-sdk 0.3 serves GET alone.
    routes={
        V0_3: Route(("GET", "POST"), "/v1/tasks/{id}:subscribe"),
        V1_0: Route(("POST", "GET"), "/tasks/{id}:subscribe"),
    },
    rpcs={V0_3: "TaskSubscription", V1_0: "SubscribeToTask"},
)
CREATE_PUSH_CONFIG = Operation(
    name="CreateTaskPushNotificationConfig",
    verb="create_push_config",
    summary="Register a webhook for a task.",
    request=r.CreatePushConfigRequest,
    needs=Needs.PUSH,
    methods={
        V0_1: "tasks/pushNotification/set",
        V0_2: "tasks/pushNotificationConfig/set",
        V0_3: "tasks/pushNotificationConfig/set",
        V1_0: "CreateTaskPushNotificationConfig",
    },
    routes={
        V0_3: Route(("POST",), "/v1/tasks/{id}/pushNotificationConfigs"),
        V1_0: Route(("POST",), "/tasks/{id}/pushNotificationConfigs"),
    },
    rpcs={V0_3: "CreateTaskPushNotificationConfig", V1_0: "CreateTaskPushNotificationConfig"},
)
GET_PUSH_CONFIG = Operation(
    name="GetTaskPushNotificationConfig",
    verb="get_push_config",
    summary="Read one webhook of a task.",
    request=r.GetPushConfigRequest,
    needs=Needs.PUSH,
    methods={
        V0_1: "tasks/pushNotification/get",
        V0_2: "tasks/pushNotificationConfig/get",
        V0_3: "tasks/pushNotificationConfig/get",
        V1_0: "GetTaskPushNotificationConfig",
    },
    routes={
        V0_3: Route(("GET",), "/v1/tasks/{id}/pushNotificationConfigs/{config_id}"),
        V1_0: Route(("GET",), "/tasks/{id}/pushNotificationConfigs/{config_id}"),
    },
    rpcs={V0_3: "GetTaskPushNotificationConfig", V1_0: "GetTaskPushNotificationConfig"},
)
LIST_PUSH_CONFIGS = Operation(
    name="ListTaskPushNotificationConfigs",
    verb="list_push_configs",
    summary="Read all webhooks of a task.",
    request=r.ListPushConfigsRequest,
    needs=Needs.PUSH,
    methods={
        V0_2: "tasks/pushNotificationConfig/list",
        V0_3: "tasks/pushNotificationConfig/list",
        V1_0: "ListTaskPushNotificationConfigs",
    },
    routes={
        V0_3: Route(("GET",), "/v1/tasks/{id}/pushNotificationConfigs", ("pageSize", "pageToken")),
        V1_0: Route(("GET",), "/tasks/{id}/pushNotificationConfigs", ("pageSize", "pageToken")),
    },
    rpcs={V0_3: "ListTaskPushNotificationConfig", V1_0: "ListTaskPushNotificationConfigs"},
)
DELETE_PUSH_CONFIG = Operation(
    name="DeleteTaskPushNotificationConfig",
    verb="delete_push_config",
    summary="Remove a webhook of a task.",
    request=r.DeletePushConfigRequest,
    needs=Needs.PUSH,
    methods={
        V0_2: "tasks/pushNotificationConfig/delete",
        V0_3: "tasks/pushNotificationConfig/delete",
        V1_0: "DeleteTaskPushNotificationConfig",
    },
    routes={
        V0_3: Route(("DELETE",), "/v1/tasks/{id}/pushNotificationConfigs/{config_id}"),
        V1_0: Route(("DELETE",), "/tasks/{id}/pushNotificationConfigs/{config_id}"),
    },
    rpcs={V0_3: "DeleteTaskPushNotificationConfig", V1_0: "DeleteTaskPushNotificationConfig"},
)
GET_EXTENDED_CARD = Operation(
    name="GetExtendedAgentCard",
    verb="get_extended_card",
    summary="Read the card that only authenticated callers see.",
    request=r.GetExtendedCardRequest,
    needs=Needs.EXTENDED_CARD,
    methods={V0_3: "agent/getAuthenticatedExtendedCard", V1_0: "GetExtendedAgentCard"},
    routes={V0_3: Route(("GET",), "/v1/card"), V1_0: Route(("GET",), "/extendedAgentCard")},
    rpcs={V0_3: "GetAgentCard", V1_0: "GetExtendedAgentCard"},
)

OPERATIONS: tuple[Operation, ...] = (
    SEND_MESSAGE,
    SEND_STREAMING_MESSAGE,
    GET_TASK,
    LIST_TASKS,
    CANCEL_TASK,
    SUBSCRIBE_TO_TASK,
    CREATE_PUSH_CONFIG,
    GET_PUSH_CONFIG,
    LIST_PUSH_CONFIGS,
    DELETE_PUSH_CONFIG,
    GET_EXTENDED_CARD,
)

BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}


def methods_of(version: Version) -> dict[str, Operation]:
    """The JSON-RPC methods of a version: `{"tasks/send": SEND_MESSAGE, …}` for 0.1."""
    return {op.methods[version]: op for op in OPERATIONS if version in op.methods}


def routes_of(version: Version) -> list[tuple[Route, Operation]]:
    """The REST routes of a version, in table order; empty where it has no REST binding."""
    return [(op.routes[version], op) for op in OPERATIONS if version in op.routes]


def rpcs_of(version: Version) -> dict[str, Operation]:
    """The gRPC methods of a version: `{"TaskSubscription": SUBSCRIBE_TO_TASK, …}` for 0.3."""
    return {op.rpcs[version]: op for op in OPERATIONS if version in op.rpcs}
