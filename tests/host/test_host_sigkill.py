"""A host is killed with SIGKILL in the middle of an orchestration, and starts again: it ends as if it was left alone.

The master asks its model for a plan, has two agents work at the same time, writes a file, and asks its model for the
answer. What a model said when it was cut off is a draft: when it is called again, it says something else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from parley.wire.sse import Decoder
from tests.crashes.processes import LineProcess, free_port, line_process
from tests.deadlines import fail_after
from tests.host.a2a_calls import path_of, request, result
from tests.host.forking_host import Defect
from tests.host.openai_server import Gate, OpenAiServer, ReceivedRequest, Reply
from tests.host.running_host import ADMIN_TOKEN, read_events

pytestmark = pytest.mark.anyio

SECONDS = 40
"""For one orchestration. It takes one."""

TRIES_ALL = bool(os.environ.get("PARLEY_EVERY_CRASH"))
SOME_WRITES = (1, 9, 26)
"""Those of about 33 that `make test` tries: the claim of the key, the plan with its end, the file that is kept."""

PLAN = (
    "I ask ",
    "both.\n/parallel\n/agent north greet\n/agent south greet\n/endparallel\n",
    "/write --persist notes.md\nBoth were asked.\n/endwrite\n",
)
ANSWER = ("Both ", "said ", "hello.")


class Models:
    """What the models say, and which of their replies are cut off in the middle, each once."""

    def __init__(self, server: OpenAiServer, *cut_off: str, before_text: bool = False) -> None:
        self.calls: Counter[str] = Counter()
        self._cut_off = set(cut_off)
        self._before_text = before_text
        self.server = server
        server.answer_with(self._answer)

    def _answer(self, request: ReceivedRequest) -> Reply:
        role = next((name for name in ("north", "south") if request.system.startswith(f"You are {name}")), "plan")
        if role == "plan" and "[TOOL RESULTS]" in request.prompt:
            role = "answer"
            assert "North is here." in request.prompt
            assert "South is here." in request.prompt
        self.calls[role] += 1
        if role in self._cut_off:
            self._cut_off.discard(role)
            return Reply(*(() if self._before_text else (f"A draft of {role} ",)), Gate())
        return Reply(*{"plan": PLAN, "answer": ANSWER}.get(role, (f"{role.title()} ", "is here.")))


@dataclass
class HostProcess:
    """A host on one port, in one process life after another."""

    forking: LineProcess
    store: str
    model_url: str
    port: int = field(default_factory=free_port)
    token: str = ""
    life: int = 0
    """How often it was started."""
    lease_seconds: float = 10.0
    _pid: int = 0
    _started: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, defect: Defect = "", *, kill_after: int | None = None) -> None:
        """Begin a life, and return when it serves."""
        heard = len(self.forking.said)
        life = {"store": self.store, "port": self.port, "model_url": self.model_url}
        life |= {"lease_seconds": self.lease_seconds}
        await self.forking.tell(**life, defect=defect, kill_after=kill_after)
        self._pid = (await self.forking.until("started", after=heard))["started"]
        line = await self.forking.until_line({"ready": self._pid}, {"ended": self._pid})
        assert "ready" in line, "The host did not start"
        self.token = self.token or line["token"]
        async with self._started:
            self.life += 1
            self._started.notify_all()

    async def until_after(self, life: int) -> None:
        """Wait until it serves in a later life."""
        async with self._started:
            await self._started.wait_for(lambda: self.life > life)

    async def kill(self) -> None:
        """End the current life, if it has not ended."""
        if {"ended": self._pid} not in self.forking.said:
            os.kill(self._pid, signal.SIGKILL)
        await self.until_ended()

    async def until_ended(self) -> None:
        """Wait for the end of the current life."""
        await self.forking.until_line({"ended": self._pid})

    async def restart_when_killed(self) -> None:
        """Start the host again when it has killed itself."""
        await self.until_ended()
        await self.start()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def forking() -> AsyncGenerator[LineProcess]:
    """What takes long to start, once for all tests."""
    async with line_process([sys.executable, "-m", "tests.host.forking_host"]) as process:
        yield process


# --- readers ----------------------------------------------------------------------------------------------------------


class Reader:
    """A reader of one request that comes back after the last event it has, and holds the text that it was told."""

    def __init__(self, host: HostProcess) -> None:
        self._host = host
        self._client = httpx2.AsyncClient(
            base_url=host.url, headers={"Authorization": f"Bearer {host.token}"}, timeout=SECONDS
        )
        self.text = ""
        self.seen: list[int] = []
        """The numbers of the events that have one, in the order in which they came."""
        self._news = asyncio.Event()

    async def follow(self, request_id: str) -> None:
        """Read to the end."""
        async with self._client:
            while True:
                headers = {"Last-Event-ID": str(self.seen[-1])} if self.seen else {}
                life = self._host.life
                try:
                    if await self._read(request_id, headers):
                        return
                except httpx2.TransportError:
                    await self._host.until_after(life)

    async def until_said(self, text: str) -> None:
        """Wait until a text is part of what was said."""
        while text not in self.text:
            self._news.clear()
            await self._news.wait()

    async def _read(self, request_id: str, headers: dict[str, str]) -> bool:
        """Read one stream; whether the request has ended."""
        decoder, last = Decoder(), ""
        async with self._client.stream(**self._request(request_id), headers=headers) as reply:
            assert reply.status_code == 200, (await reply.aread()).decode()
            async for chunk in reply.aiter_bytes():
                for frame in decoder.feed(chunk):
                    ends = self._take(frame.event, msgspec.json.decode(frame.data))
                    if frame.id not in ("", last):
                        last = frame.id
                        self.seen.append(int(last))
                    self._news.set()
                    if ends:
                        return True
        raise AssertionError("The stream ended before the request")

    def _request(self, request_id: str) -> dict[str, Any]:
        raise NotImplementedError

    def _take(self, name: str, payload: dict[str, Any]) -> bool:
        raise NotImplementedError


class NativeReader(Reader):
    """A reader of the native API. `events` are all that it was told."""

    def __init__(self, host: HostProcess) -> None:
        super().__init__(host)
        self.events: list[tuple[str, dict[str, Any]]] = []

    def _request(self, request_id: str) -> dict[str, Any]:
        return {"method": "GET", "url": f"/v1/requests/{request_id}/events"}

    def _take(self, name: str, payload: dict[str, Any]) -> bool:
        self.events.append((name, payload))
        if name == "text":
            self.text = payload["delta"] if payload.get("replace") else self.text + payload["delta"]
        return name == "done"


class A2aReader(Reader):
    """A reader of the documented `tasks/resubscribe`."""

    def _request(self, request_id: str) -> dict[str, Any]:
        return {"method": "POST", "url": path_of("index"), "json": request("tasks/resubscribe", {"id": request_id})}

    def _take(self, name: str, payload: dict[str, Any]) -> bool:
        event = payload["result"]
        if event["kind"] == "artifact-update" and event["artifact"]["artifactId"].endswith("-text-0"):
            said = "".join([part["text"] for part in event["artifact"]["parts"]])
            self.text = self.text + said if event["append"] else said
        return bool(event.get("final"))


# --- one orchestration ------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What is left of an orchestration, without ids and times."""

    texts: dict[str, str]
    """What each reader holds."""
    events: Counter[str]
    """The events of a replay, by name; but texts come in as many pieces as there happen to be."""
    files: list[str]
    requests: list[str]
    usage: list[tuple[str, int, int, int]]
    """Agents with their calls and tokens."""
    calls: Counter[str]
    is_in_order: bool
    """Whether no reader was told of an event twice."""


