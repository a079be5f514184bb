"""Trees of tasks over the console's API: what an agent did, what it delegated, and what a host's agents did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from parley import Agent, Turn
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.model import ModelRequest
from parley.host.models.registry import ModelRegistry
from parley.protocol.events import StepProgressed, StepRecorded
from parley.protocol.tasks import TaskState
from parley.stores.interface import TaskKey, Write
from tests.console.consoles import Browser, console_of, console_of_host
from tests.console.test_task_lists import NOON, OWNER, echo_agent, put_task, send, tenant
from tests.console.test_task_logs import get
from tests.deadlines import fail_after
from tests.host.api_calls import constitution
from tests.host.function_model import FunctionModel

pytestmark = pytest.mark.anyio


async def work(result: str) -> str:
    await asyncio.sleep(0.01)
    return result


def helper_agent() -> Agent:
    helper = Agent("Helper")

    @helper.on_message
    async def answer(turn: Turn) -> str:
        return await turn.step("look up", work, "found")

    return helper


def planner_agent(goes_on: asyncio.Event | None = None) -> Agent:
    """Does everything that a tree shows."""
    planner = Agent("Planner")

    @planner.on_message
    async def plan(turn: Turn) -> AsyncIterator[Any]:
        await turn.step("fetch", work, "page")

        async def words() -> AsyncIterator[str]:
            yield "one "
            await asyncio.sleep(0.01)
            if goes_on is not None:
                await goes_on.wait()
            yield "two"

        yield turn.stream("write", words)
        await turn.delegate("helper", "what?")
        await turn.sleep(0.01)
        answer = await turn.ask("Sure?")
        yield answer.text

    return planner


def outline(tree: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Kind, name, state, and the name of the parent of each node."""
    names = {node["id"]: node["name"] for node in tree["nodes"]}
    return [(node["kind"], node["name"], node["state"], names.get(node["parent"], "")) for node in tree["nodes"]]


async def test_a_tree_shows_everything_that_a_task_did() -> None:
    async with console_of(planner_agent(), helper_agent()) as server:
        browser = await server.browser()
        task = await send(browser, "go", path="/agents/planner")
        tree = await get(browser, f"{task['id']}/tree?agent=planner")
        expected = [
            ("task", "Planner", "input-required", ""),
            ("step", "fetch", "completed", "Planner"),
            ("stream", "write", "completed", "Planner"),
            ("delegate", "helper", "completed", "Planner"),
            ("task", "Helper", "completed", "helper"),
            ("step", "look up", "completed", "Helper"),
            ("sleep", "sleep", "completed", "Planner"),
            ("question", "question", "input-required", "Planner"),
        ]
        assert (tree["root"], outline(tree)) == (task["id"], expected)
        await send(browser, "yes", path="/agents/planner", task=task["id"])
        tree = await get(browser, f"{task['id']}/tree")
        assert tree["is_live"] is False
        assert [state for _, _, state, _ in outline(tree)] == ["completed"] * 8
        nodes = {node["name"]: node for node in tree["nodes"]}
        for node in tree["nodes"]:
            assert node["started_at"] <= node["ended_at"] <= tree["now"], node
        assert seconds(nodes["fetch"]) >= 0.009
        assert seconds(nodes["write"]) >= 0.009
        assert nodes["fetch"]["ended_at"] <= nodes["write"]["started_at"]
        assert (nodes["Helper"]["agent"], nodes["helper"]["agent"]) == ("helper", "helper")
        assert nodes["fetch"]["detail"] == "page"


def seconds(node: dict[str, Any]) -> float:
    return (datetime.fromisoformat(node["ended_at"]) - datetime.fromisoformat(node["started_at"])).total_seconds()


