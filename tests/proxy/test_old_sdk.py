"""An agent on a2a-sdk 0.3.26, which knows nothing of 1.0, called in 1.0 over gRPC, and in every other way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import TextPart
from parley.protocol.tasks import Artifact, Task, TaskState
from parley.protocol.versions import Version
from tests.cli.served import running
from tests.conformance.matrix import GRPC, JSONRPC, PLACES, REST, V0_1, V1_0
from tests.conformance.peer import Peer
from tests.conformance.test_streaming import texts
from tests.deadlines import fail_after
from tests.peer_environments import ROOT, python_of, serving_process
from tests.proxy.proxies import caller, proxy_of

pytestmark = pytest.mark.anyio


@contextmanager
def old_process(script: str, *words: str, sdk: str = "a2a-sdk-0.3.26") -> Generator[str]:
    """The URL of an agent on an old SDK, in a process of its own."""
    command = [python_of(sdk), ROOT / "tests" / "peers" / script, *words]
    with TemporaryDirectory() as folder, serving_process(command, log=Path(folder) / "log") as (url, _):
        yield url


@pytest.fixture(scope="module")
def old_agent() -> Generator[str]:
    """The scenario's agent."""
    with old_process("server_sdk_pydantic.py") as url:
        yield url


def test_a_proxied_agent_of_the_old_sdk_passes_the_check_in_1_0_over_grpc(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "parley.cli.main", "proxy"]
    with (
        old_process("server_echo_0_3_26.py") as url,
        running(*words, url, "--port", "0", "--grpc-port", "0", cwd=tmp_path) as proxy,
    ):
        place = proxy.until_ready()
        report = tmp_path / "report.json"
        options = ["--dialect", "1.0", "--binding", "grpc", "--json", str(report)]
        done = CliRunner().invoke(app, ["check", place, *options])
        assert done.exit_code == 0, done.output
        assert report.exists()


@pytest.mark.parametrize("sdk", ["a2a-sdk-0.2.16", "a2a-sdk-0.3.26"])
def test_a_proxied_agent_of_an_old_sdk_passes_the_check_in_all_versions_and_bindings(sdk: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "parley.cli.main", "proxy"]
    with (
        old_process("server_sdk_pydantic.py", sdk=sdk) as url,
        running(*words, url, "--port", "0", "--grpc-port", "0", cwd=tmp_path) as proxy,
    ):
        place = proxy.until_ready()
        for versions in ([], ["--dialect", "0.1"]):  # which no card declares
            done = CliRunner().invoke(app, ["check", place, "--message", "echo hello", *versions])
            assert done.exit_code == 0, done.output


@pytest.mark.parametrize("behind", [JSONRPC, REST, GRPC], ids=str)
async def test_an_agent_of_the_old_sdk_is_reached_in_all_dialects(old_agent: str, behind: Binding) -> None:
    with fail_after(60):
        async with proxy_of(old_agent, bindings=[behind], versions=[Version.V0_3]) as proxy:
            for spoken, over in PLACES:
                async with caller(proxy, spoken, over) as peer:
                    await converse(peer)


async def converse(peer: Peer) -> None:
    task = await peer.send("echo hello")
    assert (task.status.state, task.artifacts[0].parts) == (TaskState.COMPLETED, (TextPart("hello"),))
    assert (await peer.get(task.id)).artifacts == task.artifacts
    events = await peer.stream_of("count 4")
    assert peer.version is V0_1 or isinstance(events[0], Task)
    assert texts(events) == "1 2 3 4 "
    assert events[-1].status.state is TaskState.COMPLETED
    asked = await peer.send("ask")
    assert asked.status.state is TaskState.INPUT_REQUIRED
    answered = await peer.send("four", task=asked)
    assert (answered.id, answered.artifacts[-1].parts) == (asked.id, (TextPart("A table for four."),))
    waiting = await peer.start("wait")
    assert (await peer.cancel(waiting.id)).status.state is TaskState.CANCELED
    with pytest.raises(TaskNotCancelableError):
        await peer.cancel(waiting.id)
    with pytest.raises(TaskNotFoundError):
        await peer.get("absent")


