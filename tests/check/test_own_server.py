"""Our own server breaks no rule: every dialect, every binding, and agents of every temper."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parley import Agent
from parley.check.findings import Report, Verdict
from parley.check.options import CheckOptions
from parley.check.run import check
from parley.client.credentials.credentials import Credentials
from parley.protocol.cards import AgentExtension, ApiKeyLocation, Binding
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.tls import ClientCertificates
from parley.server.security.authentication import Security
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.check.scripted import Scripted
from tests.client.test_certificates import ada
from tests.client.test_certificates import agent as tls_agent
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

TOKEN = "a-token-that-nobody-guesses"
REQUIRED = "https://extensions.example/required"


@asynccontextmanager
async def everywhere(app: App) -> AsyncGenerator[str]:
    """An app over HTTP and gRPC."""
    async with running(app, seconds=60) as client:
        url = str(client.base_url)
        grpc_server = GrpcServer(app, http_url=url)
        await grpc_server.start("127.0.0.1", 0)
        try:
            yield url
        finally:
            await grpc_server.stop()


def broken(report: Report) -> list[tuple[str, str, str]]:
    """What is not as it should be, warnings included."""
    bad = (Verdict.FAILED, Verdict.WARNED)
    return [(found.rule, found.endpoint, found.detail) for found in report.findings if found.verdict in bad]


def decided(report: Report) -> set[str]:
    return {found.rule for found in report.findings if found.verdict is Verdict.PASSED}


ALL_ENDPOINTS = [
    "1.0 JSONRPC",
    "1.0 HTTP+JSON",
    "1.0 GRPC",
    "0.3 JSONRPC",
    "0.3 HTTP+JSON",
    "0.3 GRPC",
    "0.2 JSONRPC",
    "0.1 JSONRPC",
]


@pytest.mark.parametrize("text", ["hello", "ask", "count 5"])
async def test_no_rule_is_broken_in_any_dialect_over_any_binding(text: str) -> None:
    async with everywhere(App(echo_agent())) as url:
        report = await check(url, CheckOptions(timeout=10, text=text), versions=list(Version))
    assert broken(report) == []
    assert [endpoint.rpartition(" ")[0] for endpoint in report.endpoints] == ALL_ENDPOINTS
    assert {"G1.2", "G1.16", "G1.19", "G1.22", "G1.29", "G1.36", "G1.44", "G1.59"} <= decided(report)
    assert {"G2.4", "G2.9", "G2.18", "G2.19", "G2.20"} <= decided(report)
    assert {"G3.1", "A1.1", "A1.2", "A1.7"} <= decided(report)
    assert ({"G1.4", "G1.14"} <= decided(report)) == (text == "ask")


@pytest.mark.parametrize(
    ("version", "sent", "received"),
    [
        (
            Version.V1_0,
            'gRPC /lf.a2a.v1.A2AService/SendMessage\n\n{\n  "message": {',
            '"state": "TASK_STATE_COMPLETED"',
        ),
        (Version.V0_3, 'gRPC /a2a.v1.A2AService/SendMessage\n\n{\n  "message": {', '"state": "TASK_STATE_COMPLETED"'),
    ],
)
async def test_what_went_over_grpc_is_shown_as_its_version_spells_it(
    version: Version, sent: str, received: str
) -> None:
    rule = {Version.V1_0: "G1.7", Version.V0_3: "G2.4"}[version]
    async with everywhere(App(echo_agent())) as url:
        report = await check(url, CheckOptions(timeout=10), bindings=[Binding.GRPC], versions=[version], only=[rule])
    (answer,) = [found for found in report.findings if found.case == "The answer to a message is a task or a message"]
    assert answer.exchanges[0][0].startswith(sent)
    assert received in answer.exchanges[-1][1]
    assert '"contextId": ' in answer.exchanges[-1][1]


async def test_an_error_over_grpc_is_shown_with_its_status() -> None:
    async with everywhere(App(echo_agent())) as url:
        report = await check(
            url, CheckOptions(timeout=10), bindings=[Binding.GRPC], versions=[Version.V1_0], only=["G1.16"]
        )
    (finding,) = report.findings
    assert finding.exchanges[-1][1].startswith("gRPC NOT_FOUND (TaskNotFoundError): ")


async def test_without_grpc_its_places_are_undecided_and_the_others_are_visited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("parley.client.transports.connections.find_spec", lambda name: None)
    async with everywhere(App(echo_agent())) as url:
        report = await check(url, CheckOptions(timeout=10), only=["G1.53"], versions=[Version.V1_0])
    found = {finding.endpoint.split()[1]: (finding.verdict, finding.detail) for finding in report.findings[2:]}
    assert found["GRPC"] == (Verdict.UNDECIDED, "gRPC is not installed: pip install 'parley-a2a[grpc]'")
    assert {found["JSONRPC"][0], found["HTTP+JSON"][0]} == {Verdict.PASSED}
    assert [endpoint.split()[1] for endpoint in report.blocked] == ["GRPC"]
    assert report.hints == {"gRPC is not installed: pip install 'parley-a2a[grpc]'": 1}


async def test_an_agent_that_answers_with_messages_breaks_no_rule() -> None:
    agent = Agent("Direct", description="Answers at once", replies_directly=True)

    @agent.on_message
    async def answer(turn: Any) -> str:
        return "Hello yourself"

    async with everywhere(App(agent)) as url:
        report = await check(url, CheckOptions(timeout=10))
    assert broken(report) == []
    undecided = {found.detail for found in report.findings if found.verdict is Verdict.UNDECIDED}
    assert "the agent answers with a message and creates no task" in undecided


async def test_an_agent_without_streams_and_webhooks_that_requires_an_extension_breaks_no_rule() -> None:
    agent = echo_agent(
        streaming=False, input_modes=["text/plain"], extensions=[AgentExtension(REQUIRED, required=True)]
    )
    async with everywhere(App(agent, webhooks=None)) as url:
        report = await check(url, CheckOptions(timeout=10))
    assert broken(report) == []
    assert {"G1.10", "G1.24", "G1.32", "G1.40", "G2.5", "G2.15"} <= decided(report)


def secured() -> App:
    agent = echo_agent()

    @agent.skill(id="vault", tags=["secret"], public=False)
    async def vault(turn: Any) -> str:
        """Opens the vault."""
        return "gold"

    tokens = BearerTokens([StoredSecret(name="alice", hash=hash_secret(TOKEN))])
    return App(agent, security=Security({"token": tokens}))


async def test_with_credentials_authentication_is_checked_and_the_credentials_are_not_reported() -> None:
    options = CheckOptions(timeout=10, credentials=Credentials({"bearer": TOKEN}, origins=["*"]))
    async with everywhere(secured()) as url:
        report = await check(url, options)
    assert broken(report) == []
    assert {"G1.1", "G1.48", "G1.49", "G1.54", "G2.13"} <= decided(report)
    assert TOKEN not in repr(report)
    assert "authorization: (not shown)" in repr(report)


async def test_without_credentials_what_needs_them_is_undecided() -> None:
    async with everywhere(secured()) as url:
        report = await check(url, CheckOptions(timeout=10))
    assert broken(report) == []
    assert {"G1.48", "G1.54", "G2.13"} <= decided(report)
    assert not {"G1.1", "G1.2", "G1.8", "G1.16", "G1.25", "G1.49"} & decided(report)


async def test_without_credentials_the_report_says_what_to_give_and_which_places_were_hardly_seen() -> None:
    async with everywhere(secured()) as url:
        report = await check(url, CheckOptions(timeout=10), versions=[Version.V1_0])
    (grpc,) = [endpoint.split()[2] for endpoint in report.endpoints if " GRPC " in endpoint]
    assert report.blocked == report.endpoints
    assert set(report.hints) == {
        "credentials are missing; give --token or --header, or get them with parley login",
        f"the origin {grpc} is not trusted with credentials; give --trust {grpc}",
    }


async def test_an_origin_that_may_not_see_the_credentials_is_named_and_helped_by_trusting_it() -> None:
    def options(*trusted: str) -> CheckOptions:
        return CheckOptions(timeout=10, credentials=Credentials({"bearer": TOKEN}, origins=trusted))

    async with everywhere(secured()) as url:
        careful = await check(url, options(), versions=[Version.V1_0])
        (grpc,) = [endpoint for endpoint in careful.endpoints if " GRPC " in endpoint]
        origin = grpc.split()[2]
        trusting = await check(url, options(origin), versions=[Version.V1_0])
    assert careful.blocked == (grpc,)
    assert list(careful.hints) == [f"the origin {origin} is not trusted with credentials; give --trust {origin}"]
    assert (trusting.blocked, trusting.hints) == ((), {})


async def test_credentials_that_are_not_taken_are_told() -> None:
    options = CheckOptions(timeout=10, credentials=Credentials({"bearer": "another"}, origins=["*"]))
    async with everywhere(secured()) as url:
        report = await check(url, options, bindings=[Binding.JSONRPC], versions=[Version.V1_0])
    assert list(report.hints) == ["the server does not accept these credentials; give others"]
    assert report.blocked == report.endpoints


async def test_an_agent_that_wants_a_skill_is_checked_for_each_skill_that_is_named() -> None:
    agent = Agent("Calculator", description="Has no answer for what is for no skill")

    @agent.skill(id="add", tags=["sum"])
    async def add(turn: Any) -> str:
        """Adds."""
        return "3"

    @agent.skill(id="multiply", tags=["product"])
    async def multiply(turn: Any) -> str:
        """Multiplies."""
        return "2"

    async with everywhere(App(agent)) as url:
        plain = await check(url, CheckOptions(timeout=10), versions=list(Version))
        wrong = await check(url, CheckOptions(timeout=10, skills=("divide",)), versions=list(Version))
        by_skill = await check(url, CheckOptions(timeout=10, skills=("add", "multiply")), versions=list(Version))
    assert (broken(plain), plain.blocked, plain.hints) == ([], (), {})  # it asks which skill is meant
    assert list(wrong.hints) == ["the agent needs a skill; give --skill ID (add, multiply)"]
    assert wrong.blocked == wrong.endpoints
    assert (broken(by_skill), by_skill.blocked, by_skill.hints) == ([], (), {})
    assert len(by_skill.endpoints) == 2 * len(plain.endpoints)
    assert {endpoint.partition(" (")[2] for endpoint in by_skill.endpoints} == {"skill add)", "skill multiply)"}


async def test_an_agent_that_takes_no_plain_text_is_to_be_told_something_else() -> None:
    async with everywhere(App(echo_agent(input_modes=["image/png"]))) as url:
        report = await check(url, CheckOptions(timeout=10), bindings=[Binding.JSONRPC], versions=[Version.V1_0])
    assert list(report.hints) == ["the agent refuses the message; give another with --message"]
    assert report.blocked == report.endpoints


async def test_a_slow_agent_leaves_rules_undecided_and_nothing_behind() -> None:
    async with everywhere(App(echo_agent())) as url:
        options = CheckOptions(timeout=2, text="wait")
        report = await check(url, options, bindings=[Binding.JSONRPC], versions=list(Version))
        assert broken(report) == []
        assert {"G1.1", "G1.23", "G1.29"} <= decided(report)
        assert not {"G1.28", "G1.31"} & decided(report)  # a task that is at work for ever does not show that it goes on
        assert "no answer within 2 seconds" in {found.detail for found in report.findings}
        async with running_client(url) as client:
            assert await states_at(client) == {"TASK_STATE_CANCELED"}


@asynccontextmanager
async def running_client(url: str) -> AsyncGenerator[Any]:
    import httpx2

    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        yield client


async def test_the_number_of_requests_is_bounded() -> None:
    async with everywhere(App(echo_agent())) as url:
        options = CheckOptions(timeout=10, max_requests=12)
        report = await check(url, options, bindings=[Binding.JSONRPC], versions=[Version.V1_0])
    assert broken(report) == []
    assert report.requests < 30
    assert "the check has reached its limit of requests" in {found.detail for found in report.findings}


async def test_an_agent_that_always_fails_breaks_no_rule() -> None:
    agent = Agent("Failing", description="Never succeeds")

    @agent.on_message
    async def fail(turn: Any) -> str:
        raise RuntimeError("the oven is broken")

    async with everywhere(App(agent)) as url:
        report = await check(url, CheckOptions(timeout=10), versions=list(Version))
    assert broken(report) == []
    assert {"G1.1", "G1.23", "G1.26", "G2.6"} <= decided(report)
    assert "the task is failed" in {found.detail for found in report.findings}


async def test_an_agent_among_several_is_checked_alone_and_under_its_tenant() -> None:
    async with everywhere(App(echo_agent("First"), echo_agent("Second"))) as url:
        report = await check(f"{url}/agents/second", CheckOptions(timeout=10))
    assert broken(report) == []
    assert report.agent == "Second"
    assert all(f"{url}/agents/second" in endpoint or "(tenant second)" in endpoint for endpoint in report.endpoints)
    assert any(endpoint.startswith("1.0 GRPC") for endpoint in report.endpoints)
    assert "G1.44" in decided(report)


@pytest.mark.parametrize("location", list(ApiKeyLocation))
async def test_an_api_key_is_sent_where_the_card_says_and_is_not_reported(location: ApiKeyLocation) -> None:
    keys = ApiKeys([StoredSecret(name="alice", hash=hash_secret(TOKEN))], location=location, parameter="secret-key")
    app = App(echo_agent(), security=Security({"key": keys}))
    options = CheckOptions(timeout=10, credentials=Credentials({"api-key": TOKEN}))
    async with everywhere(app) as url:
        report = await check(url, options, bindings=[Binding.JSONRPC, Binding.HTTP_JSON])
    assert broken(report) == []
    assert {"G1.1", "G1.48", "G1.49", "G2.13"} <= decided(report)
    assert TOKEN not in repr(report)


async def test_credentials_stay_at_their_origin_and_the_report_says_where_they_were_missing() -> None:
    """gRPC listens at another port, which is another origin."""
    options = CheckOptions(timeout=10, credentials=Credentials({"bearer": TOKEN}))
    async with everywhere(secured()) as url:
        report = await check(url, options, versions=[Version.V1_0])
    assert broken(report) == []
    (taken,) = [
        found for found in report.findings if found.case == "Credentials are accepted" and " GRPC " in found.endpoint
    ]
    assert taken.verdict is Verdict.UNDECIDED
    assert f"The credentials are for {url}" in taken.detail


@pytest.mark.parametrize("clients", list(ClientCertificates))
async def test_a_server_with_tls_breaks_no_rule(clients: ClientCertificates, tmp_path: Path) -> None:
    async with tls_agent(tmp_path, clients) as bound:
        tls = ada(tmp_path)
        origin = f"grpcs://{bound.grpc_target}"
        options = CheckOptions(timeout=10, tls=tls, credentials=Credentials({"mutual-tls": tls}, origins=[origin]))
        report = await check(bound.url, options)
    assert broken(report) == []
    assert [endpoint.rpartition(" ")[0] for endpoint in report.endpoints] == ALL_ENDPOINTS[:7]
    assert {"G1.1", "G1.16", "G1.25", "G2.4"} <= decided(report)
    assert "every connection of this check shows your certificate" in {found.detail for found in report.findings}


async def test_a_version_that_is_not_declared_is_tried_and_left_if_it_is_not_spoken() -> None:
    async with serving(Scripted({})) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), versions=[Version.V0_3])
    at_endpoint = [found for found in report.findings if found.endpoint in report.endpoints]
    assert [(found.verdict, found.detail) for found in at_endpoint] == [
        (Verdict.UNDECIDED, "no card declares 0.3 here, and it is not spoken")
    ]
    assert report.incomplete == ()


async def test_nothing_is_left_behind_but_tasks_that_have_ended() -> None:
    app = App(echo_agent())
    async with everywhere(app) as url:
        await check(url, CheckOptions(timeout=10, text="ask"), versions=list(Version))
        async with running_client(url) as client:
            body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
            page = (await client.post("/", json=body)).json()["result"]
            states = {task["status"]["state"] for task in page["tasks"]}
            hooks: list[Any] = []
            for task in page["tasks"]:
                params = {"taskId": task["id"]}
                body = {"jsonrpc": "2.0", "id": 1, "method": "ListTaskPushNotificationConfigs", "params": params}
                hooks += (await client.post("/", json=body)).json()["result"].get("configs", [])
    assert states <= {"TASK_STATE_CANCELED", "TASK_STATE_COMPLETED"}
    assert hooks == []


async def test_ctrl_c_ends_a_check_with_130_and_leaves_no_task_at_work() -> None:
    with fail_after(60):
        async with everywhere(App(echo_agent())) as url, running_client(url) as client:
            words = ["check", url, "--message", "wait", "--dialect", "1.0", "--binding", "jsonrpc"]
            checking = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "parley.cli.main", *words), stdout=asyncio.subprocess.DEVNULL
            )
            while not await states_at(client):
                await asyncio.sleep(0.05)  # until the agent has heard something
            checking.send_signal(signal.SIGINT)
            assert await checking.wait() == 130
            assert await states_at(client) == {"TASK_STATE_CANCELED"}


async def states_at(client: Any) -> set[str]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
    page = (await client.post("/", json=body)).json()["result"]
    return {task["status"]["state"] for task in page["tasks"]}
