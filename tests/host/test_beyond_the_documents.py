"""What the documents leave out or reject and A2A offers: real 1.0, other bindings, and what a tenant switches on."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from parley import Agent, Client, Turn
from parley.client.credentials.credentials import Credentials
from parley.client.guard import Guard
from parley.client.reply import Update
from parley.host.catalogue import GivenAgent
from parley.host.models.model import ModelRequest
from parley.protocol.cards import Binding
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnauthenticatedError
from parley.protocol.masking import MASK
from parley.protocol.tasks import TaskState
from parley.server.run import Serving
from parley.server.webhooks.guard import WebhookPolicy
from tests.host.a2a_calls import call, documented_message, message, path_of, result, streamed
from tests.host.frame_reader import open_stream
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, RunningHost, running_host
from tests.server.test_webhooks import receiving

pytestmark = pytest.mark.anyio

LOCAL = Guard(allowed_hosts=("127.0.0.1",))
WEBHOOKS: Any = {"webhooks": WebhookPolicy(allow_private=True)}


class Script:
    """Says two words; between them, waits at a gate if the message is `wait`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.model = FunctionModel(self._reply)

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        yield "Hello "
        if request.query == "wait":
            await self.gate.wait()
        yield "world"


def asking_agent() -> GivenAgent:
    agent = Agent("Desk", description="Takes orders.")

    @agent.on_message
    async def take_order(turn: Turn) -> str:
        return f"Ordered: {(await turn.ask('What would you like?')).text}"

    return GivenAgent(agent)


async def switch_on(running: RunningHost, tenant: HostTenant, **settings: bool) -> None:
    reply = await running.admin.patch(f"/v1/admin/tenants/{tenant.id}", json={"settings": settings})
    assert reply.status_code == 200, reply.text


# --- real 1.0 at the same URL -----------------------------------------------------------------------------------------


