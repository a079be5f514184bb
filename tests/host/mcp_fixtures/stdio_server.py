"""`python stdio_server.py [MODE]`: an MCP server over standard input and output.

It writes to the file in `FIXTURE_LOG` when it starts, with which environment, and what is called and cancelled.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from behaviour import NEVER, answer


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def misbehave(name: str) -> None:
    """What a tool does before it answers."""
    match name:
        case "die":
            sys.stderr.write("Traceback: it is over, hunter2-hunter2\n")
            sys.exit(3)
        case "flood":
            note = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 100}}
            while True:
                send(note)
        case "garbage":
            for _ in range(50):
                sys.stdout.write("loading… 50%\n\x1b[31m{'not': json}\n")
        case _:
            pass


def note(line: str) -> None:
    if path := os.environ.get("FIXTURE_LOG"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"{line}\n")


def main(mode: str) -> None:
    note(f"started {os.environ.get('FIXTURE_SECRET', '')} {sorted(os.environ)}")
    if mode == "die_at_start":
        sys.exit(4)
    if mode == "deaf":
        time.sleep(3_600)
    for line in sys.stdin:
        request = json.loads(line)
        method, params = request["method"], request.get("params", {})
        if method == "notifications/cancelled":
            note(f"cancelled {params['requestId']}")
        if "id" not in request:
            continue
        if method == "tools/call":
            note(f"called {params['name']}")
            misbehave(params["name"])
        if method == "tools/call" and params["name"] == "broken":
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": "\\ud800\n')
            sys.stdout.flush()
            continue
        try:
            result = answer(mode, method, params)
        except LookupError:
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        else:
            if result is not NEVER:
                send({"id": request["id"], "result": result})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
