"""An agent that speaks one dialect over one binding, called through a proxy in every dialect over every binding."""

from __future__ import annotations

from contextlib import aclosing
from uuid import uuid4

import pytest

from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.events import StatusUpdate
from parley.protocol.masking import MASK
from parley.protocol.messages import RawPart, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from tests.conformance.matrix import PLACES, V0_1, V0_2, V1_0
from tests.conformance.peer import Peer
from tests.conformance.serve import conformance_agent
from tests.conformance.test_streaming import texts
from tests.deadlines import fail_after
from tests.proxy.proxies import caller, card_at, on_ports, proxy_of

pytestmark = pytest.mark.anyio

HOOK = "http://127.0.0.1:9/hook"


@pytest.mark.parametrize(("version", "binding"), PLACES, ids=lambda place: str(place).lower())
async def test_an_agent_of_one_dialect_is_reached_in_all(version: Version, binding: Binding) -> None:
    app = App(conformance_agent("Open"), webhooks=WebhookPolicy(allow_private=True))
    with fail_after(60):
        async with on_ports(app) as place, proxy_of(card_at(place, version, binding)) as proxy:
            for spoken, over in PLACES:
                async with caller(proxy, spoken, over) as peer:
                    await converse(peer, version)


async def converse(peer: Peer, behind: Version) -> None:
    """All that one caller can do."""
    await send_and_read(peer)
    await stream(peer)
    await answer_a_question(peer)
    await stop(peer)
    await subscribe(peer)
    await name_the_end_of_a_task(peer)
    await register_webhooks(peer, behind)


async def send_and_read(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    task = await peer.send("hello", context_id=context)
    assert isinstance(task, Task)
    assert (task.status.state, task.context_id) == (TaskState.COMPLETED, context)
    assert task.artifacts[0].parts == (TextPart("hello"),)
    again = await peer.get(task.id)
    assert (again.id, again.status.state, again.artifacts) == (task.id, TaskState.COMPLETED, task.artifacts)
    (part,) = (await peer.send("file")).artifacts[0].parts
    assert isinstance(part, RawPart)
    assert (part.raw, part.media_type, part.filename) == (b"bytes", "application/octet-stream", "file.bin")
    with pytest.raises(TaskNotFoundError):
        await peer.get("absent")


async def stream(peer: Peer) -> None:
    first, *updates = await peer.stream_of("count 5")
    if peer.version is not V0_1:
        assert isinstance(first, Task)
    assert texts([first, *updates]) == "0 1 2 3 4 "
    assert isinstance(updates[-1], StatusUpdate)
    assert updates[-1].status.state is TaskState.COMPLETED


async def answer_a_question(peer: Peer) -> None:
    asked = await peer.stream_of("ask")
    assert asked[-1].status.state is TaskState.INPUT_REQUIRED
    task = await peer.get(asked[-1].task_id)
    done = await peer.send("blue", task=task)
    assert (done.id, done.status.state) == (task.id, TaskState.COMPLETED)
    assert done.artifacts[0].parts == (TextPart("blue"),)


async def stop(peer: Peer) -> None:
    task = await peer.start("wait")
    assert (await peer.cancel(task.id)).status.state is TaskState.CANCELED
    with pytest.raises(TaskNotCancelableError):
        await peer.cancel(task.id)


async def subscribe(peer: Peer) -> None:
    context = f"context-{uuid4()}"
    task = await peer.start("hold", context_id=context)
    async with aclosing(peer.subscribe(task.id)) as events:
        seen = [await anext(events)]
        await peer.send("open", context_id=context)
        seen += [event async for event in events]
    assert seen[-1].status.state is TaskState.COMPLETED
    whole = "".join(part.text for part in seen[0].artifacts[0].parts) if isinstance(seen[0], Task) else ""
    assert (whole + texts(seen)).endswith("before after")
    if peer.version is V1_0:
        with pytest.raises(UnsupportedOperationError):
            await anext(peer.subscribe(task.id))
    else:
        (event,) = [event async for event in peer.subscribe(task.id)]
        assert event.status.state is TaskState.COMPLETED


async def name_the_end_of_a_task(peer: Peer) -> None:
    task = await peer.send("hello")
    if peer.version is V0_1:
        again = await peer.send("again", task=task)
        assert (again.id, again.context_id) == (task.id, task.context_id)
        assert again.status.state is TaskState.COMPLETED
    else:
        with pytest.raises(
            UnsupportedOperationError if peer.version is V1_0 else (InvalidParamsError, UnsupportedOperationError)
        ):
            await peer.send("more", task=task)
        with pytest.raises(TaskNotFoundError):
            await peer.send("hello", task_id=f"mine-{uuid4()}")


async def register_webhooks(peer: Peer, behind: Version) -> None:
    task = await peer.start("wait")
    config = await peer.register(task.id, HOOK, token="token-1")
    assert (config.url, config.token, config.task_id) == (HOOK, MASK, task.id)
    wanted = r.GetPushConfigRequest(task.id, config.id if peer.version is V1_0 else None)
    assert (await peer.call(ops.GET_PUSH_CONFIG, wanted)).url == HOOK
    if peer.version is V1_0:
        assert config.id
    if V0_1 not in (peer.version, behind) and V0_2 not in (peer.version, behind):
        page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
        assert [known.url for known in page.configs] == [HOOK]
        assert isinstance(page.configs[0], PushConfig)
        await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, page.configs[0].id or task.id))
        page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
        assert page.configs == ()
    elif peer.version is V1_0 and behind is V0_1:
        page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
        assert page.configs == (config,)
        other = await peer.start("wait")
        assert (await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(other.id))).configs == ()
        with pytest.raises(TaskNotFoundError):
            await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(other.id, "any"))
        await peer.cancel(other.id)
    await peer.cancel(task.id)
