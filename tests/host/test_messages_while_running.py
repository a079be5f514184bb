"""Messages to a task, or to a conversation, while another message of it is being worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from parley import Agent
from parley.agents.turn import Turn
from parley.engine.runs.run import Run
from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import Quotas
from parley.host.models.endpoints import OpenAiCompatible
from parley.host.models.model import ModelRequest
from parley.host.models.registry import ModelRegistrySettings
from parley.protocol.extensions import PRIORITY, WHEN_BUSY
from tests.host.a2a_calls import call, documented_message, message, path_of, result
from tests.host.api_calls import constitution
from tests.host.function_model import FunctionModel
from tests.host.openai_server import Gate, OpenAiServer, Reply
from tests.host.running_host import HostTenant, ReadEvent, read_events, running_host

pytestmark = pytest.mark.anyio


class Talk:
    """A model that says what it hears. Of a message with `slow`, it says a part, and then waits until it may go on."""

    def __init__(self) -> None:
        self.waits, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.model = FunctionModel(self._reply)

    async def _reply(self, request: ModelRequest) -> AsyncIterator[str]:
        if "ask" in request.query and request.agent_id == "worker" and not request.results:
            yield "/agent helper slow\n"
            return
        yield f"{request.query}: "
        if "slow" in request.query:
            self.waits.set()
            await self.may_go_on.wait()
        yield "done"

    @property
    def models(self) -> dict[str, Any]:
        return {"parley/test": self.model}

    @property
    def told(self) -> list[list[str]]:
        """What the model was told in each call."""
        return [[f"{one.role}: {one.text}" for one in request.messages] for request in self.model.requests]


async def add_agent(tenant: HostTenant, agent_id: str = "worker", **members: Any) -> None:
    reply = await tenant.client.post("/v1/agents", json=constitution(agent_id, model="parley/test") | members)
    assert reply.status_code == 201, reply.text


async def begin(tenant: HostTenant, text: str, *, agent: str = "worker", when_busy: str = "", **members: Any) -> Any:
    """The task of a message, as it is when the message was taken."""
    metadata = {"metadata": {WHEN_BUSY: when_busy}} if when_busy else {}
    params = message(text, **members, **metadata) | {"configuration": {"returnImmediately": True}}
    return (await result(tenant.client, "SendMessage", params, agent=agent))["task"]


async def events_of(tenant: HostTenant, task_id: str) -> list[ReadEvent]:
    """All events of a request, when it has ended."""
    return await read_events(tenant.client, "GET", f"/v1/requests/{task_id}/events")


async def content_of(tenant: HostTenant, task_id: str) -> str:
    return (await events_of(tenant, task_id))[-1].payload["content"]


# --- to a task --------------------------------------------------------------------------------------------------------


async def test_messages_to_a_task_at_work_are_answered_in_the_same_task_after_the_present_answer() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme)
        task = await begin(acme, "slow one")
        await talk.waits.wait()
        assert (await begin(acme, "two", taskId=task["id"]))["id"] == task["id"]
        body = {"message": "three"}
        reply = await acme.client.post(f"/v1/requests/{task['id']}/messages", json=body)
        assert (reply.status_code, reply.json()["request_id"]) == (202, task["id"])
        talk.may_go_on.set()
        events = await events_of(acme, task["id"])
        assert events[-1].payload["content"] == "slow one: done\n\ntwo\n\nthree: done"
        first = "user: slow one"
        assert talk.told == [[first], [first, "assistant: slow one: done", "user: two\n\nthree"]]
        names = [event.name for event in events]
        assert names.index("message_received") < names.index("token_usage") < names.index("answer_start")
        assert events[names.index("answer_start")].payload["message_ids"][1] == reply.json()["message_id"]
        reply = await acme.client.post(f"/v1/requests/{task['id']}/messages", json=body)
        assert (reply.status_code, reply.json()["error"]) == (409, "the request has ended")


async def test_each_answer_may_use_as_many_commands_and_calls_as_the_first_one() -> None:
    calls = 0

    async def reply(request: ModelRequest) -> AsyncIterator[str]:
        nonlocal calls
        calls += 1
        if calls in (1, 7):
            waits.set()
            await may_go_on.wait()
        yield "/help\n" if len(request.results) < 5 else f"{request.query} took {len(request.results)}"

    waits, may_go_on = asyncio.Event(), asyncio.Event()
    async with running_host(models={"parley/test": FunctionModel(reply)}, tenants=("acme",)) as running:
        await add_agent(running.acme)
        task = await begin(running.acme, "one")
        await waits.wait()
        await begin(running.acme, "two", taskId=task["id"])
        may_go_on.set()
        assert await content_of(running.acme, task["id"]) == "one took 5\n\ntwo took 5"


async def test_an_interrupting_message_closes_the_connection_to_the_provider_and_is_answered_at_once() -> None:
    async with OpenAiServer() as provider:
        provider.script(Reply("Once upon ", Gate()), Reply("Two."))
        settings = ModelRegistrySettings(openai_compatible=(OpenAiCompatible("mine", provider.base_url, None),))
        async with running_host(model_settings=settings, tenants=("acme",)) as running:
            acme = running.acme
            await add_agent(acme, model="mine/test", when_busy="interrupt")
            task = await begin(acme, "one")
            request = await provider.received(1)
            await read_events(acme.client, "GET", f"/v1/requests/{task['id']}/events", until="text")
            await begin(acme, "two", taskId=task["id"])
            await request.client_left()
            events = await events_of(acme, task["id"])
        assert events[-1].payload["content"] == "Once upon  … [interrupted]\n\nTwo."
        assert [event.payload["call"] for event in events if event.name == "interrupted"] == [1]
        told = [(one["role"], one["content"]) for one in (await provider.received(2)).body["messages"][1:]]
        assert told[:2] == [("user", "one"), ("assistant", "Once upon ")]
        assert told[2][1].endswith("interrupted your reply, which the user saw up to this point.]\n\ntwo")


async def test_an_answer_is_interrupted_where_it_is_and_what_earlier_calls_said_is_not_repeated() -> None:
    talk = Talk()

    async def reply(request: ModelRequest) -> AsyncIterator[str]:
        if request.query == "one" and not request.results:
            yield "First.\n/help\n"
        elif request.query == "one":
            talk.waits.set()
            await talk.may_go_on.wait()
        else:
            yield f"{request.query}."

    talk.model = FunctionModel(reply)
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        await add_agent(running.acme)
        task = await begin(running.acme, "one")
        await talk.waits.wait()
        await begin(running.acme, "two", taskId=task["id"], when_busy="interrupt")
        assert await content_of(running.acme, task["id"]) == "First.\n\ntwo."
        assert talk.told[2][:2] == ["user: one", "assistant: First.\n/help\n"]


async def test_a_message_that_interrupts_a_task_before_it_begins_is_answered_with_it() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",), runs_at_once=1) as running:
        acme = running.acme
        await add_agent(acme)
        await begin(acme, "slow one")
        await talk.waits.wait()
        task = await begin(acme, "two")
        assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
        await begin(acme, "three", taskId=task["id"], when_busy="interrupt")
        talk.may_go_on.set()
        assert await content_of(acme, task["id"]) == "three: done"
        assert talk.told[1] == ["user: two\n\nthree"]


async def test_model_calls_are_made_in_the_task_of_their_run() -> None:
    found: list[Run | None] = []

    async def reply(request: ModelRequest) -> AsyncIterator[str]:
        task = asyncio.current_task()
        found.append(None if task is None else running.host.engine.runs.run_of(task))
        yield "done"

    async with running_host(models={"parley/test": FunctionModel(reply)}, tenants=("acme",)) as running:
        await add_agent(running.acme)
        task = await begin(running.acme, "one")
        assert await content_of(running.acme, task["id"]) == "done"
        assert [run.key.task_id for run in found if run is not None] == [task["id"]]


async def test_an_interrupting_message_cancels_what_was_delegated() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme)
        await add_agent(acme, "helper")
        task = await begin(acme, "ask")
        await talk.waits.wait()
        await begin(acme, "two", taskId=task["id"], when_busy="interrupt")
        assert await content_of(acme, task["id"]) == "two: done"
        (child,) = (await acme.client.get(f"/v1/requests/{task['id']}/tree")).json()["children"]
        ended = await acme.client.get(f"/v1/requests/{child['request_id']}?wait=5")
        assert ended.json()["request"]["state"] == "canceled"


async def test_a_message_that_is_not_to_wait_is_refused_in_the_dialect_of_its_caller_and_changes_nothing() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme, when_busy="refuse")
        task = await begin(acme, "slow one", contextId="c")
        await talk.waits.wait()
        seq = (await acme.client.get(f"/v1/requests/{task['id']}")).json()["request"]["last_seq"]
        for addressed in ({"taskId": task["id"]}, {"contextId": "c"}):
            old = await call(acme.client, "message/send", documented_message("two", **addressed), agent="worker")
            new = await call(acme.client, "SendMessage", message("two", **addressed), agent="worker")
            for reply in (old, new):
                assert reply["error"]["code"] == -32004
                assert task["id"] in reply["error"]["message"]
            assert new["error"]["data"][0]["metadata"]["taskId"] == task["id"]
            rest = f"{path_of('worker')}/rest"
            sent = await acme.client.post(f"{rest}/message:send", json=message("two", **addressed))
            assert (sent.status_code, sent.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
            part = {"text": "two"}
            body = {"message": {"role": "ROLE_USER", "messageId": "m", "content": [part], **addressed}}
            sent = await acme.client.post(f"{rest}/v1/message:send", json=body)
            assert sent.status_code == 409, sent.text
        sent = await acme.client.post(f"/v1/requests/{task['id']}/messages", json={"message": "two"})
        assert (sent.status_code, sent.json()["request_id"]) == (409, task["id"])
        assert (await acme.client.get(f"/v1/requests/{task['id']}")).json()["request"]["last_seq"] == seq
        queued = await begin(acme, "two", taskId=task["id"], when_busy="queue")  # the message wins over its agent
        talk.may_go_on.set()
        assert await content_of(acme, queued["id"]) == "slow one: done\n\ntwo: done"


async def test_what_a_message_says_of_other_work_is_checked() -> None:
    async with running_host(models=Talk().models, tenants=("acme",)) as running:
        client = running.acme.client
        await add_agent(running.acme)
        for name, value in (
            (WHEN_BUSY, "later"),
            (WHEN_BUSY, 3),
            (PRIORITY, "urgent"),
            (PRIORITY, 10),
            (PRIORITY, True),
        ):
            reply = await call(client, "SendMessage", message("x", metadata={name: value}), agent="worker")
            assert reply["error"]["code"] == -32602
            (violation,) = reply["error"]["data"][1]["fieldViolations"]
            assert violation["field"] == f"message.metadata['{name}']"
        for member, value in (("when_busy", "later"), ("priority", "urgent"), ("priority", -1)):
            reply = await client.post("/v1/orchestrate", json={"message": "x", member: value})
            assert (reply.status_code, reply.json()["error"].split(":")[0]) == (400, f"$.{member}")
        reply = await client.post("/v1/agents", json=constitution("other", when_busy="later"))
        assert reply.json()["error"].startswith("$.when_busy: must be one of")
        card = (await client.get(f"{path_of('worker')}/agent-card.json")).json()
        assert {WHEN_BUSY, PRIORITY} <= {one["uri"] for one in card["capabilities"]["extensions"]}


async def test_messages_to_a_task_at_work_count_for_the_rate_limit() -> None:
    talk = Talk()
    quotas = Quotas(requests_per_minute=3, concurrent_requests=1)
    async with running_host(models=talk.models, tenants=("acme",), quotas=quotas) as running:
        await add_agent(running.acme)
        task = await begin(running.acme, "slow one")
        await talk.waits.wait()
        for _ in range(2):
            await begin(running.acme, "more", taskId=task["id"])
        reply = await call(running.acme.client, "SendMessage", message("more", taskId=task["id"]), agent="worker")
        assert reply["error"]["code"] == -32033


async def test_an_agent_of_python_finds_later_messages_in_its_history_and_cannot_be_interrupted() -> None:
    agent, may_go_on = Agent("Python", id="python", description="Waits."), asyncio.Event()

    @agent.on_message
    async def wait(turn: Turn) -> str:
        await may_go_on.wait()
        return ", ".join(one.text for one in turn.history)

    async with running_host(given_agents=(GivenAgent(agent),), tenants=("acme",)) as running:
        acme = running.acme
        task = await begin(acme, "one", agent="python")
        for when_busy in ("interrupt", "refuse"):
            params = message("two", taskId=task["id"], metadata={WHEN_BUSY: when_busy})
            reply = await call(acme.client, "SendMessage", params, agent="python")
            assert reply["error"]["code"] == -32004
        await begin(acme, "two", agent="python", taskId=task["id"])
        may_go_on.set()
        assert await content_of(acme, task["id"]) == "one, two"


async def test_a_task_takes_a_bounded_number_of_messages_while_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.host.busy_rules.MOST_LATER_MESSAGES", 2)
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        await add_agent(running.acme)
        task = await begin(running.acme, "slow one")
        await talk.waits.wait()
        for text in ("two", "three"):
            await begin(running.acme, text, taskId=task["id"])
        reply = await call(running.acme.client, "SendMessage", message("four", taskId=task["id"]), agent="worker")
        assert reply["error"]["code"] == -32033
        talk.may_go_on.set()
        assert await content_of(running.acme, task["id"]) == "slow one: done\n\ntwo\n\nthree: done"


# --- to a conversation ------------------------------------------------------------------------------------------------


async def test_a_hundred_messages_to_one_conversation_are_answered_in_their_order() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme)
        await acme.client.post("/v1/conversations", json={"agent_id": "worker"})
        path = "/v1/conversations/1/messages"

        async def say(number: int) -> str:
            events = await read_events(acme.client, "POST", path, json={"message": f"slow {number}"}, until="queued")
            return events[0].payload["request_id"]

        first = await read_events(acme.client, "POST", path, json={"message": "slow 0"}, until="text")
        ids = [first[0].payload["request_id"]] + [await say(number) for number in range(1, 4)]
        more = await asyncio.gather(*[say(number) for number in range(4, 100)])
        waiting = (await acme.client.get("/v1/queue?limit=1000")).json()
        assert (waiting["running"], waiting["waiting"]) == (1, 99)
        assert [entry["request_id"] for entry in waiting["entries"]][:4] == ids
        order = [entry["request_id"] for entry in waiting["entries"]]
        assert {*order} == {*ids, *more}
        assert {entry.get("waits_for") for entry in waiting["entries"][1:]} == {ids[0]}
        talk.may_go_on.set()
        assert (await events_of(acme, order[-1]))[-1].payload["ok"]
        told = talk.told[-1]
        assert len(talk.told) == 100
        said = [line for line in told if line.startswith("assistant")]
        asked = [line.removeprefix("user: ") for line in told if line.startswith("user")]
        assert said == [f"assistant: {text}: done" for text in asked[:-1]]
        assert asked[-3:] == [request.query for request in talk.model.requests[-3:]]


async def test_a_newer_message_interrupts_its_conversation_and_those_that_wait_stay() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme)
        first = await begin(acme, "slow one", contextId="c")
        await talk.waits.wait()
        second = await begin(acme, "two", contextId="c")
        assert second["status"]["state"] == "TASK_STATE_SUBMITTED"
        third = await begin(acme, "three", contextId="c", when_busy="interrupt")
        ends = [(await events_of(acme, task["id"]))[-1].payload for task in (first, second, third)]
        assert [(end["ok"], end["content"]) for end in ends] == [
            (False, "slow one: "),
            (True, "two: done"),
            (True, "three: done"),
        ]
        assert (ends[0]["error_code"], ends[0]["error"]) == (
            "interrupted",
            "The request was interrupted by a newer message.",
        )
        assert [request.query for request in talk.model.requests] == ["slow one", "three", "two"]
        task = await result(acme.client, "GetTask", {"id": first["id"]}, agent="worker")
        assert task["metadata"]["x-arbiter.interrupted_by"] == third["id"]


async def test_a_request_that_goes_on_after_an_approval_does_not_interrupt_a_newer_one() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme, rule = running.acme, {"on": "delegate"}
        await add_agent(acme, when_busy="interrupt", approvals=[rule])
        await add_agent(acme, "helper")
        first = (await result(acme.client, "SendMessage", message("ask", contextId="c"), agent="worker"))["task"]
        second = await begin(acme, "slow two", contextId="c")
        await talk.waits.wait()
        (waiting,) = (await acme.client.get("/v1/approvals")).json()["approvals"]
        assert (await acme.client.post(f"/v1/approvals/{waiting['id']}", json={"decision": "deny"})).is_success
        talk.may_go_on.set()
        assert await content_of(acme, second["id"]) == "slow two: done"
        assert await content_of(acme, first["id"]) == "ask: done"


async def test_a_request_that_wakes_up_does_not_interrupt_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.engine.runs.sleeps.SHORT_SECONDS", 0)
    agent, at_work, may_go_on = Agent("Sleeper", id="sleeper", description="Sleeps."), asyncio.Event(), asyncio.Event()

    @agent.on_message
    async def sleep(turn: Turn) -> str:
        if turn.text == "sleep":
            await turn.sleep(0.2)
        else:
            at_work.set()
            await may_go_on.wait()
        return turn.text

    async with running_host(given_agents=(GivenAgent(agent),), tenants=("acme",)) as running:
        acme = running.acme
        first = await begin(acme, "sleep", agent="sleeper", contextId="c", when_busy="interrupt")
        second = await begin(acme, "two", agent="sleeper", contextId="c")
        await at_work.wait()
        while not running.host.turns.queue(acme.id):
            await asyncio.sleep(0)
        may_go_on.set()
        assert [await content_of(acme, task["id"]) for task in (second, first)] == ["two", "sleep"]


async def test_a_request_that_is_canceled_while_it_waits_leaves_its_turn_to_the_next_one() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme)
        tasks = [await begin(acme, "slow one", contextId="c")]
        await talk.waits.wait()
        tasks += [await begin(acme, text, contextId="c") for text in ("two", "three")]
        for task in (tasks[1], tasks[0]):
            assert (await acme.client.post(f"/v1/requests/{task['id']}/cancel")).json()["cancelled"]
        assert await content_of(acme, tasks[2]["id"]) == "three: done"
        assert running.host.turns.tenants() == []


async def test_the_model_is_told_what_was_said_before_a_conversation_was_interrupted() -> None:
    talk = Talk()
    async with running_host(models=talk.models, tenants=("acme",)) as running:
        acme = running.acme
        await add_agent(acme, when_busy="interrupt")
        await acme.client.post("/v1/conversations", json={"agent_id": "worker"})
        path = "/v1/conversations/1/messages"
        await read_events(acme.client, "POST", path, json={"message": "slow one"}, until="text")
        events = await read_events(acme.client, "POST", path, json={"message": "two"})
        assert events[-1].payload["content"] == "two: done"
        assert talk.told[1] == ["user: slow one", "assistant: slow one:  … [interrupted]", "user: two"]
        reply = await acme.client.post(path, json={"message": "three", "when_busy": "refuse"})
        assert reply.status_code == 200  # nothing is at work


async def test_sub_agents_do_not_wait_for_the_request_that_they_work_for() -> None:
    talk = Talk()
    talk.may_go_on.set()
    async with running_host(models=talk.models, tenants=("acme",), runs_at_once=1) as running:
        acme = running.acme
        await add_agent(acme)
        await add_agent(acme, "helper")
        tasks = [await begin(acme, "ask", contextId="c") for _ in range(3)]
        assert [await content_of(acme, task["id"]) for task in tasks] == ["ask: done"] * 3


async def test_a_request_that_asks_a_question_lets_the_next_one_of_its_conversation_begin() -> None:
    agent = Agent("Asker", id="asker", description="Asks.")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        return (await turn.ask("Which?")).text if turn.text == "ask" else turn.text

    async with running_host(given_agents=(GivenAgent(agent),), tenants=("acme",)) as running:
        acme = running.acme
        await running.admin.patch(f"/v1/admin/tenants/{acme.id}", json={"settings": {"input_required": True}})
        first = await begin(acme, "ask", agent="asker", contextId="c")
        second = await begin(acme, "other", agent="asker", contextId="c")
        assert await content_of(acme, second["id"]) == "other"
        await begin(acme, "this", agent="asker", taskId=first["id"])
        assert await content_of(acme, first["id"]) == "this"


async def test_contexts_of_other_agents_and_other_tenants_do_not_wait_for_one_another() -> None:
    talk = Talk()
    async with running_host(models=talk.models) as running:
        for tenant in (running.acme, running.globex):
            await add_agent(tenant)
        await add_agent(running.acme, "helper")
        await begin(running.acme, "slow one", contextId="c")
        await talk.waits.wait()
        others = [(running.acme, "helper"), (running.globex, "worker")]
        tasks = [await begin(tenant, "two", agent=agent, contextId="c") for tenant, agent in others]
        assert [await content_of(tenant, task["id"]) for (tenant, _), task in zip(others, tasks, strict=True)] == [
            "two: done",
            "two: done",
        ]
