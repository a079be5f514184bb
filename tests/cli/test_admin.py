"""`parley admin`: every route for managing a host is a command, and commands do what routes do."""

from __future__ import annotations

import re
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
from tests.host.running_host import running_host

pytestmark = pytest.mark.anyio

OTHER_COMMANDS = {
    "GET /v1/admin/facts": "parley doctor",
    "GET /metrics": "for Prometheus",
}
"""Routes for operators that are no commands of `parley admin`, and what is for them."""


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
