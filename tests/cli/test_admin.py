"""`parley admin`: every route for managing a host is a command, and commands do what routes do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from parley.cli.admin.command import WHOLE_BODY, Target
from parley.cli.admin.table import COMMANDS, GROUPS
from parley.host.access.scopes import Scope
from parley.host.api.route import ApiRoute, Auth
from parley.host.api.table import ROUTES
from tests.cli.host_commands import HostCommands
from tests.host.api_calls import constitution
from tests.host.running_host import running_host

pytestmark = pytest.mark.anyio

OTHER_COMMANDS = {
    "GET /v1/admin/facts": "parley doctor",
    "GET /metrics": "for Prometheus",
    "GET /v1/admin/tenants/{id}/export": "parley admin tenants export",
    "POST /v1/admin/tenants/import": "parley admin tenants import",
}
"""Routes for operators that are no rows of the table, and what they are for."""


def _name(method: str, path: str) -> str:
    return f"{method} {re.sub(r':int', '', path)}"


ROUTE_BY_NAME: dict[str, ApiRoute[Any]] = {_name(route.method, route.path): route for route in ROUTES}


def test_every_route_for_managing_a_host_is_a_command() -> None:
    commands = {_name(command.method, command.path) for command in COMMANDS}
    managing = {
        name
        for name, route in ROUTE_BY_NAME.items()
        if route.auth is Auth.ADMIN
        or (route.auth is Auth.TENANT and route.needed_scope in (Scope.MANAGE, Scope.APPROVE, Scope.AUDIT))
    }
    assert managing - commands - set(OTHER_COMMANDS) == set()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words))
def test_a_command_fits_its_route(command: Any) -> None:
    route = ROUTE_BY_NAME[_name(command.method, command.path)]
    assert command.words[0] in GROUPS
    segments = {argument.name for argument in command.arguments if not argument.member}
    assert segments == {name for name, _ in route.parameters}
    queries = {option.path[0] for option in command.options if option.target is Target.QUERY}
    assert queries <= {parameter.name for parameter in route.query}
    members = [option.path[0] for option in command.options if option.target is Target.BODY]
    members += [argument.member.split(".")[0] for argument in command.arguments if argument.member]
    if route.body is not None and all(hasattr(form, "__struct_fields__") for form in route.body.documented):
        known = {field.encode_name for form in route.body.documented for field in structs.fields(form)}
        assert set(members) - {WHOLE_BODY} <= known
    assert command.example.startswith(" ".join(command.words))
    if command.columns:
        assert {column.split(".")[0] for column in command.columns} <= _members_of_rows(route, command.rows)


def _members_of_rows(route: ApiRoute[Any], member: str) -> set[str]:
    """The members of the objects in a list of a reply."""
    body = route.replies[0].body
    assert body is not None
    (rows,) = [field for field in msgspec.inspect.type_info(body).fields if field.encode_name == member]
    item = rows.type.item_type
    return {field.encode_name for field in item.fields}


async def test_tenants_and_tokens_are_managed_from_the_command_line() -> None:
    async with running_host() as running:
        commands = HostCommands(running)
        made = await commands.json("admin", "tenants", "create", "initech")
        code, shown = await commands.run("admin", "tenants", "list")
        assert (code, "initech" in shown, made["token"] in shown) == (0, True, False)
        for_tenant = HostCommands(running, PARLEY_TENANT=str(made["id"]))
        token = await for_tenant.json("admin", "tokens", "create", "nightly", "--scope", "call", "--scope", "read")
        client = await running.client(token["token"])
        assert (await client.get("/v1/access/me")).json()["scopes"] == ["call", "read"]
        code, shown = await for_tenant.run("admin", "tokens", "list")
        assert (code, "nightly" in shown, "call, read" in shown) == (0, True, True)
        assert (await for_tenant.run("admin", "tokens", "revoke", token["id"]))[0] == 0
        assert (await client.get("/v1/access/me")).status_code == 401
        code, shown = await for_tenant.run("admin", "audit", "list")
        assert (code, "revoke_token" in shown, "admin" in shown) == (0, True, True)
        changed = await commands.json(
            "admin", "tenants", "change", str(made["id"]), "--disabled", "--tokens-per-day", "5"
        )
        assert (changed["disabled"], changed["quotas"]["tokens_per_day"]) == (True, 5)


async def test_refusals_are_sentences_that_say_what_to_do() -> None:
    async with running_host() as running:
        commands = HostCommands(running)
        code, shown = await commands.run("admin", "tokens", "list")
        assert (code, "PARLEY_ADMIN_TOKEN" in shown, "--tenant" in shown) == (1, True, True)
        code, shown = await commands.run("admin", "tokens", "create", "x", "--role", "king", "--tenant", "1")
        assert (code, "There is no role 'king'" in shown) == (1, True)
        code, shown = await commands.run("admin", "tenants", "list", "--host", "http://127.0.0.1:9")
        assert (code, "No host answers at http://127.0.0.1:9" in shown) == (3, True)
        code, shown = await commands.run("admin", "tenants", "list", "--host", "nonsense")
        assert (code, "It must start with http" in shown) == (2, True)


async def test_a_tenant_is_written_to_a_file_and_made_anew_of_it(tmp_path: Path) -> None:
    file = str(tmp_path / "acme.ndjson")
    async with running_host() as running, running_host(tenants=()) as other:
        await running.acme.client.post("/v1/agents", json=constitution())
        code, shown = await HostCommands(running).run("admin", "tenants", "export", running.acme.id, file)
        assert code == 0, shown
        assert Path(file).stat().st_mode & 0o077 == 0
        made = await HostCommands(other).json("admin", "tenants", "import", file, "--name", "apex")
        client = await other.client(made["token"])
        agents = (await client.get("/v1/agents")).json()["agents"]
        assert [agent["id"] for agent in agents] == ["index", "writer"]
        assert (await HostCommands(running).run("admin", "tenants", "export", running.acme.id, file))[0] == 2
        code, shown = await HostCommands(running).run("admin", "tenants", "export", "99", f"{file}.2")
        assert (code, "tenant not found" in shown, Path(f"{file}.2").exists()) == (1, True, False)
        Path(file).write_bytes(Path(file).read_bytes()[:-50])
        code, shown = await HostCommands(other).run("admin", "tenants", "import", file)
        assert (code, len(other.host.tenants.list())) == (1, 1), shown