async def test_the_methods_of_1_0_are_answered_in_the_shapes_of_1_0() -> None:
    script = Script()
    async with running_host(models={"parley/router": script.model}) as running:
        client = running.acme.client
        task = (await result(client, "SendMessage", message("hi", contextId="c-42")))["task"]
        assert (task["status"]["state"], task["contextId"]) == ("TASK_STATE_COMPLETED", "c-42")
        assert task["status"]["message"]["messageId"] == f"{task['id']}-r"
        assert task["metadata"]["x-arbiter.agent_id"] == "index"
        assert await result(client, "GetTask", {"id": task["id"]}) == task
        listed = await result(client, "ListTasks", {"contextId": "c-42"})
        assert [one["id"] for one in listed["tasks"]] == [task["id"]]
        first, *updates = await streamed(client, "SendStreamingMessage", message("hi"))
        assert (list(first), first["task"]["status"]["state"]) == (["task"], "TASK_STATE_SUBMITTED")
        assert {name for update in updates for name in update} == {"statusUpdate", "artifactUpdate"}
        assert updates[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert "kind" not in str([task, listed, first, updates])


async def test_a_task_of_1_0_is_followed_and_canceled() -> None:
    script = Script()
    async with running_host(models={"parley/router": script.model}) as running:
        client = running.acme.client
        sent = message("wait") | {"configuration": {"returnImmediately": True}}
        task_id = (await result(client, "SendMessage", sent))["task"]["id"]
        async with open_stream(client, "SubscribeToTask", {"id": task_id}) as stream:
            [first] = await stream.take(1)
            assert first.result["task"]["id"] == task_id
            task = await result(client, "CancelTask", {"id": task_id})
            assert task["status"]["state"] == "TASK_STATE_CANCELED"
            end = (await stream.rest())[-1].result["statusUpdate"]
            assert end["status"]["state"] == "TASK_STATE_CANCELED"
        assert (await call(client, "CancelTask", {"id": task_id}))["error"]["code"] == -32002
        assert (await call(client, "SubscribeToTask", {"id": task_id}))["error"]["code"] == -32004
        assert (await call(running.globex.client, "GetTask", {"id": task_id}))["error"]["code"] == -32001


# --- other bindings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", list(Binding))
async def test_an_agent_is_reached_on_every_binding_of_its_card(binding: Binding) -> None:
    script = Script()
    serving = Serving(port=0, grpc_port=0)
    async with running_host(models={"parley/router": script.model}, serving=serving) as running:
        body = {"id": "scout", "name": "Scout", "role": "r", "goal": "g", "model": "parley/router"}
        await running.acme.client.post("/v1/agents", json=body)
        for agent in ("index", "scout"):
            url, known = running.url + path_of(agent), Credentials({"bearer": running.acme.token}, origins=["*"])
            async with Client(url, credentials=known, bindings=[binding]) as client:
                assert client.interface.binding == binding
                reply = await client.send("hi")
                assert (reply.state, reply.text) == (TaskState.COMPLETED, "Hello world")
                assert reply.task is not None
                assert (await client.get(reply.task)).task == reply.task
                updates: list[Update] = []
                async for update in client.stream("wait"):
                    updates.append(update)
                    if update.text:
                        assert update.task is not None
                        await client.cancel(update.task)
                assert ([one.text for one in updates if one.text], updates[-1].state) == (
                    ["Hello "],
                    TaskState.CANCELED,
                )
                card = client.card  # of the agent that only this tenant has
        unknown = InvalidParamsError if binding is Binding.GRPC else TaskNotFoundError
        for token, error in (("atr_unknown", UnauthenticatedError), (running.globex.token, unknown)):
            other = Credentials({"bearer": token}, origins=["*"])
            async with Client(card, credentials=other, bindings=[binding], guard=LOCAL) as client:
                with pytest.raises(error):
                    await client.send("hi")


# --- what a tenant switches on ----------------------------------------------------------------------------------------


async def test_a_tenant_that_takes_files_gets_file_and_data_parts() -> None:
    script = Script()
    parts = [
        {"kind": "text", "text": "Look:"},
        {
            "kind": "file",
            "file": {"bytes": base64.b64encode(b"abc").decode(), "name": "a.txt", "mimeType": "text/plain"},
        },
        {"kind": "data", "data": {"guests": 2}},
    ]
    async with running_host(models={"parley/router": script.model}) as running:
        await switch_on(running, running.acme, file_parts=True)
        card = (await running.acme.client.get(f"{path_of('index')}/agent-card.json")).json()
        assert set(card["defaultInputModes"]) > {"text/plain", "application/json"}
        task = await result(running.acme.client, "message/send", documented_message("", parts=parts))
        assert (task["status"]["state"], task["history"][0]["parts"]) == ("completed", parts)
        [asked] = script.model.requests
        assert asked.query == 'Look:\n[FILE a.txt]\nabc\n[END FILE]\n{"guests":2}'
        refused = await call(running.globex.client, "message/send", documented_message("", parts=parts))
        assert refused["error"]["code"] == -32005


async def test_a_tenant_with_push_notifications_has_its_webhooks_called() -> None:
    script = Script()
    async with receiving() as hook, running_host(models={"parley/router": script.model}, options=WEBHOOKS) as running:
        client = running.acme.client
        await switch_on(running, running.acme, push_notifications=True)
        card = (await client.get(f"{path_of('index')}/agent-card.json")).json()
        assert card["capabilities"]["pushNotifications"] is True
        async with open_stream(client, "message/stream", documented_message("wait")) as stream:
            [first, _] = await stream.take(2)
            config = {"url": hook.url(), "token": "of the test"}
            params = {"taskId": (task_id := first.result["taskId"]), "pushNotificationConfig": config}
            kept = await result(client, "tasks/pushNotificationConfig/set", params)
            assert kept["pushNotificationConfig"].items() >= {**config, "token": MASK}.items()
            assert await result(client, "tasks/pushNotificationConfig/get", {"id": task_id}) == kept
            assert await result(client, "tasks/pushNotificationConfig/list", {"id": task_id}) == [kept]
            script.gate.set()
            await stream.rest()
        delivered: list[dict[str, Any]] = []
        while not delivered or delivered[-1]["status"]["state"] != "completed":
            await hook.until(len(delivered) + 1)
            delivered.append(json.loads(hook.requests[len(delivered)][2]))
        assert (delivered[-1]["id"], delivered[-1]["kind"]) == (task_id, "task")
        assert {headers["x-a2a-notification-token"] for _, headers, _ in hook.requests} == {"of the test"}
        names = {"id": task_id, "pushNotificationConfigId": kept["pushNotificationConfig"]["id"]}
        await result(client, "tasks/pushNotificationConfig/delete", names)
        assert await result(client, "tasks/pushNotificationConfig/list", {"id": task_id}) == []
        sent = documented_message("hi") | {"configuration": {"pushNotificationConfig": config}}
        refused = await call(running.globex.client, "message/send", sent)
        assert refused["error"]["code"] == -32003


async def test_agents_of_a_tenant_with_input_required_may_ask() -> None:
    async with running_host(given_agents=(asking_agent(),)) as running:
        client = running.acme.client
        refused = await result(client, "message/send", documented_message("hi"), agent="desk")
        assert refused["status"]["state"] == "failed"
        await switch_on(running, running.acme, input_required=True)
        frames = await streamed(client, "message/stream", documented_message("hi"), agent="desk")
        end = frames[-1]
        assert (end["status"]["state"], end["final"]) == ("input-required", True)
        assert end["status"]["message"]["parts"][0]["text"] == "What would you like?"
        ids = {"taskId": end["taskId"], "contextId": end["contextId"]}
        task = await result(client, "message/send", documented_message("Soup", **ids), agent="desk")
        assert (task["id"], task["status"]["state"]) == (end["taskId"], "completed")
        assert task["artifacts"][0]["parts"][0]["text"] == "Ordered: Soup"


async def test_a_question_of_a_sub_agent_reaches_the_caller_of_the_master() -> None:
    async def order(request: ModelRequest) -> AsyncIterator[str]:
        yield request.results[-1].body if request.results else "/agent desk Take an order.\n"

    models = {"parley/router": FunctionModel(order)}
    async with running_host(models=models, given_agents=(asking_agent(),)) as running:
        client = running.acme.client
        await switch_on(running, running.acme, input_required=True)
        task = await result(client, "message/send", documented_message("hi"))
        assert task["status"]["state"] == "input-required"
        assert task["status"]["message"]["parts"][0]["text"] == "What would you like?"
        ids = {"taskId": task["id"], "contextId": task["contextId"]}
        task = await result(client, "message/send", documented_message("Soup", **ids))
        assert task["status"]["state"] == "completed"
        assert task["status"]["message"]["parts"][0]["text"] == "Ordered: Soup"
