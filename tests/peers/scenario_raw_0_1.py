"""The scenario, played by a client of dialect 0.1 that knows nothing but the document: raw requests over HTTP.

No SDK speaks 0.1 any more. The requests are those of the 0.1 document, its own samples among them, sent with
`http.client`; and since nothing stands between, this client looks at the ids of the SSE frames too.
"""

import asyncio
import http.client
import json
import urllib.parse
import uuid

from scenario_steps import play, say, settings


class Refused(Exception):
    """A JSON-RPC error, or an HTTP status."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class RawClient:
    lacks = frozenset({"list_tasks", "extended_card"})
    lists_push = False

    def __init__(self, url, *, guarded=None, token=None):
        self.url, self.guarded, self.token = urllib.parse.urlsplit(url), guarded, token
        self.seen_id = None

    def known(self):
        return RawClient(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return RawClient(self.guarded[0])

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    def request(self, method, path, body=None, headers=None):
        """A response that may still be read, and its connection."""
        connection = http.client.HTTPConnection(self.url.netloc, timeout=15)
        headers = {"Content-Type": "application/json", **(headers or {})}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection.request(method, path, body and json.dumps(body), headers)
        return connection, connection.getresponse()

    def exchange(self, method, path, body=None):
        connection, response = self.request(method, path, body)
        try:
            if response.status != 200:
                raise Refused(response.status)
            return json.loads(response.read())
        finally:
            connection.close()

    async def call(self, body):
        """The result of a JSON-RPC request."""
        answer = await asyncio.to_thread(self.exchange, "POST", self.url.path or "/", body)
        if "error" in answer:
            raise Refused(answer["error"]["code"])
        assert answer["jsonrpc"] == "2.0"
        assert answer.get("id") == body.get("id")
        return answer["result"]

    async def follow(self, body, *, after=None):
        """The frames of a stream: their ids, and the results in them."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        path = self.url.path or "/"
        connection, response = await asyncio.to_thread(self.request, "POST", path, body, headers)
        try:
            if response.status != 200:
                raise Refused(response.status)
            frame = {}
            while line := await asyncio.to_thread(response.readline):
                name, _, value = line.decode().rstrip("\r\n").partition(": ")
                if name:
                    frame[name] = value
                elif "data" in frame:
                    answer = json.loads(frame["data"])
                    if "error" in answer:
                        raise Refused(answer["error"]["code"])
                    assert answer.get("id") == body.get("id")
                    self.seen_id = frame.get("id", self.seen_id)
                    yield frame.get("id"), answer["result"]
                    frame = {}
        finally:
            connection.close()

    # --- what the steps use -------------------------------------------------------------------------------------------

    async def card(self):
        card = await asyncio.to_thread(self.exchange, "GET", "/.well-known/agent.json")
        return {
            "name": card["name"],
            "version": card["version"],
            "skills": [skill["id"] for skill in card["skills"]],
            "streaming": card["capabilities"]["streaming"],
            "push": card["capabilities"]["pushNotifications"],
        }

    def sending(self, method, parts, *, task=None, context=None, push=None):
        params = {
            "id": task["id"] if task else str(uuid.uuid4()),
            "sessionId": task["context"] if task else context or str(uuid.uuid4()),
            "message": {"role": "user", "parts": [part_to_send(part) for part in parts]},
        }
        if push:
            params["pushNotification"] = push
        return rpc(method, params)

    async def send(self, parts, **options):
        return seen_task(await self.call(self.sending("tasks/send", parts, **options)))

    async def start(self, parts):
        """A task at work. In 0.1 a send waits, so this one subscribes, and leaves."""
        body = self.sending("tasks/sendSubscribe", parts)
        frames = self.follow(body)
        async for _, result in frames:
            if result.get("status", {}).get("state") == "working":
                await frames.aclose()
                return {"id": result["id"], "state": "working"}
        raise AssertionError("The stream ended early")

    async def stream(self, parts):
        frames = self.follow(self.sending("tasks/sendSubscribe", parts))
        try:
            async for _, result in frames:
                yield seen_event(result)
        finally:
            await frames.aclose()

    async def subscribe(self, task_id, after=None):
        async for _, result in self.follow(rpc("tasks/resubscribe", {"id": task_id}), after=after):
            yield seen_event(result)

    def last_id(self):
        return self.seen_id

    async def get(self, task_id, history=None):
        return seen_task(await self.call(rpc("tasks/get", {"id": task_id, "historyLength": history})))

    async def cancel(self, task_id):
        return seen_task(await self.call(rpc("tasks/cancel", {"id": task_id})))

    async def create_push(self, task_id, config):
        hook = {"url": config["url"], "token": config["token"]}
        body = rpc("tasks/pushNotification/set", {"id": task_id, "pushNotificationConfig": hook})
        return seen_push(await self.call(body), task_id)

    async def get_push(self, task_id, config_id):
        return seen_push(await self.call(rpc("tasks/pushNotification/get", {"id": task_id})), task_id)

    def sight(self, error):
        return error.code if isinstance(error, Refused) else repr(error)


