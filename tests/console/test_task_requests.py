"""Events and requests in every dialect and binding; the curl commands and the Python really work."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.console.backend import OwnAgent
from parley.console.tasks.requests import RequestTarget, request_forms
from parley.console.tasks.wire_forms import forms_of
from parley.protocol.events import ArtifactUpdate, NoteAdded, StatusUpdate, TaskCreated
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart, UrlPart
from parley.protocol.tasks import Artifact, TaskState, TaskStatus
from parley.server.run import Serving
from tests.console.consoles import console_of
from tests.console.test_task_lists import NOON, echo_agent, send
from tests.console.test_task_logs import get

pytestmark = pytest.mark.anyio

HOSTILE = 'it\'s "quoted" $(touch pwned) `touch pwned` \\ %s\n\u202e<script>ü🥚'

FORMS = [
    ("1.0", "JSONRPC"),
    ("1.0", "HTTP+JSON"),
    ("1.0", "GRPC"),
    ("0.3", "JSONRPC"),
    ("0.3", "HTTP+JSON"),
    ("0.3", "GRPC"),
    ("0.2", "JSONRPC"),
    ("0.1", "JSONRPC"),
]


async def run(*command: str, folder: Path) -> str:
    """What a program prints. An error of the test if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return out.decode()


def test_every_event_has_every_form() -> None:
    status = TaskStatus(TaskState.WORKING, Message("m", Role.AGENT, (TextPart("busy"),)), NOON)
    for event in (
        TaskCreated("t-1", "c-1", TaskStatus(TaskState.SUBMITTED, None, NOON)),
        StatusUpdate("t-1", "c-1", status),
        ArtifactUpdate("t-1", "c-1", Artifact("a", (TextPart("x"), DataPart({"n": 1}), RawPart(b"\0")), index=0)),
    ):
        forms = forms_of(event)
        assert [(form.version, form.binding) for form in forms] == FORMS
        for form in forms:
            assert (form.reason, form.body is None) == ("", False), form.title
            assert "t-1" in json.dumps(form.body)
    jsonrpc = forms_of(StatusUpdate("t-1", "c-1", status))[3]
    assert isinstance(jsonrpc.body, dict)
    assert jsonrpc.body["result"]["kind"] == "status-update"  # pyright: ignore
    forms = forms_of(NoteAdded("t-1", "c-1", "token_usage", {"input_tokens": 1}))
    assert {(form.body, form.reason) for form in forms} == {(None, "No dialect streams this event")}


@pytest.mark.deadline(240)
async def test_the_commands_and_programs_send_the_message(tmp_path: Path) -> None:
    """Also a message that a shell or Python could misread. Every command is run by a real shell."""
    curl = shutil.which("curl")
    assert curl is not None
    async with console_of(echo_agent(), serving=Serving(port=0, grpc_port=0)) as server:
        browser = await server.browser()
        task = await send(browser, HOSTILE)
        forms = (await get(browser, f"{task['id']}/request?agent=echo"))["request"]["forms"]
        assert [(form["version"], form["binding"]) for form in forms] == FORMS
        for form in forms:
            title = form["title"]
            assert form["reason"] == "", title
            for text in (form["curl"], form["python"]):
                assert text.isascii()
            if form["binding"] != "GRPC":
                shown = await run("/bin/sh", "-c", form["curl"], folder=tmp_path)
                assert "touch pwned" in shown, (title, shown)
                assert "error" not in shown, (title, shown)
            program = tmp_path / "program.py"
            program.write_text(form["python"])
            shown = await run(sys.executable, str(program), folder=tmp_path)
            assert f"You said {HOSTILE}" in shown, (title, shown)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py"]
        titles = [row["title"] for row in (await browser.get("/console/api/tasks?limit=200")).json()["tasks"]]
        assert len(titles) == 1 + 6 + 8


async def test_an_answer_is_shown_as_a_message_to_its_task() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        asked = await send(browser, "ask")
        await send(browser, "this one", task=asked["id"])
        log = (await get(browser, f"{asked['id']}/log"))["events"]
        first, answer = [event["seq"] for event in log if event["kind"] == "message-added"]
        begun = (await get(browser, f"{asked['id']}/log/{first}"))["request"]["forms"][0]
        assert "taskId" not in begun["body"]["params"]["message"]
        form = (await get(browser, f"{asked['id']}/log/{answer}"))["request"]["forms"][0]
        message = form["body"]["params"]["message"]
        assert (message["taskId"], message["parts"]) == (asked["id"], [{"text": "this one"}])
        assert message["messageId"] not in json.dumps(log)
        status = next(event["seq"] for event in log if event["kind"] == "status")
        assert (await get(browser, f"{asked['id']}/log/{status}"))["request"] is None


def test_what_a_host_has_added_and_large_files_are_left_out() -> None:
    agent = OwnAgent(
        id="writer",
        program_id="3/writer",
        name="Writer",
        description="",
        path="/v1/a2a/agents/writer",
        rest_path="/v1/a2a/agents/writer/rest",
        skills=0,
        streams=True,
    )
    message = Message(
        "m-1",
        Role.USER,
        (RawPart(b"x" * 20_000, filename="big.bin"), UrlPart("https://files.example/a"), DataPart({"a": None})),
        "c-1",
        "t-1",
        {"urn:parley:host-origin:1": {"surface": "chat"}, "own": True},
    )
    target = RequestTarget(agent, "https://host.example", None, needs_token=True)
    found = request_forms(message, target, "new", began_task=True)
    assert found is not None
    by_name: dict[tuple[str, str], Any] = {(form.version, form.binding): form for form in found.forms}
    rest = by_name["1.0", "HTTP+JSON"]
    assert rest.url == "https://host.example/v1/a2a/agents/writer/rest/message:stream"
    assert rest.body["message"]["metadata"] == {"own": True}
    assert rest.body["message"]["messageId"] == "new-2"
    assert by_name["1.0", "JSONRPC"].url == "https://host.example/v1/a2a/agents/writer"
    assert '--header "Authorization: Bearer $TOKEN"' in rest.curl
    assert 'credentials=os.environ["TOKEN"]' in rest.python
    grpc = by_name["1.0", "GRPC"]
    assert (grpc.reason, grpc.url) == ("This server has no gRPC port", "/lf.a2a.v1.A2AService/SendStreamingMessage")
    assert grpc.body["message"]["parts"] == by_name["1.0", "JSONRPC"].body["params"]["message"]["parts"]
    assert all(len(form.curl) < 3_000 for form in found.forms)
    assert request_forms(Message("m", Role.AGENT, ()), target, "new", began_task=True) is None