class Orchestration:
    """One request to a host that may be killed on the way."""

    def __init__(self, host: HostProcess, models: Models, client: httpx2.AsyncClient) -> None:
        self.host = host
        self._models = models
        self._client = client
        self._readers: list[Reader] = [NativeReader(host), A2aReader(host)]
        self._following: list[asyncio.Task[None]] = []
        self._id = ""
        self._path = ""

    async def prepare(self) -> None:
        """Create what the request needs."""
        for agent in ("north", "south"):
            definition = {"id": agent, "name": agent, "role": "greeter", "goal": "Greets."}
            assert (await self._client.post("/v1/agents", json=definition)).status_code == 201
        created = (await self._client.post("/v1/conversations", json={})).json()
        self._path = f"/v1/conversations/{created['id']}"

    async def begin(self) -> None:
        """Send the message, again if the host dies before it has replied, and connect the readers."""
        while not self._id:
            life = self.host.life
            sending = read_events(
                self._client,
                "POST",
                f"{self._path}/messages",
                json={"message": "Greet."},
                headers={"Idempotency-Key": "greet"},
                until="request_received",
            )
            try:
                self._id = (await sending)[-1].payload["request_id"]
            except httpx2.TransportError:
                await self.host.until_after(life)
        self._following = [asyncio.create_task(reader.follow(self._id)) for reader in self._readers]

    async def until_said(self, text: str) -> None:
        """Wait until every reader was told something."""
        for reader in self._readers:
            await reader.until_said(text)

    async def until_called(self, number: int) -> None:
        """Wait until so many calls of models were made."""
        await self._models.server.received(number)

    async def until_agent(self, agent: str, event: str) -> None:
        """Wait until the request to an agent that was delegated to has an event."""
        (task,) = (await result(self._client, "ListTasks", {}, agent=agent))["tasks"]
        await read_events(self._client, "GET", f"/v1/requests/{task['id']}/events", until=event)

    async def restart(self, defect: Defect = "", *, kill_after: int | None = None) -> None:
        """Kill the host, and start it again."""
        await self.host.kill()
        await self.host.start(defect, kill_after=kill_after)

    async def outcome(self) -> Outcome:
        """Wait for the end, and look at everything that there is."""
        await asyncio.gather(*self._following)
        client, replay = self._client, NativeReader(self.host)
        await replay.follow(self._id)
        task = await result(client, "tasks/get", {"id": self._id})
        said = [artifact for artifact in task["artifacts"] if artifact["artifactId"].endswith("-text-0")]
        messages = (await client.get(f"{self._path}/messages")).json()["messages"]
        artifacts = (await client.get(f"{self._path}/artifacts")).json()["artifacts"]
        listed = (await client.get("/v1/requests")).json()["requests"]
        admin = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        usage = (await client.get("/v1/admin/tenants/1/usage", headers=admin)).json()
        native, a2a = self._readers
        return Outcome(
            texts={
                "native reader that came back": native.text,
                "A2A reader that came back": a2a.text,
                "native reader from 0": replay.text,
                "done": replay.events[-1][1]["content"],
                "tasks/get": task["status"]["message"]["parts"][0]["text"],
                "artifact": "".join([part["text"] for artifact in said for part in artifact["parts"]]),
                "conversation": messages[-1]["content"],
            },
            events=Counter([name for name, _ in replay.events if name != "text"]),
            files=[artifact["path"] for artifact in artifacts],
            requests=[one["state"] for one in listed],
            usage=[(row["agent"], row["calls"], row["input_tokens"], row["output_tokens"]) for row in usage["rows"]],
            calls=self._models.calls,
            is_in_order=all(reader.seen == sorted(set(reader.seen)) for reader in (*self._readers, replay)),
        )