def rpc(method, params, request_id=1):
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def part_to_send(part):
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "data", "data": part["data"]}
    content = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    return {"type": "file", "file": {"name": part["name"], "mimeType": part["type"], **content}}


def seen_part(part):
    if part["type"] != "file":
        return {part["type"]: part[part["type"]]}
    file = part["file"]
    content = {"raw": file["bytes"]} if "bytes" in file else {"url": file["uri"]}
    return {**content, "name": file["name"], "type": file["mimeType"]}


def seen_text(message):
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text") if message else ""


def seen_task(task):
    return {
        "id": task["id"],
        "context": task["sessionId"],
        "state": task["status"]["state"],
        "said": seen_text(task["status"].get("message")),
        "parts": [seen_part(part) for artifact in task.get("artifacts", []) for part in artifact["parts"]],
        "history": [seen_text(message) for message in task.get("history", [])],
    }


def seen_event(event):
    if "status" in event:
        status = event["status"]
        said = seen_text(status.get("message"))
        return {"id": event["id"], "state": status["state"], "said": said, "final": event.get("final", False)}
    artifact = event["artifact"]
    parts = [seen_part(part) for part in artifact["parts"]]
    return {"id": event["id"], "parts": parts, "append": artifact.get("append", False)}


def seen_push(config, task_id):
    hook = config["pushNotificationConfig"]
    return {"id": "the task's" if config["id"] == task_id else config["id"], "url": hook["url"], "token": hook["token"]}


async def ids(client):
    """Every frame has the number of its event, one after the other, and comes with the same number again."""
    body = client.sending("tasks/sendSubscribe", say("count 3"))
    first = [(int(frame_id), result) async for frame_id, result in client.follow(body)]
    again = rpc("tasks/resubscribe", {"id": body["params"]["id"]})
    replayed = [
        [(int(frame_id), result) async for frame_id, result in client.follow(again, after=str(after))]
        for after, _ in first
    ]
    numbers = [number for number, _ in first]
    return {
        "numbers": numbers == list(range(numbers[0], numbers[0] + len(first))),
        "replays": [rest == first[place + 1 :] for place, rest in enumerate(replayed)],
    }


async def document(client):
    """The samples of the 0.1 document, as they are written there: `data` for `parts`, `data` for `bytes`, no ids.

    All but one of them name the same task. Here each conversation has its own.
    """
    task, phone_task, paper_task, session = (str(uuid.uuid4()) for _ in range(4))
    joke = {"role": "user", "data": [{"type": "text", "text": "tell me a joke"}]}
    told = await client.call(rpc("tasks/send", {"id": task, "message": joke, "metadata": {}}))
    got = await client.call(rpc("tasks/get", {"id": task, "historyLength": 10, "metadata": {}}))

    phone = {"role": "user", "parts": [{"type": "text", "text": "request a new phone for me"}]}
    asked = await client.call(rpc("tasks/send", {"id": phone_task, "message": phone, "metadata": {}}))
    android = {"role": "user", "parts": [{"type": "text", "text": "Android"}]}
    answer = {"id": phone_task, "sessionId": asked["sessionId"], "message": android, "metadata": {}}
    ordered = await client.call(rpc("tasks/send", answer, 2))

    hook = {"url": "https://example.com/callback", "authentication": {"schemes": ["jwt"]}}
    kept = await client.call(rpc("tasks/pushNotification/set", {"id": task, "pushNotificationConfig": hook}))
    found = await client.call(rpc("tasks/pushNotification/get", {"id": task}))

    picture = {"type": "file", "file": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    paper = {"role": "user", "parts": [{"type": "text", "text": "files of the attached pictures"}, picture]}
    params = {"id": paper_task, "sessionId": session, "message": paper, "metadata": {}}
    streamed = [result async for _, result in client.follow({"method": "tasks/sendSubscribe", "params": params})]

    rate = {"role": "user", "parts": [{"type": "text", "text": "How much is the exchange rate for 1 USD to INR?"}]}
    query = {"id": f"129-{session}", "sessionId": session, "acceptedOutputModes": ["text"], "message": rate}
    exchanged = await client.call(rpc("tasks/send", query, 11))
    return {
        "joke": {"same": told["id"] == got["id"] == task, **seen(told)},
        "history": [{"role": said["role"], "parts": said["parts"]} for said in got["history"]],
        "asked": {**seen(asked), "message": asked["status"]["message"]["parts"]},
        "ordered": seen(ordered),
        "hook": [config["pushNotificationConfig"] for config in (kept, found) if config["id"] == task],
        "streamed": [streamed[0]["status"]["state"], streamed[-1]["status"]["state"], streamed[-1]["final"]],
        "rate": {"same": (exchanged["id"], exchanged["sessionId"]) == (query["id"], session), **seen(exchanged)},
    }


def seen(task):
    return {
        "state": task["status"]["state"],
        "artifacts": [artifact["parts"] for artifact in task.get("artifacts", [])],
    }


async def main():
    given = settings()
    await play(RawClient(given["url"], guarded=(given["guarded_url"], given["token"])), ids, document)


if __name__ == "__main__":
    asyncio.run(main())
