"""A server of dialect 0.1 that knows nothing but the document: its answers have the shape of the samples there.

No SDK speaks 0.1 any more. Like the samples it leaves out what is optional: messages without a role, artifacts without
an index, times without a zone, events without numbers; and it tells a finished task's last word to who comes late.
"""

import asyncio
import json
from datetime import datetime

from server_process import GATES, MODES, SKILLS, counting, listening

SESSION = "c295ea44-7543-4f78-b524-7a38915ad6e4"
CONTENT_TYPE, NOT_CANCELABLE, NOT_FOUND, INVALID, NO_METHOD = -32005, -32002, -32001, -32602, -32601


class Refused(Exception):
    """A JSON-RPC error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": None}


def text_part(text):
    return {"type": "text", "text": text}


class Task:
    """A task and those who watch it."""

    def __init__(self, params):
        self.id, self.session = params["id"], params.get("sessionId") or SESSION
        self.status, self.artifacts, self.history = {"state": "submitted"}, [], []
        self.hook, self.work, self.watchers, self.changed = None, None, [], asyncio.Event()

    def as_json(self, history=0):
        seen = {"id": self.id, "sessionId": self.session, "status": self.status, "metadata": {}}
        if self.artifacts:
            seen["artifacts"] = [{"parts": artifact["parts"]} for artifact in self.artifacts]
        if history:
            seen["history"] = self.history[-history:]
        return seen

    def enter(self, state, text=None, *, final=False):
        self.status = {"state": state, "timestamp": datetime.now().isoformat()}
        if text:
            self.status["message"] = {"parts": [text_part(text)]}
        self.tell({"id": self.id, "status": self.status, "final": final})
        if final:
            self.changed.set()

    def add(self, parts, *, append=False, last=True):
        if append:
            self.artifacts[-1]["parts"] = [*self.artifacts[-1]["parts"], *parts]
        else:
            self.artifacts.append({"parts": parts})
        chunk = {"parts": parts, "index": len(self.artifacts) - 1, "append": append, "lastChunk": last}
        self.tell({"id": self.id, "artifact": chunk})

    def tell(self, event):
        for watcher in self.watchers:
            watcher.put_nowait(event)

    @property
    def is_at_work(self):
        return self.status["state"] in ("submitted", "working")


class Desk:
    """The agent and its methods."""

    def __init__(self):
        self.tasks = {}

    def task(self, params):
        if params.get("id") not in self.tasks:
            raise Refused(NOT_FOUND, "Task not found")
        return self.tasks[params["id"]]

    def begin(self, params):
        message = params.get("message", {})
        parts = message.get("parts")
        if not parts:
            raise Refused(INVALID, "Invalid parameters")
        for part in parts:
            if part["type"] == "file" and part["file"].get("mimeType") not in MODES:
                raise Refused(CONTENT_TYPE, "Incompatible content types")
        task = self.tasks.setdefault(params["id"], Task(params))
        is_answer = task.status["state"] == "input-required"
        task.history.append(message)
        task.changed.clear()
        task.hook = params.get("pushNotification") or task.hook
        if not is_answer:
            task.enter("submitted")
        task.work = asyncio.create_task(self.answer(task, parts) if is_answer else self.obey(task, parts))
        return task

    async def answer(self, task, parts):
        task.add([text_part(f"A table for {parts[0]['text']}.")])
        task.enter("completed", final=True)

    async def obey(self, task, parts):
        task.enter("working")
        text = parts[0]["text"]
        ending = "completed", None
        match text.split()[0]:
            case "echo":
                task.add([text_part(text.removeprefix("echo "))])
            case "count":
                await self.count(task, text)
            case "open":
                GATES[text.split()[1]].set()
                task.add([text_part("open")])
            case "files":
                task.add(parts[1:])
            case "data":
                task.add([{"type": "data", "data": {"got": parts[1]["data"]}}])
            case "wait":
                await asyncio.Event().wait()
            case "ask":
                ending = "input-required", "For how many?"
            case "fail":
                ending = "failed", "The oven is broken."
            case "reject":  # for which 0.1 has no word
                ending = "failed", "Not on Sundays."
        task.enter(*ending, final=True)

    async def count(self, task, text):
        last, pause, gate = counting(text)
        for number in range(1, last + 1):
            task.add([text_part(f"{number} ")], append=number > 1, last=number == last)
            if number == pause:
                await GATES[gate].wait()

    # --- methods ------------------------------------------------------------------------------------------------------

    async def call(self, method, params):
        match method:
            case "tasks/send":
                task = self.begin(params)
                await task.changed.wait()
                return task.as_json()
            case "tasks/get":
                return self.task(params).as_json(params.get("historyLength") or 0)
            case "tasks/cancel":
                task = self.task(params)
                if not task.is_at_work:
                    raise Refused(NOT_CANCELABLE, "Task cannot be canceled")
                task.work.cancel()
                task.enter("canceled", final=True)
                return task.as_json()
            case "tasks/pushNotification/set":
                task = self.task(params)
                task.hook = params["pushNotificationConfig"]
                return {"id": task.id, "pushNotificationConfig": task.hook}
            case "tasks/pushNotification/get":
                task = self.task(params)
                return {"id": task.id, "pushNotificationConfig": task.hook} if task.hook else None
        raise Refused(NO_METHOD, "Method not found")

    async def follow(self, method, params):
        queue = asyncio.Queue()
        if method == "tasks/resubscribe":
            task = self.task(params)
            if not task.is_at_work:
                yield {"id": task.id, "status": task.status, "final": True}
                return
        else:
            task = self.begin(params)
        task.watchers.append(queue)
        try:
            while True:
                event = await queue.get()
                yield event
                if event.get("final"):
                    return
        finally:
            task.watchers.remove(queue)


class Server:
    """HTTP as little as it takes: one request a connection."""

    def __init__(self, card):
        self.card, self.desk = card, Desk()

    async def __call__(self, reader, writer):
        try:
            line = (await reader.readline()).decode()
            size = 0
            while (header := (await reader.readline()).decode().strip().lower()) != "":
                name, _, value = header.partition(":")
                size = int(value) if name == "content-length" else size
            body = await reader.readexactly(size)
            if line.startswith("POST "):
                await self.post(json.loads(body), writer)
            elif line.startswith("GET /.well-known/agent.json "):
                self.reply(writer, self.card)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def reply(self, writer, value):
        content = json.dumps(value).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + content)

    async def post(self, request, writer):
        method, params = request["method"], request.get("params", {})
        envelope = {"jsonrpc": "2.0", "id": request.get("id")}
        try:
            if method not in ("tasks/sendSubscribe", "tasks/resubscribe"):
                self.reply(writer, {**envelope, "result": await self.desk.call(method, params)})
                return
            is_open = False
            async for event in self.desk.follow(method, params):
                if not is_open:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
                    is_open = True
                writer.write(f"data: {json.dumps({**envelope, 'result': event})}\n\n".encode())
                await writer.drain()
        except Refused as refused:
            self.reply(writer, {**envelope, "error": refused.error})


async def main():
    door, port = listening()
    url = f"http://127.0.0.1:{port}"
    card = {
        "name": "Scenario",
        "description": "Does what the interop tests ask for.",
        "url": url,
        "version": "4.2.0",
        "capabilities": {"streaming": True, "pushNotifications": True},
        "authentication": {"schemes": ["public"]},
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": SKILLS,
    }
    server = await asyncio.start_server(Server(card), sock=door)
    print(json.dumps({"url": url}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
