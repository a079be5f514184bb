"""A small server of 1.0 over JSON-RPC whose every answer can be replaced: for faults that ours cannot be given."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

NOT_FOUND, NOT_CANCELABLE, UNSUPPORTED, INVALID = -32001, -32002, -32004, -32602


class Refusal(Exception):
    """An answer with this code."""

    def __init__(self, code: int, data: Any = None) -> None:
        self.code = code
        self.data = data


class Scripted:
    """The server. `replies` replace what it does, by method; each gets the server and the params."""

    def __init__(self, replies: dict[str, Callable[[Scripted, Any], Any]], **capabilities: Any) -> None:
        self.replies = replies
        self.capabilities = {"streaming": True, "pushNotifications": True, **capabilities}
        self.tasks: dict[str, Any] = {}
        self.hooks: dict[str, Any] = {}
        self.numbers = count(1)

    # --- what it does -------------------------------------------------------------------------------------------------

    def new_task(self, params: Any, state: str = "COMPLETED", **members: Any) -> Any:
        """A task that has this state from the beginning."""
        id = f"t-{next(self.numbers)}"
        context = params["message"].get("contextId", f"c-{id}")
        status = {"state": f"TASK_STATE_{state}", "timestamp": "2026-01-01T00:00:00Z"}
        artifact = {"artifactId": "a", "parts": [{"text": "yes"}]}
        self.tasks[id] = {"id": id, "contextId": context, "status": status, "artifacts": [artifact], **members}
        return self.tasks[id]

    def task(self, id: Any) -> Any:
        """A task that is there."""
        if not isinstance(id, str):
            raise Refusal(INVALID)
        if id not in self.tasks:
            raise Refusal(NOT_FOUND)
        return self.tasks[id]

    def answer(self, method: str, params: Any) -> Any:
        """What is right, mostly."""
        match method:
            case "SendMessage":
                if "taskId" in params["message"]:
                    self.task(params["message"]["taskId"])
                    raise Refusal(UNSUPPORTED)
                return {"task": self.new_task(params)}
            case "SendStreamingMessage":
                task = self.new_task(params)
                return [
                    {"task": {**task, "status": {"state": "TASK_STATE_WORKING"}, "artifacts": []}},
                    *self.updates(task),
                ]
            case "GetTask":
                return self.task(params["id"])
            case "ListTasks":
                tasks = [{**task, "artifacts": None} for task in self.tasks.values()]
                return {"tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": len(tasks)}
            case "CancelTask":
                self.task(params["id"])
                raise Refusal(NOT_CANCELABLE)
            case "SubscribeToTask":
                self.task(params["id"])
                raise Refusal(UNSUPPORTED)
            case "CreateTaskPushNotificationConfig":
                self.task(params["taskId"])
                self.hooks[params.setdefault("id", f"h-{next(self.numbers)}")] = params
                return params
            case "GetTaskPushNotificationConfig":
                if params["id"] not in self.hooks:
                    raise Refusal(NOT_FOUND)
                return self.hooks[params["id"]]
            case "ListTaskPushNotificationConfigs":
                return {"configs": list(self.hooks.values())}
            case "DeleteTaskPushNotificationConfig":
                self.hooks.pop(params["id"], None)
                return None
            case _:
                raise Refusal(-32601)

    def updates(self, task: Any) -> list[Any]:
        """The artifact and the end of a task."""
        where = {"taskId": task["id"], "contextId": task["contextId"]}
        return [
            {"artifactUpdate": {**where, "artifact": task["artifacts"][0]}},
            {"statusUpdate": {**where, "status": task["status"]}},
        ]

    # --- how it says it -----------------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (event := await receive()).get("more_body"):
            body += event["body"]
        body += event.get("body", b"")
        if scope["method"] == "GET":
            return await self.reply(send, self.card(scope))
        try:
            request = json.loads(body)
        except ValueError:
            return await self.reply(send, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}})
        if not isinstance(request, dict) or "method" not in request:
            return await self.reply(send, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "?"}})
        envelope = {"jsonrpc": "2.0", "id": request["id"]}
        method, params = request["method"], request.get("params") or {}
        try:
            result = self.replies[method](self, params) if method in self.replies else self.answer(method, params)
        except Refusal as refusal:
            error = {"code": refusal.code, "message": "no", "data": refusal.data}
            return await self.reply(send, {**envelope, "error": error})
        if isinstance(result, list):
            frames = [f"data: {json.dumps({**envelope, 'result': event})}\n\n" for event in result]
            return await self.reply(send, "".join(frames), kind=b"text/event-stream")
        return await self.reply(send, {**envelope, "result": result})

    async def reply(self, send: Any, value: Any, kind: bytes = b"application/json") -> None:
        body = value if isinstance(value, str) else json.dumps(value)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": body.encode()})

    def card(self, scope: Any) -> Any:
        (host,) = [value.decode() for name, value in scope["headers"] if name == b"host"]
        face = {"url": f"http://{host}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return {
            "name": "Scripted",
            "description": "Does as told",
            "version": "1",
            "supportedInterfaces": [face],
            "capabilities": self.capabilities,
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
        }
