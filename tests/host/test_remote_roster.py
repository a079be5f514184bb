"""Remote agents on real servers: their cards for models, and calls that tell them nothing but the message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import baggage, context

from parley import Agent, DelegateFailedError, Turn
from parley.engine.caller import Caller
from parley.host.models.model import RosterEntry
from parley.host.remote.config import RemoteAgentConfig, RemoteAgents
from parley.host.remote.known_card import CARD_SECONDS, FAILURE_SECONDS, CardUnavailableError
from parley.host.remote.roster import RemoteRoster, UnknownRemoteAgentError
from parley.protocol.extensions import DELEGATION
from parley.protocol.messages import DataPart, TextPart
from parley.server.app import App
from parley.testing.client import running as running_agent
from tests.client.test_discovery import Site, document
from tests.deadlines import fail_after
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"
CLOSED = "http://127.0.0.1:1"


@dataclass(frozen=True)
class Tenant:
    id: int = 7
    name: str = "acme"


ACME = Tenant()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def roster_of(
    agents: dict[str, str], *, hosts: tuple[str, ...] = ("127.0.0.1",), token: str | None = None, **options: Any
) -> AsyncGenerator[RemoteRoster]:
    listed = {name: RemoteAgentConfig(name, url, token) for name, url in agents.items()}
    roster = RemoteRoster(RemoteAgents(listed, allow_private_hosts=hosts), **{"wait_seconds": 10, **options})
    try:
        with fail_after(10):
            yield roster
    finally:
        await roster.close()


def unavailable(name: str) -> RosterEntry:
    return RosterEntry(name, name, "(card unavailable)", is_remote=True)


# --- cards ------------------------------------------------------------------------------------------------------------


async def test_models_are_told_of_agents_with_five_skills_each_and_of_those_without_a_card() -> None:
    agent = echo_agent("Words")
    for number in range(6):

        @agent.skill(id=f"s{number}", name=f"Skill {number}", description="Does\nit", tags=["t", "u"], examples=["Do"])
        async def skill(turn: Turn) -> str:
            return turn.text

    async with running(App(agent)) as http, roster_of({"gone": CLOSED, "words": str(http.base_url)}) as roster:
        entries = await roster.entries(ACME)
        skills = tuple(f"Skill {number}: Does it (t, u)" for number in range(5))
        words = RosterEntry("words", "Words", "Says what it hears", skills, ("Do",) * 5, is_remote=True)
        assert entries == (unavailable("gone"), words)
        assert [skill.id for skill in (await roster.card(ACME, "words")).skills] == [
            f"s{number}" for number in range(6)
        ]


async def test_a_private_address_is_called_only_if_the_operator_lists_its_host() -> None:
    site = Site({CARD: document()})
    async with serving(site) as http, roster_of({"one": str(http.base_url)}, hosts=(".corp.example",)) as roster:
        assert await roster.entries(ACME) == (unavailable("one"),)
        with pytest.raises(CardUnavailableError, match=r"not encrypted; `allow_private_hosts` in a2a_agents.json"):
            await roster.card(ACME, "one")
    assert site.asked == []


async def test_an_agent_of_another_host_is_found_at_its_own_card_with_its_token() -> None:
    async with running(App(echo_agent())) as http:
        url = f"{http.base_url}/v1/a2a/agents/echo"
        card = document(url=url)

        async def host(scope: Any, receive: Any, send: Any) -> None:
            site = Site({CARD: document(name="Host")})
            if scope["path"] == "/v1/a2a/agents/echo/agent-card.json":
                known = (b"authorization", b"Bearer secret") in scope["headers"]
                site.pages[scope["path"]] = card if known else (401, {}, b"no")
            await site(scope, receive, send)

        async with serving(host) as other:
            agents = {"echo": f"{other.base_url}/v1/a2a/agents/echo"}
            async with roster_of(agents, token="secret") as roster:
                assert (await roster.card(ACME, "echo")).name == "Found"


async def test_a_failure_is_remembered_for_some_seconds() -> None:
    site, clock = Site({}), Clock()
    async with serving(site) as http, roster_of({"one": str(http.base_url)}, clock=clock) as roster:
        assert await roster.entries(ACME) == (unavailable("one"),)
        asked = len(site.asked)
        site.pages[CARD] = document()
        assert await roster.entries(ACME) == (unavailable("one"),)
        assert len(site.asked) == asked
        clock.now += FAILURE_SECONDS
        assert [entry.name for entry in await roster.entries(ACME)] == ["Found"]


async def test_a_card_is_used_for_a_minute_and_then_fetched_only_if_it_has_changed() -> None:
    site, clock = Site({CARD: (200, {"etag": '"1"'}, document())}), Clock()
    async with serving(site) as http, roster_of({"one": str(http.base_url)}, clock=clock) as roster:
        first = await roster.client(ACME, "one")
        for seconds in (0.0, CARD_SECONDS / 2, CARD_SECONDS):
            clock.now += seconds
            assert [entry.name for entry in await roster.entries(ACME)] == ["Found"]
        assert [headers.get("if-none-match") for headers in site.headers] == [None, '"1"']
        assert await roster.client(ACME, "one") is first
        site.pages[CARD] = (200, {"etag": '"2"'}, document(name="Moved"))
        clock.now += CARD_SECONDS
        assert [entry.name for entry in await roster.entries(ACME)] == ["Moved"]
        assert await roster.client(ACME, "one") is not first


async def test_a_slow_agent_delays_no_turn_and_is_known_in_a_later_one() -> None:
    gate, site = asyncio.Event(), Site({CARD: document(name="Slow")})

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        await site(scope, receive, send)

    async with serving(slow) as late, serving(Site({CARD: document()})) as soon:
        agents = {"slow": str(late.base_url), "fast": str(soon.base_url)}
        async with roster_of(agents, wait_seconds=0.05) as roster:
            await roster.card(ACME, "fast")
            assert [entry.description for entry in await roster.entries(ACME)] == ["(card unavailable)", "Is found"]
            gate.set()
            assert (await roster.card(ACME, "slow")).name == "Slow"
            assert [entry.name for entry in await roster.entries(ACME)] == ["Slow", "Found"]
    assert site.asked == [CARD]


async def test_a_tenant_does_not_see_the_agents_of_another() -> None:
    mine = {"mine": RemoteAgentConfig("mine", CLOSED)}
    roster = RemoteRoster(RemoteAgents({"all": RemoteAgentConfig("all", CLOSED)}, {"acme": mine}))
    assert (await roster.client(ACME, "mine")).target == CLOSED
    assert await roster.client(ACME, "all") is await roster.client(Tenant(8, "umbrella"), "all")
    unknown = r"^No remote agent is called 'mine'; there are: all$"
    with pytest.raises(UnknownRemoteAgentError, match=unknown):
        await roster.client(Tenant(8, "umbrella"), "mine")
    with pytest.raises(UnknownRemoteAgentError, match=unknown):
        await roster.card(Tenant(8, "umbrella"), "mine")
    with pytest.raises(UnknownRemoteAgentError, match="there are none"):
        await RemoteRoster(RemoteAgents()).client(ACME, "mine")


# --- calls ------------------------------------------------------------------------------------------------------------


class Recorder:
    """An app behind a recorder of what clients send to it."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def recorded() -> Any:
            event = await receive()
            if event["type"] == "http.request" and scope["method"] == "POST":
                self.bodies.append(event["body"])
            return event

        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await self.app(scope, recorded, send)


