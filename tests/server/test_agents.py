"""Agents that come and go while an app serves: where they are found, and what their callers notice."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from parley import Agent
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.server.app import App
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from tests.server.serving import echo_agent, running, send
from tests.server.test_grpc import V0_3, V1_0, call, channel_to, hello

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"


def speaker(id: str, words: str) -> Agent:
    agent = Agent("Speaker", id=id)

    @agent.on_message
    async def speak(turn: Any) -> str:
        return words

    return agent


async def test_the_first_agent_stays_at_the_root_when_others_come_and_go() -> None:
    metrics = Metrics()
    app = App(echo_agent("One"), telemetry=Telemetry(metrics=metrics))
    async with running(app) as client:
        url = str(client.base_url).rstrip("/")
        assert (await client.get("/agents")).status_code == 404
        app.add(echo_agent("Two"))
        for path, name in (("", "One"), ("/agents/two", "Two")):
            card = (await client.get(f"{path}{CARD}")).json()
            assert (card["name"], card["url"]) == (name, f"{url}{path}/")
            assert (await client.post(f"{path}/", json=send("hi", message_id="m"))).json()["result"]["task"]
        listed = (await client.get("/agents")).json()["agents"]
        assert [(entry["id"], entry["url"]) for entry in listed] == [("one", url), ("two", f"{url}/agents/two")]
        assert (await client.get(f"/agents/one{CARD}")).status_code == 404

        app.remove("two")
        assert (await client.get(f"/agents/two{CARD}")).status_code == 404
        assert b'agent="one"' in metrics.render()[1]
        assert b'agent="two"' not in metrics.render()[1]
        app.remove("one")
        assert (await client.get("/")).json() == {"agents": []}
        assert (await client.get(CARD)).status_code == 404
        app.add(speaker("one", "I am back"))
        reply = (await client.post("/", json=send("hi", message_id="m-2"))).json()
        assert reply["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "I am back"
        with pytest.raises(ValueError, match="no agent with the id 'two'"):
            app.replace(echo_agent("Two"))


@pytest.mark.parametrize("many", [False, True])
async def test_one_of_several_agents_may_be_at_the_root(many: bool) -> None:
    async with running(App(echo_agent("One"), echo_agent("Two"), root="two", many=many)) as client:
        for path, name in (("", "Two"), ("/agents/one", "One")):
            assert (await client.get(f"{path}{CARD}")).json()["name"] == name
        assert [entry["id"] for entry in (await client.get("/agents")).json()["agents"]] == ["one", "two"]
    with pytest.raises(ValueError, match="No agent has the id 'three', to be served at the root; there are: one"):
        App(echo_agent("One"), root="three")


async def test_what_a_removed_agent_still_does_leaves_no_metrics_behind() -> None:
    metrics, go = Metrics(), asyncio.Event()
    app = App(many=True, telemetry=Telemetry(metrics=metrics))
    agent = Agent("Slow")

    @agent.on_message
    async def wait(turn: Any) -> str:
        await go.wait()
        return "done"

    async with running(app) as client:
        app.add(agent)
        sending = asyncio.create_task(client.post("/agents/slow", json=send("hi", message_id="m")))
        while not app.engine.runs.working:
            await asyncio.sleep(0)
        app.remove("slow")
        go.set()
        assert (await sending).json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert b'agent="slow"' not in metrics.render()[1]
        app.add(agent)
        await client.post("/agents/slow", json=send("hi", message_id="m-2"))
        assert b'parley_task_states_total{agent="slow",state="completed"} 1.0' in metrics.render()[1]


@pytest.mark.parametrize("id", ["a/b", ".", "..", "a\nb", "\ud800"])
def test_an_id_that_no_url_can_hold_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match="Invalid agent id"):
        App(many=True).add(speaker(id, "hi"))


async def test_over_grpc_an_added_agent_is_named_by_the_tenant_and_all_others_mean_the_first() -> None:
    app = App(speaker("one", "1"))
    async with channel_to(app) as (channel, _):
        app.add(speaker("two", "2"))
        for dialect, tenant, words in ((V1_0, None, "1"), (V1_0, "acme", "1"), (V1_0, "two", "2"), (V0_3, None, "1")):
            request = hello(tenant=tenant, id=f"{dialect.version} {tenant}")
            task = await call(channel, dialect, ops.SEND_MESSAGE, request)
            assert task.artifacts[0].parts[0].text == words
        app.remove("two")
        found = await call(channel, V1_0, ops.LIST_TASKS, r.ListTasksRequest(tenant="two"))
        assert found.tasks == ()


async def test_an_app_for_many_agents_may_begin_with_none_and_lists_them_in_pages() -> None:
    app = App(many=True)
    async with running(app) as client:
        assert (await client.get("/")).json() == {"agents": []}
        for number in range(250):
            app.add(speaker(f"a-{number:03}", "hi"))
        ids: list[str] = []
        token, pages = "", 0
        while token is not None:
            page = (await client.get("/agents", params={"pageToken": token})).json()
            ids += [entry["id"] for entry in page["agents"]]
            token, pages = page.get("nextPageToken"), pages + 1
        assert (ids, pages) == ([f"a-{number:03}" for number in range(250)], 3)
        assert len((await client.get("/agents", params={"pageSize": "7"})).json()["agents"]) == 7
        for size in ("0", "101", "x"):
            assert (await client.get("/agents", params={"pageSize": size})).status_code == 400


async def test_hundreds_of_agents_come_and_go_under_load() -> None:
    """Each send is answered by the edition of its agent that was there, or says that the agent is not."""
    chance, app = Random(11), App(many=True, drain_seconds=0)
    editions: dict[str, int] = {}
    for number in range(300):
        editions[f"a-{number}"] = 0
        app.add(speaker(f"a-{number}", f"a-{number} 0"))
    answered = refused = 0

    async with running(app) as client:

        async def call_some() -> None:
            nonlocal answered, refused
            for turn in range(30):
                id = f"a-{chance.randrange(300)}"
                reply = await client.post(f"/agents/{id}", json=send("hi", message_id=f"{id} {turn} {chance.random()}"))
                content = reply.json()
                if "error" in content:
                    refused += 1
                    assert reply.status_code == 404 or "not served any more" in content["error"]["message"]
                else:
                    answered += 1
                    words = content["result"]["task"]["artifacts"][0]["parts"][0]["text"].split()
                    assert words[0] == id
                    assert int(words[1]) <= editions[id]

        async def change_some() -> None:
            for _ in range(300):
                id = f"a-{chance.randrange(300)}"
                if app.table.site(id) is None:
                    app.add(speaker(id, f"{id} {editions[id]}"))
                elif chance.random() < 0.4:
                    app.remove(id)
                else:
                    editions[id] += 1
                    app.replace(speaker(id, f"{id} {editions[id]}"))
                await asyncio.sleep(0)

        await asyncio.gather(*(call_some() for _ in range(8)), change_some())
        assert answered
        assert refused
        assert app.engine.runs.working == 0