async def test_a_tree_grows_while_it_runs() -> None:
    goes_on = asyncio.Event()
    async with console_of(planner_agent(goes_on), helper_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        sending = asyncio.create_task(send(browser, "go", path="/agents/planner"))
        with fail_after(10):
            while not (rows := (await browser.get("/console/api/tasks")).json()["tasks"]):
                await asyncio.sleep(0.01)
            await page.open("c", "tree", task=rows[0]["id"], agent="planner")
            while ("stream", "write", "working", "Planner") not in outline(tree := (await page.frame("c"))["data"]):
                assert tree["is_live"]
            goes_on.set()
            task = await sending
            while outline((await page.frame("c"))["data"])[-1][0] != "question":
                pass
            await send(browser, "yes", path="/agents/planner", task=task["id"])
            while (tree := (await page.frame("c"))["data"])["is_live"]:
                pass
        assert {state for _, _, state, _ in outline(tree)} == {"completed"}


async def test_a_tree_is_bounded_and_believes_no_log() -> None:
    """Delegations that lead in a circle, elsewhere, or to tasks of others."""
    async with console_of(echo_agent()) as server:
        store, browser = server.app.store, await server.browser()
        await put_task(store, "t-1", state=TaskState.WORKING)
        steps = [
            StepProgressed("t-1", "c-1", "self", {"agent": "echo", "task": "t-1"}, kind="delegate"),
            StepProgressed("t-1", "c-1", "away", {"agent": "https://x.example", "task": "t-1"}, kind="delegate"),
            StepProgressed("t-1", "c-1", "odd", ["not", "an", "object"], kind="delegate"),
            StepRecorded("t-1", "c-1", "sleep", "not a moment", kind="sleep"),
            *[StepRecorded("t-1", "c-1", f"step {number}", number) for number in range(3_000)],
        ]
        await store.tasks.write(Write(TaskKey(OWNER, "t-1"), 3, tuple(steps), TaskState.WORKING, NOON))
        tree = await get(browser, "t-1/tree")
        assert len(tree["nodes"]) == 2_000
        assert tree["nodes"][0]["detail"] == "(not all of the tree is shown)"
        kinds = {node["name"]: node["kind"] for node in tree["nodes"]}
        assert (kinds["echo"], kinds["https://x.example"], kinds["odd"]) == ("delegate", "remote", "delegate")
        await get(browser, "t-2/tree", 404)


async def poem_model(request: ModelRequest) -> AsyncIterator[str]:
    if request.agent_id == "boss":
        yield "/help\n"
    elif request.agent_id != "index":
        yield "Roses are red"
    elif not request.results:
        yield "Let me see.\n/agent writer write a poem\n/help\n/read nothing.md\n"
    else:
        yield "Done."


async def orchestrated(browser: Browser) -> str:
    """Let a host's orchestrator answer a message. Returns the task."""
    created = await browser.post("/v1/agents", constitution("writer"))
    assert created.status_code == 201, created.text
    reply = await browser.post("/v1/orchestrate", {"message": "a poem, please"})
    assert reply.status_code == 200
    rows = (await browser.get("/console/api/tasks")).json()["tasks"]
    (root,) = [row["id"] for row in rows if row["parent"] is None]
    assert [row["parent"] for row in rows if row["agent"] == "writer"] == [root]
    return root


async def test_a_tree_of_a_host_shows_models_tools_and_agents_with_tokens_and_cost() -> None:
    async with console_of_host() as server:
        host = server.host
        assert host is not None
        builtin = {**BUILTIN_MODELS, "parley/router": FunctionModel(poem_model)}
        host.models = ModelRegistry(host.settings.models, builtin=builtin)
        browser = await server.browser()
        await browser.log_in_with((await tenant(server, "acme"))[1])
        task = await orchestrated(browser)
        tree = await get(browser, f"{task}/tree?agent=index")
        shown = outline(tree)
        assert shown[:5] == [
            ("task", "index", "completed", ""),
            ("model", "parley/router", "completed", "index"),
            ("delegate", "writer", "completed", "index"),
            ("task", "Writer", "completed", "writer"),
            ("model", "parley/router", "completed", "Writer"),
        ]
        assert [(kind, name, state) for kind, name, state, _ in shown[5:7]] == [
            ("tool", "help", "completed"),
            ("tool", "read:nothing.md", "failed"),
        ]
        assert [kind for kind, _, _, _ in shown[7:]] == ["model"]
        root, writer = tree["nodes"][0], tree["nodes"][3]
        assert (root["input_tokens"], root["output_tokens"]) == (30, 15)
        assert (writer["input_tokens"], writer["output_tokens"]) == (10, 5)
        assert [(node["cost"], node["currency"]) for node in tree["nodes"] if node["kind"] == "model"] == [
            ("0", "USD")
        ] * 3


async def test_a_tree_shows_what_waits_for_approval() -> None:
    async with console_of_host() as server:
        host = server.host
        assert host is not None
        builtin = {**BUILTIN_MODELS, "parley/router": FunctionModel(poem_model)}
        host.models = ModelRegistry(host.settings.models, builtin=builtin)
        browser = await server.browser()
        await browser.log_in_with((await tenant(server, "acme"))[1])
        rules = [{"on": "command", "match": ["help"]}]
        created = await browser.post("/v1/agents", constitution("boss", approvals=rules))
        assert created.status_code == 201, created.text
        await browser.post("/v1/orchestrate", {"message": "a poem, please", "agent": "boss"})
        (row,) = (await browser.get("/console/api/tasks")).json()["tasks"]
        assert row["state"] == "input-required"
        (node,) = [node for node in (await get(browser, f"{row['id']}/tree"))["nodes"] if node["kind"] == "approval"]
        (waiting,) = (await browser.get("/v1/approvals")).json()["approvals"]
        assert (node["approval"], node["state"], node["ended_at"]) == (waiting["id"], "input-required", None)