async def test_what_1_0_demands_over_grpc_is_there_as_far_as_the_old_agent_can(old_agent: str) -> None:
    with fail_after(30):
        async with proxy_of(old_agent) as proxy, caller(proxy, V1_0, GRPC) as peer:
            task = await peer.send("echo hello")
            with pytest.raises(UnsupportedOperationError):
                await peer.send("more", task=task)
            with pytest.raises(UnsupportedOperationError):
                await anext(peer.subscribe(task.id))
            with pytest.raises(TaskNotFoundError):
                await peer.send("echo hello", task_id=f"mine-{uuid4()}")
            assert [known.id for known in (await peer.list(context_id=task.context_id)).tasks] == [task.id]
            await follow_a_task_twice(peer)
            await keep_webhooks(peer)


@pytest.mark.parametrize("sdk", ["a2a-sdk-0.2.16", "a2a-sdk-0.3.26"])
async def test_a_stream_that_goes_on_with_a_task_begins_with_it(sdk: str) -> None:
    with fail_after(30), old_process("server_sdk_pydantic.py", sdk=sdk) as url:
        async with proxy_of(url) as proxy, caller(proxy, V1_0, GRPC) as peer:
            asked = await peer.send("ask")
            first, *rest = await peer.stream_of("four", task_id=asked.id)
            assert isinstance(first, Task)
            # The question is answered: who saw it as the status again would ask again.
            assert (first.id, first.status.state, first.status.message) == (asked.id, TaskState.WORKING, None)
            assert asked.status.message is not None
            assert [message.parts for message in first.history[-2:]] == [
                asked.status.message.parts,
                (TextPart("four"),),
            ]
            assert texts(rest) == "A table for four."


async def follow_a_task_twice(peer: Peer) -> None:
    gate = f"gate-{uuid4()}"
    request = peer.request(peer.message(f"count 4 pausing after 2 at {gate}"))
    async with aclosing(peer.stream(ops.SEND_STREAMING_MESSAGE, request)) as events:
        seen = [await anext(events)]
        while not texts(seen).endswith("2 "):
            seen.append(await anext(events))
        async with aclosing(peer.subscribe(seen[0].id)) as others:
            joined = [await anext(others)]
            await peer.send(f"open {gate}")
            joined += [event async for event in others]
        seen += [event async for event in events]
    assert texts(seen) == "1 2 3 4 "
    # With two readers a2a-sdk 0.3 stores each chunk twice. What it has stored is what the second one is told.
    stored = (await peer.get(seen[0].id)).artifacts[0]
    assert said(joined[0].artifacts[0]) + texts(joined) == said(stored)
    assert isinstance(joined[-1], StatusUpdate)
    assert joined[-1].status.state is TaskState.COMPLETED


def said(artifact: Artifact) -> str:
    return "".join(part.text for part in artifact.parts if isinstance(part, TextPart))


async def keep_webhooks(peer: Peer) -> None:
    task = await peer.send("echo hello")
    config = await peer.register(task.id, "https://hooks.example/a2a", id="hook-1", token="t")
    assert (config.url, config.id, config.task_id) == ("https://hooks.example/a2a", "hook-1", task.id)
    assert await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "hook-1")) == config
    page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
    assert page.configs == (config,)
    await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "hook-1"))
    page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
    assert page.configs == ()
    with pytest.raises(TaskNotFoundError):
        await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "hook-1"))


async def test_a_task_goes_on_when_its_caller_leaves_although_the_agent_would_stop_it() -> None:
    """a2a-sdk 0.2 stops the work on a task whose stream nobody reads."""
    gate = f"gate-{uuid4()}"
    with fail_after(30), old_process("server_sdk_pydantic.py", sdk="a2a-sdk-0.2.16") as url:
        async with proxy_of(url) as proxy, caller(proxy, V1_0, JSONRPC) as peer:
            request = peer.request(peer.message(f"count 4 pausing after 2 at {gate}"))
            async with aclosing(peer.stream(ops.SEND_STREAMING_MESSAGE, request)) as events:
                seen = [await anext(events)]
                while not texts(seen).endswith("2 "):
                    seen.append(await anext(events))
            await peer.send(f"open {gate}")
            while not is_terminal((task := await peer.get(seen[0].id)).status.state):
                await asyncio.sleep(0.05)
            assert (task.status.state, said(task.artifacts[0])) == (TaskState.COMPLETED, "1 2 3 4 ")
