"""`parley admin`: every route for managing a host is a command, and commands do what routes do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx2 import Response
from msgspec import structs

from parley.cli.admin.command import WHOLE_BODY, Target
from parley.cli.admin.host_connection import NotAHostError
from parley.cli.admin.reply_text import show_members, show_table
from parley.cli.admin.table import COMMANDS, GROUPS
from parley.cli.admin.typer_commands import show_reply
from parley.host.access.principal import Principal
from parley.host.access.scopes import Scope
from parley.host.api.route import ApiRoute, Auth
from parley.host.api.table import ROUTES
from parley.host.data.roles import Grant
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
        assert (code, "name the tenant as well: --tenant" in shown) == (1, True)
        code, shown = await HostCommands(running, PARLEY_ADMIN_TOKEN="").run("admin", "tokens", "list")
        assert (code, "Give a token with --token-file, or in PARLEY_ADMIN_TOKEN" in shown) == (1, True)
        code, shown = await HostCommands(running, PARLEY_ADMIN_TOKEN="wrong").run("admin", "tenants", "list")
        assert (code, "This needs the admin token" in shown) == (1, True)
        code, shown = await commands.run("admin", "tokens", "create", "x", "--role", "king", "--tenant", "1")
        assert (code, "There is no role 'king'" in shown) == (1, True)
        code, shown = await commands.run("admin", "tenants", "list", "--host", "http://127.0.0.1:9")
        assert (code, "No host answers at http://127.0.0.1:9" in shown) == (3, True)
        code, shown = await commands.run("admin", "tenants", "list", "--host", "nonsense")
        assert (code, "It must start with http" in shown) == (2, True)


async def test_an_argument_cannot_lead_to_another_route_or_be_another_header(tmp_path: Path) -> None:
    async with running_host() as running:
        commands = HostCommands(running, PARLEY_TENANT=running.acme.id)
        for words in (
            ("agents", "stop", "..", "--reason", "x"),
            ("agents", "show", ""),
            ("tenants", "export", "..", str(tmp_path / "a")),
            ("tokens", "list", "--tenant", "1\r\nA: b"),
            ("tokens", "list", "--tenant", "é"),
        ):
            code, shown = await commands.run("admin", *words)
            assert (code, "Invalid id" in shown) == (2, True), shown
        code, shown = await commands.run("admin", "tenants", "export", f"{running.acme.id}/usage?", str(tmp_path / "a"))
        assert (code, "the id of a tenant is a number" in shown) == (1, True)
        assert (await running.acme.client.get("/v1/stops")).json()["stopped"] is False


def test_what_another_server_answers_is_shown_safely_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    (tokens,) = [command for command in COMMANDS if command.words == ("tokens", "list")]
    row = {"id": "\x1b[2J", "expires_at": 10**30}
    odd = msgspec.json.encode({"tokens": [row], "next_cursor": "\x1b]0;title\x07"})
    show_reply(tokens, Response(200, content=odd), as_json=False)
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "␛]0;title" in shown.err
    for content in (b"<html>", b"[]", b"{}", b"\xff"):
        with pytest.raises(NotAHostError):
            show_reply(tokens, Response(200, content=content), as_json=False)


def test_replies_are_shown_without_empty_columns_raw_times_and_raw_objects(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([{"name": "a" * 79, "at": 0, "by": "x" * 79}, {"name": "b", "at": 60}], ("name", "at", "by", "note"))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split() for line in lines] == [
        ["name", "at", "by"],
        ["a" * 79, "–", "x" * 79],
        ["b", "1970-01-01", "00:01:00Z", "–"],
    ]
    show_members({"used_at": 0, "changes": [{"member": "goal", "diff": "-a\n+b"}], "rules": []})
    assert capsys.readouterr().out.splitlines() == [
        "used at: –",
        "changes:",
        "  - member: goal",
        "    diff:",
        "      -a",
        "      +b",
        "rules: –",
    ]


async def test_an_export_whose_last_line_is_long_is_whole(tmp_path: Path) -> None:
    async with running_host() as running:
        for _ in range(400):
            by = Principal(f"tenant:{running.acme.id}", running.acme.id)
            await running.host.access_tokens.create("n" * 200, Grant("viewer"), by=by)
        code, shown = await HostCommands(running).run(
            "admin", "tenants", "export", running.acme.id, str(tmp_path / "acme.ndjson")
        )
        assert (code, [file.name for file in tmp_path.iterdir()]) == (0, ["acme.ndjson"]), shown


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
