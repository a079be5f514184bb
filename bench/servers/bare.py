"""The floor: an ASGI app that reads the body and answers a completed task that it has by heart."""

import json

from serving import Stage, options, serve

TASK = {
    "id": "5e6db433-47ce-4b86-8ff1-7e315fc54142",
    "contextId": "9174c52a-363b-49d7-b415-81f9bd7d3765",
    "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00.000Z"},
    "artifacts": [{"artifactId": "response", "parts": [{"text": "hello"}]}],
}
BODY = json.dumps({"jsonrpc": "2.0", "id": "1", "result": {"task": TASK}}, separators=(",", ":")).encode()
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
REST = {"type": "http.response.body", "body": BODY}


async def app(scope, receive, send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send(REST)


if __name__ == "__main__":
    serve(app, Stage(), send_buffer=options().send_buffer)
