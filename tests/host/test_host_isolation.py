"""What one tenant has does not exist for another: over every binding of A2A, in commands of agents, and with forged
messages. A token that was replaced, and a tenant that was disabled, are refused at once, and their work stops.

`test_api_isolation` goes through the routes of the native API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from parley import Agent, Turn
from parley.client import Client, Credentials
from parley.client.credentials.credentials import ANY_ORIGIN
from parley.client.options import Retries
from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import TenantSettings
from parley.host.data.tenants import Tenants
from parley.host.models.model import ModelRequest
from parley.host.origin import ORIGIN
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    ParleyError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from parley.protocol.extensions import DELEGATION
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.run import Serving
from tests.crashes.processes import free_port
from tests.host.a2a_calls import call, documented_message, message, path_of, result, streamed
from tests.host.api_calls import NEVER_USED, constitution, echo_models, event_named
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, RunningHost, read_events, running_host

pytestmark = pytest.mark.anyio

SECRET = "of-acme-only"
INTERFACES = [
    (Version.V1_0, Binding.JSONRPC),
    (Version.V1_0, Binding.HTTP_JSON),
    (Version.V1_0, Binding.GRPC),
    (Version.V0_3, Binding.JSONRPC),
    (Version.V0_3, Binding.HTTP_JSON),
]


@asynccontextmanager
async def host_with_grpc(**options: Any) -> AsyncGenerator[RunningHost]:
    """A host whose two tenants take webhooks, with a gRPC port."""
    async with running_host(serving=Serving(port=0, grpc_port=free_port()), **options) as running:
        for tenant in running.tenants.values():
            await running.host.tenants.update(tenant.id, settings=TenantSettings(push_notifications=True))
        yield running


def client_of(running: RunningHost, token: str, version: Version, binding: Binding, agent: str = "index") -> Client:
    return Client(
        running.url + path_of(agent),
        credentials=Credentials({"bearer": token}, origins=[ANY_ORIGIN]),  # gRPC has a port of its own
        versions=[version],
        bindings=[binding],
        retries=Retries(attempts=1, outage=0),
    )


# --- operations of A2A ------------------------------------------------------------------------------------------------

Operation: TypeAlias = Callable[[Client, str], Awaitable[object]]
HOOK = PushConfig("https://hooks.example/", id="hook")


async def first_event(events: AsyncGenerator[Any]) -> object:
    async with aclosing(events):
        return await anext(events, None)


OPERATIONS: dict[str, Operation] = {
    "get": lambda client, task: client.get(task),
    "cancel": lambda client, task: client.cancel(task),
    "subscribe": lambda client, task: first_event(client.subscribe(task)),
    "subscribe from a cursor": lambda client, task: first_event(client.subscribe(task, after="1")),
    "send": lambda client, task: client.send("hi", task=task),
    "stream": lambda client, task: first_event(client.stream("hi", task=task)),
    "create webhook": lambda client, task: client.create_push_config(r.CreatePushConfigRequest(task, HOOK)),
    "get webhook": lambda client, task: client.get_push_config(r.GetPushConfigRequest(task, "hook")),
    "list webhooks": lambda client, task: client.list_push_configs(r.ListPushConfigsRequest(task)),
    "delete webhook": lambda client, task: client.delete_push_config(r.DeletePushConfigRequest(task, "hook")),
}


async def refusal(operation: Operation, client: Client, task_id: str) -> str:
    """The error of an operation, without the id."""
    try:
        answer = await operation(client, task_id)
    except ParleyError as error:
        details = error.details if isinstance(error, A2AError) else {}
        return f"{type(error).__name__} {error.message} {details}".replace(task_id, "<id>")
    raise AssertionError(f"It was answered: {answer}")


@pytest.mark.parametrize(("version", "binding"), INTERFACES)
async def test_a_task_of_another_tenant_is_as_unknown_as_one_that_never_was(version: Version, binding: Binding) -> None:
    async with host_with_grpc(models=echo_models()) as running, AsyncExitStack() as stack:
        acme, globex = [
            await stack.enter_async_context(client_of(running, tenant.token, version, binding))
            for tenant in (running.acme, running.globex)
        ]
        done = await acme.send(SECRET, context="the-same-context")
        at_work = await acme.send(f"wait {SECRET}", context="the-same-context", wait=False)
        own = await globex.send("mine", context="the-same-context")
        assert done.task is not None
        assert at_work.task is not None
        assert own.task is not None
        await acme.create_push_config(r.CreatePushConfigRequest(at_work.task.id, HOOK))
        for task in (done.task, at_work.task):
            for name, operation in OPERATIONS.items():
                refused = await refusal(operation, globex, task.id)
                assert refused == await refusal(operation, globex, NEVER_USED), name
                assert SECRET not in refused
        if version is Version.V1_0:
            assert await listed(globex) == await listed(globex, context="the-same-context") == [own.task.id]
            page = await acme.list_tasks(r.ListTasksRequest(page_size=1))
            assert page.next_page_token
            stolen = r.ListTasksRequest(page_token=page.next_page_token)
            assert {task.id for task in (await globex.list_tasks(stolen)).tasks} <= {own.task.id}
        assert (await acme.get(at_work.task)).state == "working"
        assert len((await acme.list_push_configs(r.ListPushConfigsRequest(at_work.task.id))).configs) == 1
        await acme.cancel(at_work.task)


async def listed(client: Client, **options: Any) -> list[str]:
    return [task.id async for task in client.list(**options)]


async def test_a_message_with_the_id_of_another_tenants_message_is_a_message_of_its_own() -> None:
    async with running_host(models=echo_models()) as running:
        same = message(SECRET, messageId="the-same-id")
        first = (await result(running.acme.client, "SendMessage", same))["task"]
        second = (await result(running.globex.client, "SendMessage", same))["task"]
        repeated = (await result(running.acme.client, "SendMessage", same))["task"]
        assert first["id"] == repeated["id"] != second["id"]
        assert first["contextId"] != second["contextId"]


async def test_an_agent_of_another_tenant_is_unknown_over_every_binding() -> None:
    async with host_with_grpc(models=echo_models()) as running:
        assert (await running.acme.client.post("/v1/agents", json=constitution(SECRET))).status_code == 201
        client = running.globex.client
        for path in ("/agent-card.json", "/.well-known/agent-card.json", "/rest/v1/tasks", "/rest/v1/card"):
            foreign = await client.get(path_of(SECRET) + path)
            absent = await client.get(path_of("never-was") + path)
            assert foreign.status_code == absent.status_code == 404, path
            assert foreign.text.replace(SECRET, "never-was") == absent.text
        for method, params in (("message/send", documented_message("hi")), ("SendMessage", message("hi"))):
            foreign, absent = [await call(client, method, params, agent=name) for name in (SECRET, "never-was")]
            assert foreign == absent
            assert foreign["error"]["code"] == -32001
        errors: list[str] = []
        async with client_of(running, running.globex.token, Version.V1_0, Binding.GRPC) as own:
            for name in (SECRET, "never-was"):
                with pytest.raises(ParleyError) as refused:
                    await own.get_task(r.GetTaskRequest(NEVER_USED, tenant=name))
                errors.append(f"{type(refused.value)} {refused.value}")
        assert errors[0].replace(SECRET, "never-was") == errors[1]


async def test_tasks_of_an_agent_that_all_tenants_share_belong_to_their_tenants() -> None:
    shared = Agent("Shared", id="shared")

    @shared.on_message
    async def repeat(turn: Turn) -> str:
        return turn.text

    async with running_host(given_agents=(GivenAgent(shared),)) as running:
        tasks = [
            (await result(tenant.client, "SendMessage", message(tenant.token), agent="shared"))["task"]
            for tenant in (running.acme, running.globex)
        ]
        for tenant, own, other in ((running.acme, *tasks), (running.globex, *reversed(tasks))):
            page = await result(tenant.client, "ListTasks", {}, agent="shared")
            assert [task["id"] for task in page["tasks"]] == [own["id"]]
            unknown = await call(tenant.client, "GetTask", {"id": other["id"]}, agent="shared")
            assert unknown["error"]["code"] == -32001


async def test_a_request_that_names_another_tenant_is_refused_whether_there_is_one_or_not() -> None:
    async with host_with_grpc(models=echo_models()) as running:
        task = (await result(running.acme.client, "SendMessage", message(SECRET)))["task"]
        for binding in (Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC):
            errors: list[str] = []
            async with client_of(running, running.globex.token, Version.V1_0, binding) as client:
                for tenant in (running.acme.id, "99"):
                    named = f"index/{tenant}" if binding is Binding.GRPC else tenant
                    with pytest.raises(PermissionDeniedError) as refused:
                        await client.get_task(r.GetTaskRequest(task["id"], tenant=named))
                    errors.append(str(refused.value))
            assert errors[0] == errors[1], binding


# --- commands of agents -----------------------------------------------------------------------------------------------

FOREIGN = {"agent": SECRET, "number": "41"}
ABSENT = {"agent": "never-was", "number": "77"}
COMMANDS = (
    "/agent {agent} Tell me everything.",
    "/parallel\n/agent {agent} Tell me everything.\n/endparallel",
    "/read #{number}",
    "/read #{number} via=mem:{number}",
    "/mem entry {number}",
    "/mem expand {number}",
    "/mem density {number}",
    "/mem invalidate {number}",
    "/mem add link {number} supports 1",
    "/mem add link 1 supports {number}",
    "/mem add entry user Stolen --supersedes #{number}\nIt is mine.\n/endmem",
)
"""What an agent may try with an id of another tenant."""

READING = "/list\n/read secret.md\n/mem entries\n/mem search secret\n/mem read\n/mem shared read\n/help\n"


async def fill(running: RunningHost, tenant: HostTenant, number: int, text: str) -> None:
    """Give a tenant a conversation, and so many files and memory entries with this text."""
    host = running.host
    await host.conversations.create(tenant.id)
    for one in range(number):
        await host.artifacts.write(tenant.id, 1, f"{text}-{one}.md", text)
        await host.memory.add(tenant.id, type="project", title=text, content=text)
    await host.scratchpads.append(tenant.id, None, text)
    await host.scratchpads.append(tenant.id, "index", text)


async def everything_of(tenant: HostTenant) -> list[str]:
    paths = ("/v1/artifacts", "/v1/memory/entries", "/v1/requests", "/v1/agents", "/v1/conversations")
    return [(await tenant.client.get(path)).text for path in paths]


async def test_commands_find_nothing_of_another_tenant() -> None:
    heard: list[str] = []

    async def obey(request: ModelRequest) -> AsyncIterator[str]:
        if request.results:
            heard.append(request.messages[-1].text)
            yield "Done."
        else:
            yield f"{request.query}\n"

    async with running_host(models={"parley/router": FunctionModel(obey)}) as running:
        await fill(running, running.acme, 41, f"the secret {SECRET}")
        await fill(running, running.globex, 1, "my own secret")
        assert (await running.acme.client.post("/v1/agents", json=constitution(SECRET))).status_code == 201
        before = await everything_of(running.acme)

        async def results_of(commands: str) -> str:
            path = "/v1/conversations/1/messages"
            await read_events(running.globex.client, "POST", path, json={"message": commands})
            return heard[-1]

        granted = await results_of(
            "/mem add entry user Grant --artifact #41\nIt is mine.\n/endmem\n/read #41 via=mem:2\n"
        )
        assert "Added entry #2" in granted
        assert "ERR: artifact not found" in granted
        for command in COMMANDS:
            foreign, absent = [await results_of(command.format_map(ids)) for ids in (FOREIGN, ABSENT)]
            assert "ERR: " in foreign, command
            assert foreign.replace(SECRET, "never-was").replace("41", "77") == absent, command
        found = await results_of(READING)
        assert SECRET not in found
        assert found.count("my own secret") == 5
        assert await everything_of(running.acme) == before


# --- forged messages --------------------------------------------------------------------------------------------------

FORGED: dict[str, dict[str, Any]] = {
    "an origin": {"metadata": {ORIGIN: {"surface": "messages", "conversation": 1}}},
    "an origin without anything": {"metadata": {ORIGIN: {}}},
    "the context of a conversation": {"context": "urn:parley:conversation:1"},
}


@pytest.mark.parametrize(("version", "binding"), INTERFACES)
async def test_what_only_the_host_may_say_is_refused(version: Version, binding: Binding) -> None:
    async with host_with_grpc(models=echo_models()) as running:
        await fill(running, running.acme, 1, SECRET)
        async with client_of(running, running.acme.token, version, binding) as client:
            for name, members in FORGED.items():
                with pytest.raises(InvalidParamsError):
                    await client.send("hi", **members)
                with pytest.raises(InvalidParamsError):
                    await first_event(client.stream("hi", **members))
                assert (await running.acme.client.get("/v1/requests")).json() == {"requests": []}, name


async def test_a_task_that_pretends_to_be_delegated_is_a_request_of_its_own_tenant() -> None:
    async with running_host(models=echo_models()) as running:
        acme, globex = running.acme.client, running.globex.client
        events = await read_events(acme, "POST", "/v1/orchestrate", json={"message": "wait"}, until="text")
        parent = event_named(events, "request_received")["request_id"]
        forged = {DELEGATION: {"taskId": parent, "depth": 1}}
        sent = (await result(globex, "SendMessage", message("hi", metadata=forged)))["task"]
        assert [one["request_id"] for one in (await globex.get("/v1/requests")).json()["requests"]] == [sent["id"]]
        assert [one["request_id"] for one in (await acme.get("/v1/requests")).json()["requests"]] == [parent]
        assert (await acme.get(f"/v1/requests/{parent}/tree")).json()["children"] == []
        assert (await acme.post(f"/v1/requests/{parent}/cancel")).json()["cancelled"] is True
        assert (await result(globex, "GetTask", {"id": sent["id"]}))["status"]["state"] == "TASK_STATE_COMPLETED"


# --- tokens -----------------------------------------------------------------------------------------------------------


async def statuses(running: RunningHost, token: str) -> list[int]:
    """How a token is received by the native API, with a card, over JSON-RPC and over REST."""
    client, agent = await running.client(token), path_of("index")
    replies = [
        await client.get("/v1/agents"),
        await client.get(f"{agent}/agent-card.json"),
        await client.post(agent, json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}),
        await client.get(f"{agent}/rest/tasks", headers={"A2A-Version": "1.0"}),
    ]
    return [reply.status_code for reply in replies]


GOOD, REFUSED = [200] * 4, [401] * 4


async def test_a_token_is_refused_as_soon_as_it_is_replaced_and_two_are_good_during_an_overlap() -> None:
    async with host_with_grpc(models=echo_models()) as running:
        path, first = f"/v1/admin/tenants/{running.acme.id}/rotate-token", running.acme.token
        async with client_of(running, first, Version.V1_0, Binding.GRPC) as grpc:
            second = (await running.admin.post(path, json={"overlap_seconds": 3600})).json()["token"]
            assert [await statuses(running, token) for token in (first, second)] == [GOOD, GOOD]
            assert await listed(grpc) == []
            third = (await running.admin.post(path, json={})).json()["token"]
            assert [await statuses(running, token) for token in (first, second, third)] == [REFUSED, REFUSED, GOOD]
            with pytest.raises(UnauthenticatedError):
                await listed(grpc)
        assert await statuses(running, running.globex.token) == GOOD


STOPPING: dict[str, tuple[str, str, dict[str, Any]]] = {
    "The tenant was disabled.": ("PATCH", "", {"disabled": True}),
    "The token of the tenant was replaced.": ("POST", "/rotate-token", {}),
}


@pytest.mark.parametrize("reason", STOPPING)
async def test_the_work_of_a_tenant_stops_and_all_that_wait_for_it_hear_why(reason: str) -> None:
    at_work, stopped = list[str](), list[str]()
    are_all_at_work = asyncio.Event()

    async def wait(request: ModelRequest) -> AsyncIterator[str]:
        yield "I begin. "
        at_work.append(request.query)
        if len(at_work) == 6:
            are_all_at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(request.query)

    async with running_host(models={"parley/router": FunctionModel(wait)}) as running:
        client, path = running.acme.client, f"/v1/admin/tenants/{running.acme.id}"
        native = asyncio.create_task(read_events(client, "POST", "/v1/orchestrate", json={"message": "native"}))
        others: list[asyncio.Task[Any]] = [
            asyncio.create_task(streamed(client, "message/stream", documented_message("documented stream"))),
            asyncio.create_task(streamed(client, "SendStreamingMessage", message("stream"))),
            asyncio.create_task(result(client, "message/send", documented_message("documented send"))),
            asyncio.create_task(result(client, "SendMessage", message("send"))),
        ]
        await read_events(running.globex.client, "POST", "/v1/orchestrate", json={"message": "other"}, until="text")
        await are_all_at_work.wait()
        method, rest, body = STOPPING[reason]
        assert (await running.admin.request(method, path + rest, json=body)).status_code == 200
        assert await statuses(running, running.acme.token) == REFUSED
        *_, error, done = await native
        assert (error.name, error.payload) == ("error", {"message": reason, "error_code": "unauthorized"})
        assert (done.payload["ok"], done.payload["error"], done.payload["error_code"]) == (
            False,
            reason,
            "unauthorized",
        )
        documented, real, sent, real_sent = [await other for other in others]
        assert documented[-1]["status"]["state"] == sent["status"]["state"] == "canceled"
        assert real[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        ends = (documented[-1], real[-1]["statusUpdate"], sent, real_sent["task"])
        assert [end["metadata"]["x-arbiter.error"] for end in ends] == [reason] * 4
        assert sorted(stopped) == ["documented send", "documented stream", "native", "send", "stream"]
        assert await statuses(running, running.globex.token) == GOOD


async def test_work_of_a_disabled_tenant_does_not_begin_again_with_the_host(tmp_path: Path) -> None:
    begun: list[str] = []
    agent = Agent("Python", id="python")

    @agent.on_message
    async def work(turn: Turn) -> None:
        begun.append(turn.text)
        await asyncio.Event().wait()

    async def wait(request: ModelRequest) -> AsyncIterator[str]:
        begun.append(request.query)
        await asyncio.Event().wait()
        yield ""

    options: dict[str, Any] = {
        "store": f"sqlite:///{tmp_path}/host.db",
        "models": {"parley/router": FunctionModel(wait)},
        "given_agents": (GivenAgent(agent),),
        "options": {"drain_seconds": 0},
    }
    async with running_host(**options, tenants=("acme",)) as running:
        token = running.acme.token
        for name in ("python", "index"):
            body = {**message(name), "configuration": {"returnImmediately": True}}
            await result(running.acme.client, "SendMessage", body, agent=name)
        # Disabled by another process, which this one has not heard of.
        others = Tenants(running.host.store.records, running.host.clock)
        await others.load()
        await others.update(running.acme.id, disabled=True)
    before = len(begun)
    async with running_host(**options, tenants=()) as running:
        for run in running.host.engine.runs.all:
            await run.wait_for_end()
        await running.admin.patch("/v1/admin/tenants/1", json={"disabled": False})
        requests = (await (await running.client(token)).get("/v1/requests")).json()["requests"]
        assert {(one["state"], one["error_message"]) for one in requests} == {("failed", "The tenant is disabled.")}
        assert len(begun) == before
