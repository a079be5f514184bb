"""Why an agent failed: the people who run the server see its traceback, callers of other people's servers do not."""

from __future__ import annotations

import pytest

from parley import Agent, Turn
from parley.console.recent_failures import KEPT, MOST_CHARACTERS
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.console.consoles import Browser, console_of
from tests.console.test_task_lists import send

pytestmark = pytest.mark.anyio

TOKEN = "ada-token-0123456789abcdef"


def failing_agent() -> Agent:
    agent = Agent("Failing")

    @agent.on_message
    async def fail(turn: Turn) -> str:
        raise ValueError(turn.text * (MOST_CHARACTERS if turn.text == "long" else 1))

    return agent


async def traceback(browser: Browser, task: str) -> str | None:
    reply = await browser.get(f"/console/api/tasks/{task}/failure")
    assert reply.status_code == 200, reply.text
    return reply.json()["traceback"]


async def test_the_author_on_an_open_server_sees_the_traceback_of_an_agent_that_raised() -> None:
    async with console_of(failing_agent()) as server:
        browser = await server.browser()
        task = await send(browser, "The service is closed on Sundays")
        assert "Sundays" not in str(task["status"])
        seen = await traceback(browser, task["id"])
        assert seen is not None
        assert seen.startswith("Traceback")
        assert seen.endswith("ValueError: The service is closed on Sundays\n")
        assert (await browser.get("/console/api/tasks/unknown/failure")).status_code == 404


async def test_a_caller_of_a_server_with_authentication_sees_only_the_reference() -> None:
    tokens = BearerTokens([StoredSecret(name="ada", hash=hash_secret(TOKEN))])
    async with console_of(failing_agent(), security=Security({"token": tokens})) as server:
        browser = await server.browser()
        reply = await browser.log_in(scheme="token", values={"token": TOKEN})
        assert reply.status_code == 200, reply.text
        task = await send(browser, "secret words")
        assert await traceback(browser, task["id"]) is None


async def test_the_last_failures_are_kept_each_up_to_a_length() -> None:
    async with console_of(failing_agent()) as server:
        browser = await server.browser()
        first = await send(browser, "long")
        assert len(await traceback(browser, first["id"]) or "") == MOST_CHARACTERS
        for number in range(KEPT):
            last = await send(browser, str(number))
        assert await traceback(browser, first["id"]) is None
        assert (await traceback(browser, last["id"]) or "").endswith(f"ValueError: {KEPT - 1}\n")