def calling(roster: RemoteRoster, name: str) -> Agent:
    agent = Agent("Caller")

    @agent.on_message
    async def call(turn: Turn) -> Any:
        context.attach(baggage.set_baggage("customer", "secret"))
        try:
            client = await roster.client(ACME, name)
            return await turn.delegate(client, f"Do: {turn.text}", reveals_task=False, asks=False)
        except DelegateFailedError as error:
            return f"{error.state}: {error.reason}"

    return agent


async def test_a_remote_agent_gets_the_text_of_the_message_and_nothing_of_the_tenant() -> None:
    remote = Agent("Remote")

    @remote.on_message
    async def answer(turn: Turn) -> Any:
        return f"{turn.text}!", {"n": 1}

    app = App(remote)
    site, caller = Recorder(app), Caller("ada-of-acme", "tenant-7")
    async with (
        app.running(),
        serving(site) as http,
        roster_of({"remote": str(http.base_url)}, token="operators-token") as roster,
        running_agent(calling(roster, "remote"), caller=caller) as client,
    ):
        tasks = [await client.send("this"), await client.send("that")]
    assert tasks[0].artifacts[0].parts == (TextPart("Do: this!"), DataPart({"n": 1}))
    for task, body in zip(tasks, site.bodies, strict=True):
        message = json.loads(body)["params"]["message"]
        assert message.keys() <= {"messageId", "role", "parts", "metadata"}
        assert message["metadata"] == {DELEGATION: {"depth": 1}}
        assert message["messageId"] != task.id
        private = (task.id, task.context_id, caller.name, caller.tenant, "secret")
        assert not [text for text in private if text in body.decode() or text in str(site.headers)]
    expected = {"host", "accept", "accept-encoding", "user-agent", "a2a-version", "content-type", "content-length"}
    assert {name for headers in site.headers for name in headers} <= {*expected, "authorization", "traceparent"}
    assert {headers.get("authorization") for headers in site.headers} == {None, "Bearer operators-token"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [("ask", "input-required: What?"), ("fail", "failed: Out of paper.")],
)
async def test_a_question_or_a_failure_of_a_remote_agent_is_an_error(text: str, answer: str) -> None:
    remote = Agent("Remote")

    @remote.on_message
    async def work(turn: Turn) -> Any:
        if turn.text == "Do: ask":
            await turn.ask("What?")
        await turn.fail("Out of paper.")

    async with (
        running(App(remote)) as http,
        roster_of({"remote": str(http.base_url)}) as roster,
        running_agent(calling(roster, "remote")) as client,
    ):
        assert client.text(await client.send(text)) == answer
