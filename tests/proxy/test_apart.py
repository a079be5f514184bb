"""Callers behind a proxy's own door, whom the agent sees as one: none of them meets another there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from parley import Agent
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard
from parley.protocol.errors import InvalidAgentResponseError, TaskNotFoundError
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.tasks import TaskState
from parley.server.app import App
from tests.conformance.matrix import JSONRPC, V0_1, V0_2, V1_0
from tests.conformance.peer import Peer
from tests.conformance.serve import conformance_agent
from tests.deadlines import fail_after
from tests.proxy.proxies import caller, card_at, on_ports, proxy_of
from tests.proxy.test_authentication import ALICE, BOB, bearer, tokens
from tests.proxy.test_conversations import old_task, proxied_script

pytestmark = pytest.mark.anyio


def remembering_agent() -> Agent:
    """An agent that says what was said in the context before, and to which tasks a message refers."""
    agent = Agent("Remembering")

    @agent.on_message
    async def remember(turn: Any) -> str:
        earlier = await turn.context.get("said", [])
        await turn.context.set("said", [*earlier, turn.text])
        return " ".join([*earlier, *turn.message.reference_task_ids])

    return agent


@asynccontextmanager
async def two_callers(target: str | AgentCard, *versions: Any) -> AsyncGenerator[tuple[Peer, Peer]]:
    one, two = versions or (V1_0, V1_0)
    async with (
        proxy_of(target, security=tokens(alice=ALICE, bob=BOB)) as proxy,
        caller(proxy, one, JSONRPC, **bearer(ALICE)) as alice,
        caller(proxy, two, JSONRPC, **bearer(BOB)) as bob,
    ):
        yield alice, bob


def said(task: Any) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


async def test_a_context_of_the_same_name_is_another_conversation() -> None:
    with fail_after(20):
        async with on_ports(App(remembering_agent())) as place, two_callers(place["url"]) as (alice, bob):
            first = await alice.send("secret", context_id="session-1")
            assert first.context_id == "session-1"
            assert said(await bob.send("hello", context_id="session-1")) == ""
            assert said(await alice.send("more", context_id="session-1")) == "secret"
            assert [task.context_id for task in (await alice.list(context_id="session-1")).tasks] == ["session-1"] * 2
            assert len((await bob.list(context_id="session-1")).tasks) == 1
            assert (await bob.list(context_id="session-2")).tasks == ()


async def test_a_context_that_the_agent_has_made_is_open_to_its_caller_only() -> None:
    with fail_after(20):
        async with on_ports(App(remembering_agent())) as place, two_callers(place["url"]) as (alice, bob):
            context = (await alice.send("secret")).context_id
            assert said(await alice.send("more", context_id=context)) == "secret"
            stolen = await bob.send("hello", context_id=context)
            assert (said(stolen), stolen.context_id) == ("", context)


async def test_nobody_refers_to_another_callers_task() -> None:
    with fail_after(20):
        async with on_ports(App(remembering_agent())) as place, two_callers(place["url"]) as (alice, bob):
            task = await alice.send("secret")

            def referring(peer: Peer) -> r.SendMessageRequest:
                return peer.request(structs.replace(peer.message("see"), reference_task_ids=(task.id,)))

            assert said(await alice.call(ops.SEND_MESSAGE, referring(alice))) == task.id
            with pytest.raises(TaskNotFoundError):
                await bob.call(ops.SEND_MESSAGE, referring(bob))


async def test_the_same_message_of_two_callers_is_two_messages() -> None:
    """Parley's engine takes a message of one sender once, and the sender is the proxy here."""
    with fail_after(20):
        async with on_ports(App(conformance_agent("Open"))) as place, two_callers(place["url"]) as (alice, bob):
            request = r.SendMessageRequest(Message("message-1", Role.USER, (TextPart("ask"),)))
            task = await alice.call(ops.SEND_MESSAGE, request)
            assert [message.message_id for message in task.history] == ["message-1"]
            other = await bob.call(ops.SEND_MESSAGE, request)
            assert other.id != task.id
            assert (await alice.call(ops.SEND_MESSAGE, request)).id == task.id


async def test_an_agent_that_answers_with_another_callers_task_is_not_believed() -> None:
    door = tokens(alice=ALICE, bob=BOB)
    with fail_after(20):
        async with (
            proxied_script(lambda *_: old_task("completed"), V0_2, streaming=False, security=door) as proxy,
            caller(proxy, V1_0, JSONRPC, **bearer(ALICE)) as alice,
            caller(proxy, V1_0, JSONRPC, **bearer(BOB)) as bob,
        ):
            assert (await alice.send("hello")).id == "t-1"
            with pytest.raises(InvalidAgentResponseError, match="another caller"):
                await bob.send("hello")
            with pytest.raises(TaskNotFoundError):
                await bob.get("t-1")


async def test_a_list_says_nothing_of_other_callers_tasks() -> None:
    with fail_after(20):
        async with on_ports(App(conformance_agent("Open"))) as place, two_callers(place["url"]) as (alice, bob):
            mine = await bob.send("hello")
            for text in ("one", "two", "three"):
                await alice.send(text)
            page = await bob.list(page_size=1)
            assert ([task.id for task in page.tasks], page.total_size, page.next_page_token) == ([mine.id], 1, "")


async def test_a_task_of_the_same_name_at_an_agent_of_0_1_is_another_one() -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            two_callers(card_at(place, V0_1, JSONRPC), V0_1, V0_1) as (alice, bob),
        ):
            name = f"mine-{uuid4()}"
            assert (await alice.send("ask", task_id=name)).id == name
            with pytest.raises(TaskNotFoundError):
                await bob.get(name)
            assert (await bob.send("hello", task_id=name)).status.state is TaskState.COMPLETED
            assert (await alice.get(name)).status.state is TaskState.INPUT_REQUIRED


async def test_callers_of_different_tenants_are_kept_apart_before_an_agent_that_has_none() -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            two_callers(card_at(place, V0_2, JSONRPC)) as (alice, _),
        ):
            alice.tenant = "red"
            task = await alice.send("hello")
            assert (await alice.get(task.id)).id == task.id
            alice.tenant = "blue"
            with pytest.raises(TaskNotFoundError):
                await alice.get(task.id)


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_caller_that_lost_its_connection_finds_its_task_again(streaming: bool) -> None:
    with fail_after(20):
        async with (
            on_ports(App(conformance_agent("Open"))) as place,
            two_callers(card_at(place, V1_0, JSONRPC, streaming=streaming)) as (alice, bob),
        ):
            sending = asyncio.create_task(alice.send("wait"))
            while not (tasks := (await alice.list()).tasks):
                await asyncio.sleep(0.01)
            sending.cancel()
            assert not is_terminal(tasks[0].status.state)
            assert (await bob.list()).tasks == ()
            assert (await alice.cancel(tasks[0].id)).status.state is TaskState.CANCELED