@asynccontextmanager
async def orchestration(
    forking: LineProcess, folder: Path, *cut_off: str, before_text: bool = False, kill_after: int | None = None
) -> AsyncGenerator[Orchestration]:
    """A host and its models. The models that are named are cut off in the middle."""
    with fail_after(SECONDS):
        async with OpenAiServer() as server:
            host = HostProcess(forking, f"{folder}/host.db", server.base_url)
            await host.start()
            headers = {"Authorization": f"Bearer {host.token}"}
            async with httpx2.AsyncClient(base_url=host.url, headers=headers, timeout=SECONDS) as client:
                made = Orchestration(host, Models(server, *cut_off, before_text=before_text), client)
                await made.prepare()
                restarting = None
                if kill_after is not None:
                    await made.restart(kill_after=kill_after)
                    restarting = asyncio.create_task(host.restart_when_killed())
                await made.begin()
                yield made
            if restarting is not None:
                restarting.cancel()
            await host.kill()


# --- the tests --------------------------------------------------------------------------------------------------------

UNDISTURBED = Outcome(
    texts=dict.fromkeys(
        (
            "native reader that came back",
            "A2A reader that came back",
            "native reader from 0",
            "done",
            "tasks/get",
            "artifact",
            "conversation",
        ),
        "I ask both.\n\nBoth said hello.",
    ),
    events=Counter(
        request_received=1,
        intent=1,
        stream_start=3,
        agent_start=2,
        token_usage=2,
        sub_agent_response=2,
        stream_end=3,
        file=1,
        tool_call=1,
        done=1,
    ),
    files=["notes.md"],
    requests=["completed"],
    usage=[("index", 2, 22, 14), ("north", 1, 11, 7), ("south", 1, 11, 7)],
    calls=Counter(plan=1, north=1, south=1, answer=1),
    is_in_order=True,
)


