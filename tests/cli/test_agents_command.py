"""`parley agents`, and names of agents in place of URLs, against a host and against any catalogue."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from parley.host.remote.config import RemoteAgents
from parley.server.app import App
from tests.cli.host_commands import HostCommands
from tests.client.test_discovery import Site
from tests.host.api_calls import constitution, echo_models
from tests.host.running_host import RunningHost, running_host
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def host() -> AsyncGenerator[tuple[RunningHost, HostCommands]]:
    """A host with an agent, and commands with the token of its tenant."""
    remote = RemoteAgents(allow_private_hosts=("127.0.0.1",))
    async with running_host(models=echo_models(), remote_agents=remote) as found:
        await found.acme.client.post("/v1/agents", json=constitution("poet", goal="Writes poems."))
        yield found, HostCommands(found, PARLEY_TOKEN=found.acme.token)


def lines(output: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in output.splitlines()]


async def test_agents_are_registered_found_shown_called_and_removed() -> None:
    async with running(App(echo_agent("Far"))) as http, host() as (found, commands):
        url = str(http.base_url)
        code, shown = await commands.run("agents", "add", url, "--name", "far", "--agent-token", "s3cret")
        assert (code, "state: healthy" in shown, "s3cret" in shown) == (0, True, False)
        code, shown = await commands.run("agents", "add", url, "--name", "far")
        assert (code, "registered already" in shown) == (1, True)
        code, shown = await commands.run("agents", "find", "poems")
        assert (code, shown) == (0, "poet  Poet: worker — Writes poems.\n")
        code, shown = await commands.run("agents", "find", "--tag", "far", "--json")
        assert [(hit["name"], hit["origin"]) for hit in lines(shown)] == [("far", "registered")]
        assert await commands.run("agents", "find", "nothing") == (0, "No agent was found.\n")
        assert len(lines((await commands.run("agents", "find", "--limit", "2", "--json"))[1])) == 2
        assert (await commands.json("agents", "show", "far"))["url"] == url
        assert (await commands.json("agents", "show", "poet"))["name"] == "Poet"
        code, shown = await commands.run("agents", "show", "poet")
        assert (code, "Interfaces" in shown) == (0, True)
        code, shown = await commands.run("agents", "show", "never")
        assert (code, "No agent of the catalogue is called 'never'; there are: index, poet, far" in shown) == (2, True)
        code, shown = await commands.run("send", "poet", "hi", "--catalog", f"{found.url}/v1/catalog")
        assert (code, "poet heard hi" in shown) == (0, True)
        assert await commands.json("agents", "remove", "far") == {"deleted": True}
        code, shown = await commands.run("agents", "remove", "far")
        assert (code, "no registered agent 'far'" in shown) == (1, True)


async def test_any_catalogue_is_searched_and_its_names_are_called() -> None:
    async with running(App(echo_agent("One"), echo_agent("Two"))) as http, host() as (_, commands):
        url = str(http.base_url).removeprefix("http://").rstrip("/")
        code, shown = await commands.run("agents", "find", "two", "--catalog", url)
        assert (code, shown) == (0, "urn:air:127.0.0.1:agent:two  Two: Says what it hears\n")
        assert (await commands.json("agents", "show", "two", "--catalog", url))["name"] == "Two"
        by_variable = HostCommands.__new__(HostCommands)
        by_variable._environment = {"PARLEY_CATALOG": url, "COLUMNS": "160"}  # pyright: ignore[reportPrivateUsage]
        assert (await by_variable.run("send", "two", "hello"))[1] == "hello\n"
        assert (await by_variable.run("send", f"{url}/agents/one", "hello"))[1] == "hello\n"  # a URL stays one
        assert (await by_variable.json("card", "two"))["name"] == "Two"
        code, shown = await by_variable.run("send", "three", "hello")
        assert (code, "'three'; there are: one, two" in shown) == (2, True)
        code, shown = await by_variable.run("send", f"catalog+http://{url}#two", "hello")
        assert (code, shown) == (0, "hello\n")
        for catalog, reason in (("ftp://x", "Invalid URL"), (f"{url}/never", "answers 404")):
            code, shown = await by_variable.run("send", "two", "hello", "--catalog", catalog)
            assert (code in (2, 3), reason in shown) == (True, True), shown


async def test_a_host_that_does_not_answer_or_refuses_is_reported() -> None:
    async with host() as (found, commands):
        code, shown = await commands.run("agents", "find", "--host", "http://127.0.0.1:1")
        assert (code, "No host answers at http://127.0.0.1:1" in shown) == (3, True)
        code, shown = await commands.run("agents", "find", "--token", "wrong")
        assert (code, "HTTP 401" in shown) == (1, True)
        code, shown = await commands.run("agents", "add", "https://10.0.0.1")
        assert (code, "which is not public" in shown) == (1, True)
        operator = HostCommands(found, PARLEY_TENANT="1")
        assert [hit["name"] for hit in lines((await operator.run("agents", "find", "poems", "--json"))[1])] == ["poet"]


async def test_the_operators_token_is_not_for_a_catalogue_elsewhere() -> None:
    site = Site({"/.well-known/ai-catalog.json": (401, {}, b"")})
    async with serving(site) as http, host() as (found, _):
        operator = HostCommands(found)
        for words in (["find"], ["show", "two"]):
            code, shown = await operator.run("agents", *words, "--catalog", str(http.base_url))
            assert (code, "answers 401" in shown) == (3, True), shown
        assert [headers for headers in site.headers if "authorization" in headers] == []
