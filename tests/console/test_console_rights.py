"""What a token of a host does not allow, the console does not show or do either."""

from __future__ import annotations

import pytest

from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.data.roles import Grant
from tests.console.consoles import ConsoleServer, console_of_host
from tests.console.test_console_hosts import error_of, tenant_of

pytestmark = pytest.mark.anyio

READING = ("/console/api/tasks", "/console/api/tasks/t-1", "/console/api/tasks/t-1/log", "/console/api/tasks/t-1/tree")


async def token_with(server: ConsoleServer, tenant: str, *scopes: Scope) -> str:
    """A token of a tenant that allows these only."""
    assert server.host is not None
    by = Principal("test", tenant)
    _, token = await server.host.access_tokens.create("-".join(scopes), Grant(scopes=scopes), by=by)
    return token


async def test_a_token_that_may_not_read_shows_no_tasks_and_no_wire() -> None:
    async with console_of_host() as server:
        tenant, _ = await tenant_of(server)
        browser = await server.browser()
        await browser.log_in_with(await token_with(server, tenant, Scope.CALL, Scope.APPROVE))
        for path in READING:
            assert error_of(await browser.get(path)) == (403, "forbidden"), path
        page = await browser.page()
        for kind in ("task_list", "task_log", "tree", "wire"):
            await page.open(kind, kind, **({"task": "t-1"} if kind in ("task_log", "tree") else {}))
            assert (await page.frame(kind))["error"]["code"] == "forbidden", kind


async def test_a_token_that_may_only_read_makes_the_server_call_nothing() -> None:
    async with console_of_host() as server:
        tenant, _ = await tenant_of(server)
        browser = await server.browser()
        await browser.log_in_with(await token_with(server, tenant, Scope.READ))
        assert (await browser.get("/console/api/tasks")).status_code == 200
        for path in (
            "/console/api/checks",
            "/console/api/tasks/t-1/webhooks/w-1/send",
            "/console/remote/r-0123456789abcdef",
        ):
            assert error_of(await browser.post(path, {"agent": "index"})) == (403, "forbidden"), path
