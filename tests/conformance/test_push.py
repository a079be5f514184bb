"""Rules about webhooks."""

from __future__ import annotations

import asyncio

import pytest

from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import InvalidParamsError, PushNotificationNotSupportedError, TaskNotFoundError
from parley.protocol.masking import MASK
from parley.protocol.push import PushAuthentication, PushConfig
from tests.conformance.matrix import V0_1, V0_2, V0_3, V1_0, matrix, rule
from tests.conformance.peer import Peer
from tests.conformance.serve import ALICE, REQUIRED

pytestmark = pytest.mark.anyio


@rule("G1.32", "G2.5")
@matrix(app="strict")
async def test_an_agent_without_webhooks_refuses_them(peer: Peer) -> None:
    async with peer.at("strict", a2a_extensions=REQUIRED, x_a2a_extensions=REQUIRED) as caller:
        task = await caller.send("ask")
        calls = [
            (ops.CREATE_PUSH_CONFIG, r.CreatePushConfigRequest(task.id, PushConfig("https://hooks.example"))),
            (ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "x")),
            (ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id)),
            (ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "x")),
        ]
        for operation, request in calls:
            if peer.version in operation.methods:
                with pytest.raises(PushNotificationNotSupportedError):
                    await caller.call(operation, request)


@rule("G1.33", "G1.34", "G2.5")
@matrix(V0_2, V0_3, V1_0)
async def test_webhooks_are_kept_listed_and_deleted(peer: Peer) -> None:
    task = await peer.send("ask")
    first = await peer.register(task.id, id="one", token="secret")
    second = await peer.register(task.id, id="two")
    assert (first.id, second.id) == ("one", "two")
    found = await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "one"))
    assert (found.id, found.url, found.token) == ("one", "http://127.0.0.1:9/hook", MASK)
    page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
    assert [config.id for config in page.configs] == ["one", "two"]
    for _ in range(2):
        await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "one"))
    with pytest.raises(TaskNotFoundError):
        await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "one"))


@rule("G1.33")
@matrix(V0_2, V0_3, V1_0)
async def test_secrets_of_a_webhook_are_masked_in_every_reply_and_a_mask_keeps_them(peer: Peer) -> None:
    """0.1 has no way to name one of several webhooks; its replies come from the same code."""
    task, given = await peer.send("ask"), PushAuthentication(("Bearer",), "credential-of-the-test")
    secrets = {"token": "token-of-the-test", "authentication": given}
    shown = PushAuthentication(("Bearer",), MASK)
    created = await peer.register(task.id, id="one", **secrets)
    assert (created.token, created.authentication) == (MASK, shown)
    kept = await peer.register(task.id, id="one", token=MASK, authentication=shown)
    page = await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
    found = await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "one"))
    for config in (kept, found, *page.configs):
        assert (config.id, config.token, config.authentication) == ("one", MASK, shown)
    for url, config_id in (("http://127.0.0.1:9/other", "one"), ("http://127.0.0.1:9/hook", "two")):
        with pytest.raises(InvalidParamsError, match="there is none for this URL"):
            await peer.register(task.id, url, id=config_id, token=MASK)


@rule("G1.33", "G1.34")
@matrix(V0_2, V0_3, V1_0, stores=["memory"])
async def test_deleting_the_webhook_default_removes_what_reading_it_shows(peer: Peer) -> None:
    """Some peers call the webhook without an id `default`, others register one under that id."""
    task = await peer.send("ask")
    await peer.register(task.id, id="default")
    unnamed = await peer.register(task.id, id=task.id)
    default = r.GetPushConfigRequest(task.id, "default")
    for shown in ("default", task.id):
        assert (await peer.call(ops.GET_PUSH_CONFIG, default)).id == shown
        await peer.call(ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "default"))
    assert unnamed.id == task.id
    with pytest.raises(TaskNotFoundError):
        await peer.call(ops.GET_PUSH_CONFIG, default)
    assert not (await peer.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))).configs


@rule("G1.33")
@matrix()
async def test_a_webhook_without_an_id_gets_one(peer: Peer) -> None:
    task = await peer.send("ask")
    config = await peer.register(task.id)
    found = await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, config.id or task.id))
    assert found.url == config.url == "http://127.0.0.1:9/hook"


@rule("G1.34")
@matrix(V0_1, V0_2, V0_3, V1_0)
async def test_an_unknown_task_has_no_webhooks(peer: Peer) -> None:
    with pytest.raises(TaskNotFoundError):
        await peer.register("absent")
    with pytest.raises(TaskNotFoundError):
        await peer.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest("absent", "x"))


@rule("G1.35")
@matrix(V1_0, stores=["memory"])
async def test_a_webhook_is_called_with_what_authenticates_the_sender(peer: Peer) -> None:
    received: asyncio.Queue[str] = asyncio.Queue()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        (length,) = [int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length")]
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        received.put_nowait(head)

    async with await asyncio.start_server(receive, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config = PushConfig(
            f"http://127.0.0.1:{port}/hook", token="t-1", authentication=PushAuthentication(("Bearer",), "c-1")
        )
        await peer.send("hello", push_config=config)
        head = await received.get()
    assert "authorization: bearer c-1" in head
    assert "x-a2a-notification-token: t-1" in head


@rule("G1.36", "G2.20")
@matrix(app="secured")
async def test_webhooks_at_private_addresses_are_refused(peer: Peer) -> None:
    async with peer.at("secured", ALICE) as alice:
        task = await alice.send("ask")
        for url in (
            "http://169.254.169.254/latest/meta-data",
            "http://127.0.0.1/",
            "http://[::1]/",
            "file:///etc/passwd",
        ):
            with pytest.raises(InvalidParamsError):
                await alice.register(task.id, url)
        with pytest.raises(InvalidParamsError):
            await alice.send("hello", push_config=PushConfig("http://10.0.0.1/"))
