"""The examples of docs/receiving-webhooks.md do what the page says."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import pytest

from parley.client.webhooks.key_sets import KEPT_SECONDS, PAUSE_SECONDS
from parley.client.webhooks.receiver import BODY_SECONDS, WebhookReceiver
from parley.client.webhooks.seen import MAX_IDS, MAX_TASKS
from parley.dialects.registry import DIALECTS
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from tests.client.scripted_agent import TASK, status
from tests.client.webhook_sender import signed_headers
from tests.server.serving import serving

PAGE = (Path(__file__).parents[2] / "docs" / "receiving-webhooks.md").read_text()
WORKING = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.WORKING))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example makes a file


def example(word: str) -> dict[str, Any]:
    """What the example of the page with this word defines."""
    (source,) = [source for source in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if word in source]
    defined: dict[str, Any] = {}
    exec(compile(source, "docs/receiving-webhooks.md", "exec"), defined)
    return defined


def token_of(receiver: WebhookReceiver) -> dict[str, str]:
    return {"X-A2A-Notification-Token": receiver.config.token or "", "Parley-Event-Id": f"{TASK}:4"}


@pytest.mark.anyio
@pytest.mark.parametrize("word", ["Starlette(", "FastAPI()"])
async def test_an_asgi_framework_hands_requests_over(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    defined = example(word)
    headers = token_of(defined["receiver"])
    async with serving(defined["app"]) as http:
        answers = [await http.post("/hook", headers=headers, content=WORKING) for _ in range(2)]
        stranger = await http.post("/hook", content=WORKING)
        challenge = await http.get("/hook?validationToken=abc")
    assert [answer.status_code for answer in (*answers, stranger, challenge)] == [204, 204, 401, 200]
    assert (challenge.text, challenge.headers["x-content-type-options"]) == ("abc", "nosniff")
    assert capsys.readouterr().out.startswith(TASK)


def test_a_wsgi_framework_hands_requests_over(capsys: pytest.CaptureFixture[str]) -> None:
    defined = example("wsgi.input")
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in token_of(defined["receiver"]).items()}

    def call(method: str, query: str = "", **extra: str) -> tuple[str, bytes]:
        statuses: list[str] = []
        body = {"wsgi.input": io.BytesIO(WORKING), "CONTENT_LENGTH": str(len(WORKING))}
        environ = {"REQUEST_METHOD": method, "QUERY_STRING": query, **body, **extra}
        answer = defined["app"](environ, lambda status, headers: statuses.append(status))
        return statuses[0], b"".join(answer)

    assert call("POST", **headers) == ("204 No Content", b"")
    assert call("POST") == ("401 Unauthorized", b"")
    assert call("GET", "validationToken=abc") == ("200 OK", b"abc")
    assert capsys.readouterr().out == f"{TASK}\n"
    defined["receiver"].close()


@pytest.mark.anyio
async def test_both_secrets_of_the_page_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    defined = example("OLD = ")
    for number, name in enumerate(("OLD", "NEW"), 1):
        headers = signed_headers(defined[name], body=WORKING, delivery_id=f"{TASK}:{number}")
        assert (await defined["receiver"].answer("POST", "", headers, WORKING)).status == 204
    assert capsys.readouterr().out == f"{TASK}:1\n{TASK}:2\n"
    assert defined["receiver"].config.authentication.credentials == defined["NEW"]


def test_the_file_of_the_page_remembers(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        defined = example("SqliteSeen(")
        receiver = defined["receiver"]
        asyncio.run(receiver.answer("POST", "", token_of(receiver), WORKING))
        defined["seen"].close()
    assert Path("seen.db").exists()
    assert capsys.readouterr().out == f"{TASK}:4\n"


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"{MAX_IDS:,} ids and {MAX_TASKS:,} tasks" in PAGE
    assert (KEPT_SECONDS, PAUSE_SECONDS, BODY_SECONDS) == (600, 5, 30)
