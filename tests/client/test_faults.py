"""Streams and sends over a bad network: cut, reset, stalled, dribbled and repeated at every point of the exchange.

With an agent of Parley nothing is lost or doubled. With an agent that has neither cursors nor idempotent sends, no
wrong result is ever taken for a right one: what cannot be known is an error.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from parley import Agent
from parley.client.calls import Attempt, Calls
from parley.client.client import Client
from parley.client.errors import ClientError, StreamTruncatedError, UnreachableError
from parley.client.options import Retries, Timeouts
from parley.client.streams import unnumbered_events
from parley.client.streams.resuming import ResumableStream
from parley.client.transports.grpc import GrpcTransport
from parley.client.transports.jsonrpc import JsonRpcTransport
from parley.client.transports.rest import RestTransport
from parley.client.transports.transport import Transport
from parley.dialects.cards import decode_any_card
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import ListTasksRequest, SendConfiguration, SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from tests.client.faulty_proxy import Fault, FaultyProxy, Kind, faulty_proxy, points_of
from tests.client.forgetful_agent import ForgetfulAgent, Manner
from tests.client.open_channel import open_channel
from tests.deadlines import fail_after
from tests.server.serving import running, serving

pytestmark = pytest.mark.anyio

CHUNKS = tuple(f"<{number}>" for number in range(8))
BINDINGS = (Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC)
HTTP_BINDINGS = BINDINGS[:2]
QUICK = Retries(attempts=4, first_pause=0.001, longest_pause=0.01, outage=0.1)


@dataclass(slots=True)
class Bad:
    """A served agent behind a bad network: how to call it, and how often it has run for each message."""

    proxy: FaultyProxy
    card: AgentCard
    binding: Binding
    runs: Counter[str] = field(default_factory=Counter[str])

    @asynccontextmanager
    async def calls(self, *, quiet: float = 5.0) -> AsyncGenerator[Calls]:
        """A new client without connections."""
        timeouts = Timeouts(connect=5, reply=quiet, quiet=quiet)
        place = f"127.0.0.1:{self.proxy.port}" if self.binding is Binding.GRPC else f"{self.proxy.url}/"
        interface = AgentInterface(place, self.binding, Version.V1_0)
        calls = Calls(self.card, [(interface, Version.V1_0)], _connector(timeouts), timeouts=timeouts, retries=QUICK)
        try:
            yield calls
        finally:
            await calls.close()


def _connector(timeouts: Timeouts) -> Callable[[AgentInterface, Version], Transport]:
    def connect(interface: AgentInterface, version: Version) -> Transport:
        if interface.binding == Binding.GRPC:
            return GrpcTransport(interface, version)
        kind = JsonRpcTransport if interface.binding == Binding.JSONRPC else RestTransport
        # Without TLS: reading the machine's certificates takes longer than everything else here.
        return kind(interface, version, open_channel(timeouts=timeouts))

    return connect


@asynccontextmanager
async def parley_agent(binding: Binding, *, seconds: float = 30) -> AsyncGenerator[Bad]:
    """An agent of Parley that says its chunks, behind a proxy."""
    agent = Agent("Chunks", description="Says its chunks")
    runs: Counter[str] = Counter()
    proxies: list[FaultyProxy] = []

    @agent.on_message
    async def say(turn: Any) -> Any:
        runs[turn.text] += 1
        for number, chunk in enumerate(CHUNKS):
            if number == 4 and turn.text.startswith("wait"):
                await proxies[0].again.wait()
            yield chunk
            await asyncio.sleep(0)

    app = App(agent)
    async with running(app, seconds=seconds) as client:
        card, _ = decode_any_card((await client.get("/.well-known/agent-card.json")).content)
        server = GrpcServer(app)
        port = await server.start("127.0.0.1", 0) if binding is Binding.GRPC else client.base_url.port
        assert port is not None
        try:
            async with faulty_proxy(port) as proxy:
                proxies.append(proxy)
                yield Bad(proxy, card, binding, runs)
        finally:
            await server.stop()


def said(text: str) -> SendMessageRequest:
    message = Message(str(uuid4()), Role.USER, (TextPart(text),))
    return SendMessageRequest(message, SendConfiguration())


async def follow(calls: Calls, text: str) -> ResumableStream:
    """Send, follow to the end, and give what was seen."""
    following = ResumableStream(calls)
    with fail_after(10):
        async with aclosing(following.events(said(text))) as events:
            async for _ in events:
                pass
    return following


def text_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts if isinstance(part, TextPart))


async def points(bad: Bad, *, in_request: bool = False) -> list[int]:
    """The points of an exchange at which to strike, found by watching one that goes well."""
    bad.proxy.plan()
    async with bad.calls() as calls:
        await follow(calls, "watched")
    if in_request:
        return points_of(bytes(bad.proxy.requests[0]), border=b"\r\n", step=40)
    if bad.binding is Binding.GRPC:
        return list(range(0, len(bad.proxy.replies[0]), 25))
    return points_of(bytes(bad.proxy.replies[0]), border=b"\n\n", step=30)


@pytest.mark.parametrize("kind", [Kind.CLOSE, Kind.RESET])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_is_cut_anywhere_is_received_whole_and_runs_once(binding: Binding, kind: Kind) -> None:
    async with parley_agent(binding) as bad:
        broken = 0
        for point in await points(bad):
            bad.proxy.plan(Fault(kind, point))
            async with bad.calls() as calls:
                following = await follow(calls, f"cut at {point}")
            task = following.seen.task()
            assert (point, text_of(task), task.status.state) == (point, "".join(CHUNKS), TaskState.COMPLETED)
            broken += bad.proxy.connections > 1
        assert broken > 20
        assert set(bad.runs.values()) == {1}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_is_cut_while_its_agent_works_goes_on_with_what_comes_next(binding: Binding) -> None:
    """The agent says half of its chunks, and the others when the client has come back."""
    async with parley_agent(binding) as bad:
        found = await points(bad)
        for point in found[: len(found) // 2]:
            bad.proxy.plan(Fault(Kind.RESET, point))
            async with bad.calls() as calls:
                following = await follow(calls, f"wait, cut at {point}")
            assert (point, text_of(following.seen.task())) == (point, "".join(CHUNKS))
        assert set(bad.runs.values()) == {1}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_request_that_is_cut_anywhere_is_one_task_and_one_run(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        for point in await points(bad, in_request=True):
            bad.proxy.plan(Fault(Kind.RESET, point, in_request=True))
            async with bad.calls() as calls:
                following = await follow(calls, f"cut at {point}")
            assert text_of(following.seen.task()) == "".join(CHUNKS)
        assert set(bad.runs.values()) == {1}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_of_which_every_connection_is_cut_a_little_later_is_received_whole(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        length = (await points(bad))[-1]
        bad.proxy.plan(*(Fault(Kind.RESET, point) for point in range(length // 2, length, length // 8)))
        async with bad.calls() as calls:
            following = await follow(calls, "again and again")
        assert text_of(following.seen.task()) == "".join(CHUNKS)
        assert bad.runs["again and again"] == 1


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_stalls_is_given_up_and_taken_up_again(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        found = await points(bad)
        for point in found[:: len(found) // 4 + 1]:
            bad.proxy.plan(Fault(Kind.STALL, point))
            async with bad.calls(quiet=0.3) as calls:
                following = await follow(calls, f"stalled at {point}")
            assert text_of(following.seen.task()) == "".join(CHUNKS)
        assert set(bad.runs.values()) == {1}


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_comes_in_small_pieces_is_the_same(binding: Binding, size: int) -> None:
    async with parley_agent(binding) as bad:
        bad.proxy.plan(always=Fault(Kind.DRIBBLE, size))
        async with bad.calls() as calls:
            following = await follow(calls, "slowly")
        assert text_of(following.seen.task()) == "".join(CHUNKS)
        assert (bad.proxy.connections, bad.runs["slowly"]) == (1, 1)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_request_that_the_network_repeats_is_one_run(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        bad.proxy.plan(Fault(Kind.REPEAT_REQUEST, in_request=True))
        async with bad.calls() as calls:
            following = await follow(calls, "twice")
            with fail_after(5):
                page = await calls.call(ops.LIST_TASKS, ListTasksRequest())
        assert text_of(following.seen.task()) == "".join(CHUNKS)
        assert (bad.runs["twice"], len(page.tasks)) == (1, 1)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("binding", HTTP_BINDINGS)
async def test_frames_that_come_twice_are_taken_once(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        bad.proxy.plan(Fault(Kind.REPEAT_CHUNKS))
        async with bad.calls() as calls:
            following = ResumableStream(calls)
            with fail_after(5):
                events = [event async for event in following.events(said("doubled"))]
        chunks = [event for event in events if isinstance(event, ArtifactUpdate)]
        assert "".join(part.text for chunk in chunks for part in chunk.artifact.parts) == "".join(CHUNKS)  # pyright: ignore
        assert text_of(following.seen.task()) == "".join(CHUNKS)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_send_whose_reply_is_cut_anywhere_is_repeated_and_is_one_run(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        async with bad.calls() as calls:
            await calls.call(ops.SEND_MESSAGE, said("watched"))
        length = len(bad.proxy.replies[0])
        for point in (*range(0, length, 50), length - 1):
            bad.proxy.plan(Fault(Kind.CLOSE, point))
            async with bad.calls() as calls:
                with fail_after(5):
                    task = await calls.call(ops.SEND_MESSAGE, said(f"cut at {point}"))
            assert isinstance(task, Task)
            assert (point, text_of(task), task.status.state) == (point, "".join(CHUNKS), TaskState.COMPLETED)
        assert set(bad.runs.values()) == {1}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_can_never_be_taken_up_again_is_an_error_with_its_task(binding: Binding) -> None:
    async with parley_agent(binding) as bad:
        middle = (await points(bad))[-1] * 3 // 4
        bad.proxy.plan(Fault(Kind.CLOSE, middle), always=Fault(Kind.RESET, 0))  # a reset would swallow the first events
        async with bad.calls() as calls:
            following = ResumableStream(calls)
            with fail_after(10), pytest.raises(StreamTruncatedError) as caught:
                async for _ in following.events(said("lost")):
                    pass
        assert following.seen.task_id is not None
        assert caught.value.task_id == following.seen.task_id


async def noted(versions: list[Version], attempt: Attempt) -> Attempt:
    """Write down in which version an attempt is made."""
    versions.append(attempt.version)
    return attempt


@pytest.mark.parametrize(
    ("version", "binding"),
    [
        (Version.V1_0, Binding.HTTP_JSON),
        (Version.V0_3, Binding.HTTP_JSON),
        (Version.V0_3, Binding.JSONRPC),
        (Version.V0_2, Binding.JSONRPC),
        (Version.V0_1, Binding.JSONRPC),
    ],
)
async def test_a_stream_whose_interface_is_gone_goes_on_over_another(version: Version, binding: Binding) -> None:
    async with parley_agent(Binding.JSONRPC) as bad:
        cuts = (await points(bad))[::20]
        for point in cuts:
            bad.proxy.plan(Fault(Kind.CLOSE, point), always=Fault(Kind.RESET, 0))
            async with bad.calls() as calls:
                elsewhere = AgentInterface(f"http://127.0.0.1:{bad.proxy.target}/", binding, version.value)
                calls.interfaces = [*calls.interfaces, (elsewhere, version)]
                used: list[Version] = []
                calls.interceptors = [partial(noted, used)]
                following = ResumableStream(calls)
                with fail_after(10):
                    try:
                        async for _ in following.events(said(f"cut at {point}")):
                            pass
                    except UnreachableError:
                        assert following.seen.task_id is None  # nothing was known that could be followed elsewhere
                        continue
                assert (point, text_of(following.seen.task())) == (point, "".join(CHUNKS))
                assert used[-1] is version or bad.proxy.connections == 1
        assert set(bad.runs.values()) == {1}


# --- agents that have neither cursors nor idempotent sends ------------------------------------------------------------


@asynccontextmanager
async def forgetful_agent(manner: Manner) -> AsyncGenerator[tuple[ForgetfulAgent, Bad]]:
    """Such an agent behind a proxy."""
    agent = ForgetfulAgent(manner)
    async with serving(agent, seconds=30) as client, faulty_proxy(client.base_url.port or 0) as proxy:
        yield agent, Bad(proxy, agent.card, Binding.JSONRPC)


@pytest.mark.parametrize("manner", Manner)
async def test_with_any_agent_a_cut_stream_is_right_or_an_error_and_never_sent_twice(
    manner: Manner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if manner is Manner.HANGS:
        monkeypatch.setattr(unnumbered_events, "SILENCE_SECONDS", 0.0)
    async with forgetful_agent(manner) as (agent, bad):
        bad.proxy.plan()
        async with bad.calls() as calls:
            assert text_of((await follow(calls, "watched")).seen.task()) == agent.text
        passed = bytes(bad.proxy.replies[0])
        known = failed = 0
        for point in points_of(passed, border=b"\n\n", step=250):
            bad.proxy.plan(Fault(Kind.RESET, point))
            text = f"cut at {point}"
            async with bad.calls() as calls:
                calls.sleep = _at_once
                try:
                    task = (await follow(calls, text)).seen.task()
                except (UnreachableError, StreamTruncatedError):
                    failed += 1
                else:
                    known += 1
                    assert (point, text_of(task), task.status.state) == (point, agent.text, TaskState.COMPLETED)
            assert agent.sends[text] <= 1
        assert failed > 0
        assert (known > failed) is (manner is not Manner.FORGETS)


async def _at_once(_: float) -> None:
    """No pause."""


async def test_a_send_to_any_agent_whose_reply_is_lost_is_an_error_and_not_repeated() -> None:
    async with forgetful_agent(Manner.REPEATS) as (agent, bad):
        bad.proxy.plan(Fault(Kind.CLOSE, 20))
        async with bad.calls() as calls:
            with fail_after(5), pytest.raises(UnreachableError) as caught:
                await calls.call(ops.SEND_MESSAGE, said("once"))
        assert caught.value.was_sent
        assert (agent.sends["once"], bad.proxy.connections) == (1, 1)


@pytest.mark.parametrize("manner", [Manner.REPEATS, Manner.SKIPS, Manner.HANGS])
async def test_whoever_subscribes_to_any_agent_gets_the_whole_task(
    manner: Manner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if manner is Manner.HANGS:
        monkeypatch.setattr(unnumbered_events, "SILENCE_SECONDS", 0.0)
    async with forgetful_agent(manner) as (agent, bad), bad.calls() as calls:
        task_id = agent.begin("behind the back", produced=7)
        following = ResumableStream(calls)
        with fail_after(5):
            async for _ in following.events(SubscribeToTaskRequest(task_id)):
                pass
        assert text_of(following.seen.task()) == agent.text


# --- the whole client -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", HTTP_BINDINGS)
async def test_a_client_gets_the_whole_answer_wherever_its_first_connection_is_cut(binding: Binding) -> None:
    """The card comes over the same connection, so that it is cut as well; a client that has no card says so."""
    async with parley_agent(binding) as bad:
        bad.proxy.plan()
        assert await _streamed(bad, "watched") == "".join(CHUNKS)
        length = len(bad.proxy.replies[0])
        outcomes: list[str] = []
        for point in range(100, length, length // 12):
            bad.proxy.plan(Fault(Kind.CLOSE, point))
            try:
                outcomes.append(await _streamed(bad, f"cut at {point}"))
            except ClientError:
                outcomes.append("no card")
        assert set(outcomes) <= {"".join(CHUNKS), "no card"}
        assert outcomes[-3:] == ["".join(CHUNKS)] * 3
        assert set(bad.runs.values()) == {1}


async def _streamed(bad: Bad, text: str) -> str:
    with fail_after(10):
        async with Client(bad.proxy.url, bindings=[bad.binding], retries=QUICK) as client:
            updates = [update async for update in client.stream(text)]
    return text_of(updates[-1].seen.task())
