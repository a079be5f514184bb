"""The orchestration loop, through a model that speaks the OpenAI protocol over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from parley import Agent
from parley.agents.turn import Turn
from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import TenantSettings
from parley.host.models.endpoints import OpenAiCompatible
from parley.host.models.registry import ModelRegistrySettings
from parley.host.models.retrying import ModelRetrySettings
from tests.host.openai_server import CUT, Failure, Gate, OpenAiServer, ReceivedRequest, Reply
from tests.host.running_host import HostTenant, ReadEvent, RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio

NO_PAUSES = ModelRetrySettings(first_pause=0.0)


@asynccontextmanager
async def host_with_model(**settings: Any) -> AsyncGenerator[tuple[RunningHost, OpenAiServer]]:
    """A host whose default model is the scripted server."""
    async with OpenAiServer() as server:
        models = ModelRegistrySettings(
            default_model="test/gpt",
            openai_compatible=(OpenAiCompatible("test", server.base_url),),
            retries=NO_PAUSES,
        )
        async with running_host(model_settings=models, tenants=("acme",), **settings) as running:
            yield running, server


def agent_definition(agent_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": agent_id, "name": agent_id.title(), "role": "worker", "goal": f"Does {agent_id}.", **fields}


async def add_agent(tenant: HostTenant, agent_id: str, **fields: Any) -> None:
    reply = await tenant.client.post("/v1/agents", json=agent_definition(agent_id, **fields))
    assert reply.status_code == 201, reply.text


async def orchestrate(tenant: HostTenant, message: str, **body: Any) -> list[ReadEvent]:
    return await read_events(tenant.client, "POST", "/v1/orchestrate", json={"message": message, **body})


def named(events: list[ReadEvent], *names: str) -> list[dict[str, Any]]:
    return [event.payload for event in events if event.name in names]


def text_of(events: list[ReadEvent]) -> str:
    """The text that a reader of the stream holds in the end."""
    text = ""
    for event in events:
        if event.name == "text":
            text = event.payload["delta"] if event.payload.get("replace") else text + event.payload["delta"]
    return text


def by_agent(**answers: Callable[[ReceivedRequest], Reply] | Reply) -> Callable[[ReceivedRequest], Reply]:
    """Answers by the agent that calls: its name is in the first line of the system prompt."""

    def choose(request: ReceivedRequest) -> Reply:
        for name, answer in answers.items():
            if request.system.startswith(f"You are {name}"):
                return answer if isinstance(answer, Reply) else answer(request)
        raise AssertionError(f"no answer for: {request.system[:80]}")

    return choose


async def test_text_streams_as_the_model_says_it_and_the_end_repeats_it_whole() -> None:
    async with host_with_model() as (running, server):
        gate = Gate()
        server.script(Reply("Hel", "lo ", gate, "there.", input_tokens=20, output_tokens=4))
        events: list[ReadEvent] = []
        async with running.acme.client.stream("POST", "/v1/orchestrate", json={"message": "Hi"}) as reply:
            frames = reply.aiter_lines()
            async for line in frames:
                if '"delta":"lo "' in line:
                    break
            gate.open()  # only now: the first pieces came before the model had ended
            async for _ in frames:
                pass
        (request,) = (await running.acme.client.get("/v1/requests")).json()["requests"]
        path = f"/v1/requests/{request['request_id']}/events"
        events = await read_events(running.acme.client, "GET", path)
        assert [delta["delta"] for delta in named(events, "text")] == ["Hel", "lo ", "there."]
        (done,) = named(events, "done")
        assert (done["ok"], done["content"], done["input_tokens"], done["output_tokens"]) == (
            True,
            "Hello there.",
            20,
            4,
        )
        assert server.requests[0].system.startswith("You are index, orchestrator.")


async def test_sub_agents_answer_in_parallel_and_the_master_makes_one_answer_of_it() -> None:
    async with host_with_model() as (running, server):
        for agent_id in ("north", "south"):
            await add_agent(running.acme, agent_id)
        gates = {"North": Gate(), "South": Gate()}
        both_asked: list[str] = []

        def worker(request: ReceivedRequest) -> Reply:
            name = request.system.split(",")[0].removeprefix("You are ")
            both_asked.append(name)
            if len(both_asked) == 2:  # both are at work at the same time
                for gate in gates.values():
                    gate.open()
            return Reply(gates[name], f"{name} says ", "hi.", input_tokens=5, output_tokens=3)

        def master(request: ReceivedRequest) -> Reply:
            if "[TOOL RESULTS]" not in request.prompt:
                return Reply("Asking. \n/parallel\n/agent north greet\n", "/agent south greet\n/endparallel\n")
            assert "[child 1/2 — /agent north]\nNorth says hi.\n[END CHILD 1]" in request.prompt
            assert "[child 2/2 — /agent south]\nSouth says hi.\n[END CHILD 2]" in request.prompt
            return Reply("Both said hi.")

        server.answer_with(by_agent(index=master, North=worker, South=worker))
        events = await orchestrate(running.acme, "greet everybody")
        assert text_of(events) == "Asking. \n\nBoth said hi."  # and no line of a command
        answers = named(events, "sub_agent_response")
        assert [(one["agent"], one["depth"], one["content"]) for one in answers] == [
            ("north", 1, "North says hi."),
            ("south", 1, "South says hi."),
        ]
        starts = [
            (event.name, event.payload["agent"]) for event in events if event.name in ("agent_start", "stream_end")
        ]
        assert starts == [
            ("agent_start", "north"),
            ("agent_start", "south"),
            ("stream_end", "north"),
            ("stream_end", "south"),
            ("stream_end", "index"),
        ]
        (done,) = named(events, "done")
        assert done["content"] == text_of(events)
        assert (done["input_tokens"], done["output_tokens"]) == (11 + 11 + 5 + 5, 7 + 7 + 3 + 3)  # with the sub-agents'
        tree = (await running.acme.client.get(f"/v1/requests/{done['request_id']}/tree")).json()
        children = tree.get("request", tree)["children"]
        assert [child["agent_id"] for child in children] == ["north", "south"]
        listed = (await running.acme.client.get("/v1/requests")).json()["requests"]
        assert [request["agent_id"] for request in listed] == ["index"]  # what was delegated is not a request


async def test_delegation_ends_at_depth_two_and_index_and_self_cannot_be_called() -> None:
    async with host_with_model() as (running, server):
        for agent_id in ("first", "second", "third"):
            await add_agent(running.acme, agent_id)
        prompts: dict[str, list[str]] = {}

        def chain(command: str) -> Callable[[ReceivedRequest], Reply]:
            def answer(request: ReceivedRequest) -> Reply:
                name = request.system.split(",")[0].removeprefix("You are ")
                prompts.setdefault(name, []).append(request.prompt)
                return Reply("Done.") if "[TOOL RESULTS]" in request.prompt else Reply(f"{command}\n")

            return answer

        server.answer_with(
            by_agent(
                index=chain("/agent first go"),
                First=chain("/agent second go\n/agent index go\n/agent first go\n/agent nowhere go"),
                Second=chain("/agent third go"),
            )
        )
        events = await orchestrate(running.acme, "go")
        assert named(events, "done")[0]["ok"] is True
        refused = prompts["First"][1]
        assert "[/agent index go]\nERR: The agent index cannot be called by other agents." in refused
        assert "[/agent first go]\nERR: An agent cannot call itself." in refused
        assert "[/agent nowhere go]\nERR: There is no agent 'nowhere'. There are: first, second, third." in refused
        assert "ERR: Agents at depth 2 of 2 cannot delegate" in prompts["Second"][1]
        assert "[DELEGATION CONTEXT]\nOriginal request: go\nDelegated by: first\nDepth: 2/2" in prompts["Second"][0]
        assert "Third" not in prompts


async def test_a_sub_agent_that_fails_is_an_error_result_and_not_the_end() -> None:
    async with host_with_model() as (running, server):
        await add_agent(running.acme, "worker", model="test/broken")

        def answer(request: ReceivedRequest) -> Reply | Failure:
            if request.model == "broken":
                return Failure(400, "No such thing.")
            if "[TOOL RESULTS]" in request.prompt:
                assert "[/agent worker do it]\nERR: " in request.prompt
                assert "UPSTREAM FAILED" in request.prompt
                return Reply("It could not be done.")
            return Reply("/agent worker do it\n")

        server.answer_with(answer)  # type: ignore[arg-type]
        events = await orchestrate(running.acme, "do it")
        assert text_of(events) == "It could not be done."
        assert named(events, "stream_end")[0] == {"agent": "worker", "stream_id": 1, "ok": False}


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([Failure(401)], "auth_failed"),
        ([Failure(404)], "not_found"),
        ([Failure(400)], "invalid_request"),
        ([Failure(429)] * 3, "rate_limited"),
        ([Failure(503)] * 3, "provider_error"),
        ([Reply("Half an ", CUT)], "provider_error"),
    ],
    ids=["key", "model", "request", "rate", "provider", "cut"],
)
async def test_a_model_that_fails_fails_the_task_and_says_why(failures: list[Failure | Reply], code: str) -> None:
    async with host_with_model() as (running, server):
        server.script(*failures)
        events = await orchestrate(running.acme, "Hi")
        (error,), (done,) = named(events, "error"), named(events, "done")
        assert (done["ok"], done["error_code"], error["error_code"]) == (False, code, code)
        assert len(server.requests) == len(failures)
        request = (await running.acme.client.get(f"/v1/requests/{done['request_id']}")).json()["request"]
        assert (request["state"], request["error_message"]) == ("failed", error["message"])


async def test_a_model_that_is_overloaded_is_asked_again() -> None:
    async with host_with_model() as (running, server):
        server.script(Failure(429), Failure(503), Reply("Here I am."))
        assert text_of(await orchestrate(running.acme, "Hi")) == "Here I am."


async def test_commands_run_in_order_and_their_results_are_framed() -> None:
    async with host_with_model() as (running, server):
        server.script(
            Reply(
                "Saving.\n",
                "/write notes.md\n# Notes\n/agent is text here\n/endwrite\n",
                "/mem write remember me\n/mem shared read\n/mem add entry project Apollo\nMoon.\n/endmem\n",
                "/read notes.md\n/search moon\n/exec ls\n/help write\n",
            ),
            Reply("Saved."),
        )
        events = await orchestrate(running.acme, "save")
        (file,) = named(events, "file")
        assert (file["path"], file["content"], file["size"]) == ("notes.md", "# Notes\n/agent is text here", 27)
        tools = [(tool["tool"], tool["ok"]) for tool in named(events, "tool_call")]
        assert tools == [
            ("write:notes.md", True),
            ("mem:write", True),
            ("mem:shared", True),
            ("mem:add", True),
            ("read:notes.md", False),
            ("search:moon", False),
            ("exec:ls", False),
            ("help:write", True),
        ]
        results = server.requests[1].prompt
        assert results.startswith("[TOOL RESULTS]\n[/write notes.md]\nWrote notes.md (27 bytes).\n[END WRITE]\n\n")
        assert "[/mem write] OK: Noted.\n\n" in results
        assert "[/mem shared read]\n(empty)\n[END SHARED MEMORY]" in results
        assert "[/mem add entry project Apollo]\nAdded entry #1: Apollo\n[END MEMORY]" in results
        assert "[/read notes.md]\nERR: There is no conversation here" in results
        assert "[/search moon]\nERR: No search provider is configured" in results
        assert "[/exec ls]\nERR: /exec is not available on this host." in results
        assert results.endswith("[END TOOL RESULTS]")
        assert text_of(events) == "Saving.\n\nSaved."


async def test_capabilities_bound_what_an_agent_may_do() -> None:
    async with host_with_model() as (running, server):
        await add_agent(running.acme, "reader", capabilities=["/fetch"])
        server.script(Reply("/write a.txt\nx\n/endwrite\n/mem read\n"), Reply("I may not."))
        events = await orchestrate(running.acme, "write", agent="reader")
        assert "ERR: /write is not among the capabilities" in server.requests[1].prompt
        assert not named(events, "file")
        assert "/fetch" in server.requests[0].system
        assert "/write" not in server.requests[0].system


async def test_a_turn_has_six_model_calls_and_says_so_when_they_are_not_enough() -> None:
    async with host_with_model() as (running, server):
        server.answer_with(lambda request: Reply("/mem read\n"))
        events = await orchestrate(running.acme, "loop")
        assert len(server.requests) == 6
        assert len(named(events, "tool_call")) == 5
        assert "6th model call" in named(events, "escalation")[0]["reason"]
        assert named(events, "done")[0]["ok"] is True


async def test_a_conversation_remembers_what_was_said_and_keeps_files() -> None:
    async with host_with_model() as (running, server):
        client = running.acme.client
        conversation = (await client.post("/v1/conversations", json={"title": "Trip"})).json()["id"]
        path = f"/v1/conversations/{conversation}/messages"
        server.script(
            Reply("/write --persist plan.md\nRome\n/endwrite\n"),
            Reply("I made a plan."),
            Reply("/list\n/read plan.md\n"),
            Reply("Rome."),
        )
        await read_events(client, "POST", path, json={"message": "Plan a trip"})
        events = await read_events(client, "POST", path, json={"message": "Where to?"})
        assert named(events, "done")[0]["conversation_id"] == conversation
        told = server.requests[2].body["messages"]
        assert [(one["role"], one["content"]) for one in told[1:3]] == [
            ("user", "Plan a trip"),
            ("assistant", "I made a plan."),
        ]
        assert "[/list]\n#1 plan.md (4 bytes)\n[END LIST]" in server.requests[3].prompt
        assert "[/read plan.md]\nRome\n[END READ]" in server.requests[3].prompt
        messages = (await client.get(path)).json()["messages"]
        assert [(one["role"], one["content"]) for one in messages] == [
            ("user", "Plan a trip"),
            ("assistant", "I made a plan."),
            ("user", "Where to?"),
            ("assistant", "Rome."),
        ]


async def test_over_a2a_nothing_is_kept_and_a_context_has_no_memory() -> None:
    async with host_with_model() as (running, server):
        server.script(Reply("/write --persist plan.md\nRome\n/endwrite\n/list\n"), Reply("Done."), Reply("What plan?"))

        async def send(text: str) -> dict[str, Any]:
            message = {"role": "user", "messageId": text, "contextId": "c", "parts": [{"kind": "text", "text": text}]}
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
            return (await running.acme.client.post("/v1/a2a/agents/index", json=body)).json()["result"]

        task = await send("Plan")
        assert [artifact["name"] for artifact in task["artifacts"] if "-file-" in artifact["artifactId"]] == ["plan.md"]
        results = server.requests[1].prompt
        assert "It was not kept: this run has no conversation." in results
        assert "ERR: There is no conversation here" in results
        await send("And?")
        assert "Plan" not in str(server.requests[2].body["messages"][1:])
        assert (await running.acme.client.get("/v1/artifacts")).json()["artifacts"] == []


async def test_the_advisor_is_asked_and_its_gate_holds_an_answer_back() -> None:
    async with host_with_model() as (running, server):
        advisor = {"model": "test/advisor", "mode": "gate", "max_redirects": 1}
        await add_agent(running.acme, "careful", advisor=advisor)
        server.script(
            Reply("/advise Is this right?\n"),
            Reply("Say please."),
            Reply("Give me that."),
            Reply("REDIRECT: Be polite."),
            Reply("Please give me that."),
            Reply("CONTINUE"),
        )
        events = await orchestrate(running.acme, "ask", agent="careful")
        assert text_of(events) == "Please give me that."
        assert [one["kind"] for one in named(events, "advisor")] == ["consult", "gate_redirect", "gate_continue"]
        assert named(events, "done")[0]["gate_approved"] is True
        server.script(Reply("Boom."), Reply("HALT: Dangerous."))
        done = named(await orchestrate(running.acme, "ask", agent="careful"), "done")[0]
        assert (done["ok"], done["error_code"], done["content"]) == (False, "advisor_halt", "")


async def test_an_agent_can_be_defined_for_one_request() -> None:
    async with host_with_model() as (running, server):
        server.script(Reply("Arr."))
        definition = agent_definition("pirate", personality="Talk like a pirate.")
        events = await orchestrate(running.acme, "Hi", agent_def=definition)
        assert named(events, "request_received", "done")[0]["agent"] == "pirate"
        assert "Talk like a pirate." in server.requests[0].system
        assert (await running.acme.client.get("/v1/agents/pirate")).status_code == 404


async def test_a_cancel_reaches_every_child_and_their_models() -> None:
    async with host_with_model() as (running, server):
        for agent_id in ("north", "south"):
            await add_agent(running.acme, agent_id)
        server.answer_with(
            by_agent(
                index=Reply("/parallel\n/agent north go\n/agent south go\n/endparallel\n"),
                North=Reply("I ", Gate()),
                South=Reply("We ", Gate()),
            )
        )
        client = running.acme.client
        (received, *_) = await read_events(
            client, "POST", "/v1/orchestrate", json={"message": "go"}, until="agent_start"
        )
        request_id = received.payload["request_id"]
        children = [await server.received(number) for number in (2, 3)]
        reply = await client.post(f"/v1/requests/{request_id}/cancel")
        assert reply.json() == {"request_id": request_id, "cancelled": True}
        for child in children:
            await child.client_left()
        events = await read_events(client, "GET", f"/v1/requests/{request_id}/events")
        assert named(events, "done")[0]["error_code"] == "cancelled"
        tree = (await client.get(f"/v1/requests/{request_id}/tree")).json()
        tree = tree.get("request", tree)
        assert [tree["state"], *(child["state"] for child in tree["children"])] == ["canceled"] * 3


def greeter() -> Agent:
    agent = Agent("Greeter", description="Greets people by name.", id="greeter")

    @agent.skill(examples=["greet Ada"])
    async def greet(turn: Turn) -> AsyncGenerator[str]:
        """Greets."""
        name = turn.text.removeprefix("greet").strip() or (await turn.ask("Whom?")).text
        yield "Hello, "
        yield f"{name}!"

    return agent


async def test_an_agent_of_python_is_hosted_beside_constitutions() -> None:
    async with running_host(tenants=("acme",), given_agents=(GivenAgent(greeter()),)) as running:
        events = await orchestrate(running.acme, "greet Ada")  # the built-in router finds it by its example
        assert text_of(events) == "Hello, Ada!"
        assert named(events, "sub_agent_response")[0]["agent"] == "greeter"
        chat = await read_events(running.acme.client, "POST", "/v1/agents/greeter/chat", json={"message": "greet Bo"})
        assert [event.name for event in chat] == [
            "request_received",
            "stream_start",
            "text",
            "text",
            "stream_end",
            "done",
        ]
        assert named(chat, "done")[0]["content"] == "Hello, Bo!"


async def test_a_question_fails_the_task_unless_the_tenant_has_switched_questions_on() -> None:
    async with running_host(tenants=("acme",), given_agents=(GivenAgent(greeter()),)) as running:
        host, client = running.host, running.acme.client
        done = named(await read_events(client, "POST", "/v1/agents/greeter/chat", json={"message": "greet"}), "done")[0]
        assert (done["ok"], done["error"]) == (
            False,
            "The agent asks its caller for input, which is not allowed here.",
        )
        await host.tenants.update(running.acme.id, settings=TenantSettings(input_required=True))
        events = await read_events(client, "POST", "/v1/agents/greeter/chat", json={"message": "greet"})
        assert named(events, "input_required")[0]["question"] == "Whom?"
