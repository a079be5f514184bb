"""`parley doctor` says what is wrong with a host and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.host_commands import HostCommands
from tests.host.running_host import running_host

pytestmark = pytest.mark.anyio


async def test_a_host_that_is_well_has_no_problems(tmp_path: Path) -> None:
    async with running_host(store=f"sqlite:///{tmp_path}/host.db") as running:
        code, shown = await HostCommands(running).run("doctor")
        assert (code, "✗" in shown) == (0, False), shown
        assert "Nothing is wrong with them" in shown


async def test_what_is_wrong_is_named_with_a_remedy() -> None:
    async with running_host() as running:
        await running.admin.patch(f"/v1/admin/tenants/{running.acme.id}", json={"disabled": True})
        await running.globex.client.post("/v1/agents/index/stop", json={"reason": "an incident"})
        await running.globex.client.put("/v1/budgets", json={"tenant": {"day": {"tokens": 0}}})
        code, shown = await HostCommands(running).run("doctor")
        assert code == 1
        assert "Everything is kept in memory" in shown
        assert f"parley admin tenants change {running.acme.id} --no-disabled" in shown
        assert f"parley admin agents resume index --tenant {running.globex.id}" in shown
        assert "an incident" in shown
        assert "The budget of the tenant for this day is used up" in shown
        code, shown = await HostCommands(running, PARLEY_ADMIN_TOKEN="wrong").run("doctor")
        assert (code, "The token is not accepted as the admin's" in shown) == (1, True)
        code, shown = await HostCommands(running).run("doctor", "--tenant", "99")
        assert (code, "There is no tenant 99" in shown) == (1, True)


async def test_a_host_that_does_not_answer_is_told_from_one_that_is_something_else() -> None:
    async with running_host() as running:
        code, shown = await HostCommands(running).run("doctor", "--host", "http://127.0.0.1:9")
        assert (code, "Start it with parley up" in shown) == (3, True)
        code, shown = await HostCommands(running).run("doctor", "--host", f"{running.url}/v1/a2a/agents/index")
        assert (code, "is not a Parley host" in shown) == (3, True)