def after_calls(**calls: int) -> Outcome:
    """The same outcome, but some models were called more often."""
    return replace(UNDISTURBED, calls=UNDISTURBED.calls | Counter(calls))


async def test_an_orchestration_that_is_left_alone(forking: LineProcess, tmp_path: Path) -> None:
    async with orchestration(forking, tmp_path) as begun:
        assert await begun.outcome() == UNDISTURBED


async def test_a_host_that_is_killed_in_the_first_model_call_and_in_the_last(
    forking: LineProcess, tmp_path: Path
) -> None:
    async with orchestration(forking, tmp_path, "plan", "answer") as begun:
        await begun.until_said("A draft of plan")
        await begun.restart()
        await begun.until_said("A draft of answer")
        await begun.restart()
        assert await begun.outcome() == after_calls(plan=2, answer=2)


async def test_a_host_that_is_killed_while_both_agents_speak(forking: LineProcess, tmp_path: Path) -> None:
    async with orchestration(forking, tmp_path, "north", "south") as begun:
        await begun.until_called(3)
        await begun.until_agent("north", "text")
        await begun.until_agent("south", "text")
        await begun.restart()
        assert await begun.outcome() == after_calls(north=2, south=2)


async def test_a_host_that_is_killed_when_one_of_the_agents_is_done(forking: LineProcess, tmp_path: Path) -> None:
    async with orchestration(forking, tmp_path, "south") as begun:
        await begun.until_called(3)
        await begun.until_agent("north", "done")
        await begun.until_agent("south", "text")
        await begun.restart()
        assert await begun.outcome() == after_calls(south=2)


async def test_a_host_that_is_killed_between_the_agents_and_the_answer(forking: LineProcess, tmp_path: Path) -> None:
    async with orchestration(forking, tmp_path, "answer", before_text=True) as begun:
        await begun.until_called(4)
        await begun.restart()
        assert await begun.outcome() == after_calls(answer=2)


@pytest.mark.deadline(600)
async def test_a_host_that_is_killed_right_after_a_write(forking: LineProcess, tmp_path: Path) -> None:
    """Also before its reply: the caller sends its message again, with the same key."""
    for number in count(1) if TRIES_ALL else SOME_WRITES:
        folder = tmp_path / str(number)
        folder.mkdir()
        async with orchestration(forking, folder, kill_after=number) as begun:
            outcome = await begun.outcome()
            was_killed = begun.host.life == 3
        assert replace(outcome, calls=UNDISTURBED.calls) == UNDISTURBED, f"killed after write {number}"
        assert max(outcome.calls.values()) <= 2
        if not was_killed:
            assert number > max(SOME_WRITES), "The host was never killed"
            break


@pytest.mark.parametrize("defect", ["forgets model calls", "hides rewinds"])
async def test_these_tests_notice_a_host_that(defect: Defect, forking: LineProcess, tmp_path: Path) -> None:
    async with orchestration(forking, tmp_path, "answer") as begun:
        await begun.until_said("A draft of answer")
        await begun.restart(defect)
        outcome = await begun.outcome()
    if defect == "forgets model calls":
        assert outcome.calls["plan"] == 2
        assert outcome != after_calls(answer=2)
    else:
        assert "draft" in outcome.texts["native reader that came back"]
        assert "draft" in outcome.texts["native reader from 0"]
