"""Tokens with scopes, service accounts, roles and people: the same rules in A2A and in the native API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley.cli.serving.host_reload import reload_host
from parley.host.access.principal import Principal
from parley.host.access.scopes import ROLES, Scope
from parley.host.data import access_tokens
from parley.host.data.access_tokens import MAX_LIFETIME
from parley.host.data.errors import LimitReachedError
from parley.host.data.roles import Grant, TenantRoles
from parley.host.data.service_accounts import ServiceAccounts
from parley.host.models.model import ModelRequest
from parley.host.people import PeopleSettingError, PeopleSettings, PersonGrant, TrustedIssuer, read_people_settings
from parley.server.webhooks.guard import WebhookPolicy
from parley.testing.clock import FakeClock
from tests.host.a2a_calls import call, documented_message, message, path_of, request, result
from tests.host.api_calls import constitution, echo_models
from tests.host.frame_reader import open_stream
from tests.host.function_model import FunctionModel
from tests.host.running_host import RunningHost, running_host
from tests.host.stores import MemoryStore
from tests.server.authorization_server import AUDIENCE, authorization_server

pytestmark = pytest.mark.anyio


async def token(running: RunningHost, **members: Any) -> dict[str, Any]:
    """A new token of acme."""
    reply = await running.acme.client.post("/v1/access/tokens", json={"name": "test", **members})
    assert reply.status_code == 201, reply.text
    return reply.json()


async def client_of(running: RunningHost, **members: Any) -> httpx2.AsyncClient:
    """A client with a new token of acme."""
    return await running.client((await token(running, **members))["token"])


async def test_each_scope_opens_its_own_routes_and_no_others() -> None:
    async with running_host(models=echo_models()) as running:
        await running.acme.client.post("/v1/agents", json=constitution())
        attempts = {
            Scope.CALL: ("POST", "/v1/conversations", {"title": "a"}),
            Scope.READ: ("GET", "/v1/agents", None),
            Scope.MANAGE: ("POST", "/v1/agents", constitution("another")),
            Scope.AUDIT: ("GET", "/v1/audit", None),
        }
        for granted in Scope:
            client = await client_of(running, scopes=[granted])
            for needed, (method, path, body) in attempts.items():
                reply = await client.request(method, path, json=body)
                if needed == granted:
                    assert reply.is_success, reply.text
                else:
                    assert reply.status_code == 403
                    assert f"needs the scope '{needed}'" in reply.json()["error"]
            me = (await client.get("/v1/access/me")).json()
            assert (me["tenant_id"], me["scopes"]) == (int(running.acme.id), [granted])
            assert me["principal"].startswith(f"token:{running.acme.id}/")


async def test_scopes_hold_in_a2a_for_every_dialect_and_binding() -> None:
    async with running_host(models=echo_models()) as running:
        reader, caller = await client_of(running, role="viewer"), await client_of(running, scopes=["call"])
        sent = (await call(caller, "SendMessage", message("hello")))["result"]["task"]
        assert (await call(reader, "GetTask", {"id": sent["id"]}))["result"]["id"] == sent["id"]
        assert (await call(reader, "tasks/get", {"id": sent["id"]}))["result"]["id"] == sent["id"]
        for client, method, params in (
            (reader, "SendMessage", message("no")),
            (reader, "message/send", documented_message("no")),
            (reader, "CancelTask", {"id": sent["id"]}),
            (caller, "GetTask", {"id": sent["id"]}),
            (caller, "ListTasks", {}),
        ):
            reply = await client.post(path_of("index"), json=request(method, params))
            assert "scope" in reply.json()["error"]["message"], reply.text
        rest = await caller.get(f"{path_of('index')}/rest/tasks/{sent['id']}", headers={"A2A-Version": "1.0"})
        assert rest.status_code == 403, rest.text
        streamed = await reader.post(path_of("index"), json=request("SendStreamingMessage", message("no")))
        assert "scope" in streamed.text
        assert len((await reader.get("/v1/requests")).json()["requests"]) == 1


async def test_a_token_that_expires_is_revoked_or_rotated_is_refused() -> None:
    async with running_host() as running:
        first, manager = await token(running, role="viewer"), running.acme.client
        client = await running.client(first["token"])
        assert (await client.get("/v1/agents")).is_success
        path = f"/v1/access/tokens/{first['id']}"
        second = (await manager.post(f"{path}/rotate", json={"overlap_seconds": 3600})).json()
        assert (await client.get("/v1/agents")).is_success
        assert (await (await running.client(second["token"])).get("/v1/agents")).is_success
        assert (await manager.delete(path)).json() == {"deleted": True}
        assert (await client.get("/v1/agents")).status_code == 401
        assert (await manager.delete(path)).status_code == 404
        third = (await manager.post(f"/v1/access/tokens/{second['id']}/rotate")).json()
        assert (await (await running.client(second["token"])).get("/v1/agents")).status_code == 401
        shown = (await manager.get("/v1/access/tokens")).json()["tokens"]
        assert [one["id"] for one in shown] == [third["id"]]
        assert not any("token" in one or "hash" in one for one in shown)


async def test_webhooks_are_no_way_around_a_scope() -> None:
    async with running_host(models=echo_models(), options={"webhooks": WebhookPolicy()}) as running:
        owner, settings = running.acme.client, {"settings": {"push_notifications": True}}
        await running.admin.patch(f"/v1/admin/tenants/{running.acme.id}", json=settings)
        task = (await result(owner, "SendMessage", message("hello")))["task"]
        new = {"taskId": task["id"], "url": "https://example.com/hook", "token": "secret of the webhook"}
        caller, reader = await client_of(running, scopes=["call"]), await client_of(running, scopes=["read"])
        refused = await call(caller, "CreateTaskPushNotificationConfig", new)
        assert "needs the scope 'read'" in refused["error"]["message"]
        await result(await client_of(running, role="caller"), "CreateTaskPushNotificationConfig", new)
        refused = await call(reader, "ListTaskPushNotificationConfigs", {"taskId": task["id"]})
        assert "needs the scope 'call'" in refused["error"]["message"]


@pytest.mark.parametrize("scopes", [["call"], ["approve"], ["read", "approve"]])
async def test_a_webhook_that_comes_with_a_message_needs_the_same_scopes(scopes: list[str]) -> None:
    async with running_host(models=echo_models(), options={"webhooks": WebhookPolicy()}) as running:
        owner, settings = running.acme.client, {"settings": {"push_notifications": True}}
        await running.admin.patch(f"/v1/admin/tenants/{running.acme.id}", json=settings)
        task = (await result(owner, "SendMessage", message("hello")))["task"]
        sender, hook = await client_of(running, scopes=scopes), {"url": "https://example.com/hook"}
        reserved = "needs the scope '"
        for method, asked, member in (
            ("SendMessage", message, "taskPushNotificationConfig"),
            ("SendStreamingMessage", message, "taskPushNotificationConfig"),
            ("message/send", documented_message, "pushNotificationConfig"),
            ("message/stream", documented_message, "pushNotificationConfig"),
        ):
            params = asked("again")
            params["message"]["taskId"] = task["id"]
            params["configuration"] = {member: hook}
            reply = await sender.post(path_of("index"), json=request(method, params))
            assert reserved in reply.text, reply.text
        begun = await sender.post("/v1/requests", json={"message": "hello", "webhook": hook})
        assert (begun.status_code, reserved in begun.text) == (403, True), begun.text
        listed = await result(owner, "ListTaskPushNotificationConfigs", {"taskId": task["id"]})
        assert not listed.get("configs")
        assert len((await owner.get("/v1/requests")).json()["requests"]) == 1


async def test_deliveries_are_read_with_one_scope_and_repeated_with_another() -> None:
    async with running_host(models=echo_models(), options={"webhooks": WebhookPolicy()}) as running:
        owner, settings = running.acme.client, {"settings": {"push_notifications": True}}
        path = f"{path_of('index')}/rest/push/deliveries"
        task = (await result(owner, "SendMessage", message("hello")))["task"]
        assert (await owner.get(f"{path}?taskId={task['id']}")).status_code == 400  # this tenant has no webhooks
        await running.admin.patch(f"/v1/admin/tenants/{running.acme.id}", json=settings)
        new = {"taskId": task["id"], "url": "https://example.com/hook", "id": "ci"}
        await result(owner, "CreateTaskPushNotificationConfig", new)
        caller, reader = await client_of(running, scopes=["call"]), await client_of(running, scopes=["read"])
        shown = await reader.get(f"{path}/{task['id']}/ci")
        assert (shown.status_code, shown.json()["status"]) == (200, "up_to_date")
        assert (await caller.get(f"{path}/{task['id']}/ci")).status_code == 403
        for action in ("resume", "redeliver"):
            assert (await reader.post(f"{path}/{task['id']}/ci/{action}")).status_code == 403
            assert (await caller.post(f"{path}/{task['id']}/ci/{action}")).status_code == 200
        await running.admin.patch(f"/v1/admin/tenants/{running.globex.id}", json=settings)
        assert (await running.globex.client.get(f"{path}/{task['id']}/ci")).status_code == 404


async def test_open_streams_end_when_the_token_of_their_reader_does() -> None:
    words: asyncio.Queue[str] = asyncio.Queue()

    async def says(request: ModelRequest) -> AsyncIterator[str]:
        while True:
            yield await words.get()

    async with running_host(models={"parley/router": FunctionModel(says)}) as running:
        owner, made = running.acme.client, await token(running, role="caller")
        client = await running.client(made["token"])
        sent = await result(owner, "SendMessage", {**message("a"), "configuration": {"returnImmediately": True}})
        task_id = sent["task"]["id"]
        async with (
            open_stream(client, "SubscribeToTask", {"id": task_id}) as new,
            open_stream(client, "tasks/resubscribe", {"id": task_id}) as old,
            client.stream("GET", f"/v1/requests/{task_id}/events") as native,
        ):
            words.put_nowait("first ")
            await new.take(1)
            assert (await owner.delete(f"/v1/access/tokens/{made['id']}")).is_success
            words.put_nowait("second ")
            for reader in (new, old):
                frames = await reader.rest()
                assert frames[-1].envelope["error"]["code"] == -32031
                assert "second" not in str(frames)
            assert "second" not in (shown := (await native.aread()).decode())
            assert '"error_code":"unauthorized"' in shown


async def test_a_lookup_that_a_revocation_overtakes_is_not_remembered() -> None:
    records, clock, by = MemoryStore().records, FakeClock(), Principal("tenant:1", "1")
    reached, go_on = asyncio.Event(), asyncio.Event()

    class SlowRoles(TenantRoles):
        async def scopes_of(self, tenant: str, grant: Grant) -> frozenset[Scope]:
            reached.set()
            await go_on.wait()
            return await super().scopes_of(tenant, grant)

    go_on.set()
    roles = SlowRoles(records, clock)
    tokens = access_tokens.AccessTokens(records, clock, roles, ServiceAccounts(records, clock, roles))
    made, text = await tokens.create("a", Grant("viewer"), by=by)
    reached.clear()
    go_on.clear()
    looking = asyncio.create_task(tokens.find(text))
    await reached.wait()
    await tokens.revoke(made.id, by=by)
    go_on.set()
    await looking
    assert await tokens.find(text) is None


async def test_an_account_bounds_its_tokens_and_disables_them_together() -> None:
    async with running_host() as running:
        manager = running.acme.client
        account = {"role": "developer", "description": "Deploys agents."}
        assert (await manager.put("/v1/access/accounts/ci", json=account)).is_success
        whole = await client_of(running, account="ci")
        narrow = await client_of(running, account="ci", scopes=["read", "audit"])
        assert (await whole.get("/v1/access/me")).json()["principal"] == f"account:{running.acme.id}/ci"
        assert (await narrow.get("/v1/access/me")).json()["scopes"] == ["read"]
        assert (await whole.post("/v1/agents", json=constitution())).status_code == 201
        assert (await manager.get("/v1/audit")).json()["entries"][0]["actor"] == f"account:{running.acme.id}/ci"
        await manager.put("/v1/access/accounts/ci", json={**account, "disabled": True})
        assert [(await client.get("/v1/agents")).status_code for client in (whole, narrow)] == [401, 401]
        await manager.put("/v1/access/accounts/ci", json=account)
        assert (await whole.get("/v1/agents")).is_success
        assert (await manager.delete("/v1/access/accounts/ci")).is_success
        assert (await whole.get("/v1/agents")).status_code == 401


async def test_a_deleted_account_takes_its_tokens_with_it_for_good() -> None:
    async with running_host() as running:
        owner = running.acme.client
        await owner.put("/v1/access/accounts/ci", json={"role": "owner"})
        old = await client_of(running, account="ci")
        await owner.delete("/v1/access/accounts/ci")
        await owner.put("/v1/access/accounts/ci", json={"role": "owner"})
        assert (await old.get("/v1/access/me")).status_code == 401
        assert (await owner.get("/v1/access/tokens")).json()["tokens"] == []


async def test_an_account_that_may_do_more_is_not_changed_by_a_principal_that_may_do_less() -> None:
    async with running_host() as running:
        developer = await client_of(running, role="developer")
        await running.acme.client.put("/v1/access/accounts/bot", json={"role": "approver"})
        assert (await developer.put("/v1/access/accounts/bot", json={"role": "viewer"})).status_code == 403
        assert (await developer.post("/v1/access/tokens", json={"name": "a", "account": "bot"})).status_code == 403


async def test_rotation_does_not_exceed_the_limit_and_expired_tokens_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "MOST_TOKENS", 2)
    records, clock, by = MemoryStore().records, FakeClock(), Principal("tenant:1", "1")
    roles = TenantRoles(records, clock)
    tokens = access_tokens.AccessTokens(records, clock, roles, ServiceAccounts(records, clock, roles))
    first, _ = await tokens.create("a", Grant("viewer"), by=by)
    await tokens.create("b", Grant("viewer"), by=by, lifetime_seconds=60)
    with pytest.raises(LimitReachedError):
        await tokens.rotate(first.id, 10, by=by)
    second, _ = await tokens.rotate(first.id, 0, by=by)
    await clock.advance(61)
    third, _ = await tokens.rotate(second.id, 10, by=by)
    assert {one.id for one in await tokens.list("1")} == {second.id, third.id}


async def test_a_role_that_changes_changes_what_its_tokens_allow() -> None:
    async with running_host() as running:
        manager = running.acme.client
        assert (await manager.put("/v1/access/roles/ops", json={"scopes": ["read", "manage"]})).is_success
        client = await client_of(running, role="ops")
        assert (await client.post("/v1/agents", json=constitution())).status_code == 201
        await manager.put("/v1/access/roles/ops", json={"scopes": ["read"]})
        assert (await client.post("/v1/agents", json=constitution("b"))).status_code == 403
        await manager.delete("/v1/access/roles/ops")
        assert (await client.get("/v1/agents")).status_code == 403
        names = [role["name"] for role in (await manager.get("/v1/access/roles")).json()["roles"]]
        assert names == list(ROLES)


async def test_a_principal_cannot_give_away_what_it_does_not_have() -> None:
    async with running_host() as running:
        manager, developer = running.acme.client, await client_of(running, role="developer")
        await manager.put("/v1/access/roles/decider", json={"scopes": ["approve"]})
        await manager.put("/v1/access/accounts/boss", json={"role": "owner"})
        strong = await token(running, role="owner")
        for method, path, body in (
            ("POST", "/v1/access/tokens", {"name": "x", "role": "owner"}),
            ("POST", "/v1/access/tokens", {"name": "x", "scopes": ["approve"]}),
            ("POST", "/v1/access/tokens", {"name": "x", "role": "decider"}),
            ("POST", "/v1/access/tokens", {"name": "x", "account": "boss", "scopes": ["read"]}),
            ("PUT", "/v1/access/roles/mine", {"scopes": ["audit"]}),
            ("PUT", "/v1/access/roles/decider", {"scopes": ["read"]}),
            ("PUT", "/v1/access/accounts/mine", {"role": "owner"}),
            ("POST", f"/v1/access/tokens/{strong['id']}/rotate", {}),
        ):
            reply = await developer.request(method, path, json=body)
            assert reply.status_code == 403, (path, body, reply.text)
        assert len((await manager.get("/v1/access/tokens")).json()["tokens"]) == 2


async def test_tokens_of_one_tenant_open_nothing_of_another() -> None:
    async with running_host() as running:
        created = await token(running, role="owner")
        stolen = created["token"].replace(f"apt_{running.acme.id}_", f"apt_{running.globex.id}_")
        assert (await (await running.client(stolen)).get("/v1/agents")).status_code == 401
        assert (await running.globex.client.get("/v1/access/tokens")).json() == {"tokens": []}
        assert (await running.globex.client.delete(f"/v1/access/tokens/{created['id']}")).status_code == 404
        entries = (await running.globex.client.get("/v1/audit")).json()["entries"]
        assert {entry["target_id"] for entry in entries} == {running.globex.id}
        await running.admin.patch(f"/v1/admin/tenants/{running.acme.id}", json={"disabled": True})
        assert (await (await running.client(created["token"])).get("/v1/agents")).status_code == 401


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"name": " "}, 400, "$.name"),
        ({"name": "x"}, 400, "either a role or scopes"),
        ({"name": "x", "role": "viewer", "scopes": ["read"]}, 400, "either a role or scopes"),
        ({"name": "x", "role": "king"}, 400, "no role 'king'"),
        ({"name": "x", "scopes": ["fly"]}, 400, "$.scopes[0]"),
        ({"name": "x", "role": "viewer", "expires_in_seconds": 0}, 400, "$.expires_in_seconds"),
        ({"name": "x", "role": "viewer", "expires_in_seconds": MAX_LIFETIME + 1}, 400, "$.expires_in_seconds"),
        ({"name": "x", "account": "nobody"}, 404, "no service account 'nobody'"),
    ],
)
async def test_a_token_that_is_not_valid_is_not_created(body: dict[str, Any], status: int, problem: str) -> None:
    async with running_host() as running:
        reply = await running.acme.client.post("/v1/access/tokens", json=body)
        assert (reply.status_code, problem in reply.json()["error"]) == (status, True), reply.text
        assert (await running.acme.client.get("/v1/access/tokens")).json() == {"tokens": []}


async def test_built_in_roles_and_odd_names_are_refused() -> None:
    async with running_host() as running:
        manager = running.acme.client
        assert (await manager.put("/v1/access/roles/owner", json={"scopes": ["read"]})).status_code == 409
        assert (await manager.put("/v1/access/roles/a%20b", json={"scopes": ["read"]})).status_code == 400
        assert (await manager.put("/v1/access/roles/empty", json={"scopes": []})).status_code == 400
        assert (await manager.put("/v1/access/accounts/a%2Fb", json={"role": "viewer"})).status_code == 400
        assert (await manager.delete("/v1/access/roles/owner")).status_code == 404


async def test_the_operator_acts_for_a_tenant_that_it_names() -> None:
    async with running_host() as running:
        named = {"Parley-Tenant": running.acme.id}
        assert (await running.admin.post("/v1/agents", json=constitution(), headers=named)).status_code == 201
        entry = (await running.acme.client.get("/v1/audit")).json()["entries"][0]
        assert (entry["action"], entry["actor"]) == ("create_agent", "admin")
        assert (await running.admin.get("/v1/agents", headers={"Parley-Tenant": "99"})).status_code == 404
        assert (await running.admin.get("/v1/agents")).status_code == 401
        for malformed in ("Bearer", "Bearer a, Bearer b", f"Bearer {'x' * 20_000}"):
            headers = {**named, "Authorization": malformed}
            assert (await running.anonymous.get("/v1/agents", headers=headers)).status_code == 401
        other = {"Parley-Tenant": running.globex.id}
        agents = (await running.acme.client.get("/v1/agents", headers=other)).json()["agents"]
        assert "writer" in [agent["id"] for agent in agents]  # a tenant's token means its own tenant


async def test_people_log_in_with_openid_connect_and_have_the_roles_of_their_groups() -> None:
    async with authorization_server() as issuer:
        grants = (
            PersonGrant("1", "viewer"),
            PersonGrant("1", "developer", "platform"),
            PersonGrant("2", "viewer", "x"),
        )
        trusted = TrustedIssuer(issuer=issuer.url, audience=AUDIENCE, name_claim="email", grants=grants)
        async with running_host(people=PeopleSettings((trusted,))) as running:
            person = await running.client(issuer.sign({"email": "ada@example.com"}))
            me = (await person.get("/v1/access/me")).json()
            assert me == {"principal": "person:1/ada@example.com", "tenant_id": 1, "scopes": ["read"]}
            developer = await running.client(issuer.sign({"groups": ["platform", "x"]}))
            assert "several tenants" in (await developer.get("/v1/agents")).headers["www-authenticate"]
            chosen = {"Parley-Tenant": "1"}
            assert (await developer.post("/v1/agents", json=constitution(), headers=chosen)).status_code == 201
            assert (await developer.get("/v1/agents", headers={"Parley-Tenant": "3"})).status_code == 401
            unverified = {"email": "boss@example.com", "email_verified": False}
            named = (await (await running.client(issuer.sign(unverified))).get("/v1/access/me")).json()
            assert named["principal"] == "person:1/ada"
            assert (await (await running.client(issuer.sign({"exp": 1}))).get("/v1/agents")).status_code == 401
            found = (await running.anonymous.get("/.well-known/oauth-protected-resource")).json()
            assert found["authorization_servers"] == [issuer.url]
            odd = (await (await running.client(issuer.sign({"sub": "a\n\x1b[2J"}))).get("/v1/access/me")).json()
            assert odd["principal"] == "person:1/a%0A%1B%5B2J"
            card = (await person.get(f"{path_of('index')}/agent-card.json")).json()
            assert issuer.url in card["securitySchemes"]["bearer"]["description"]


async def test_the_issuers_of_people_are_replaced_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "people.toml"
    async with authorization_server() as first, authorization_server() as second:

        def write(issuer: str, role: str) -> None:
            grants = f'[[issuers.grants]]\ntenant = "1"\nrole = "{role}"\n'
            file.write_text(f'[[issuers]]\nissuer = "{issuer}"\naudience = "{AUDIENCE}"\n{grants}')

        write(first.url, "viewer")
        async with running_host(people=read_people_settings(file)) as running:

            def reload() -> None:
                reload_host(running.host, file, load_webhook_auth=lambda: None, audit=None)

            ada, bob = await running.client(first.sign()), await running.client(second.sign())
            assert (await ada.get("/v1/access/me")).json()["scopes"] == ["read"]
            write(first.url, "caller")
            reload()
            assert (await ada.get("/v1/access/me")).json()["scopes"] == ["call", "read"]
            for broken in ("[[issuers]\n", f'[[issuers]]\nissuer = "{first.url}"\naudience = "a"\n', "issuers = 1"):
                file.write_text(broken)
                reload()
                assert "the old ones stay in force" in caplog.messages[-1]
            assert (await ada.get("/v1/access/me")).status_code == 200
            write(second.url, "viewer")
            reload()
            assert [(await each.get("/v1/access/me")).status_code for each in (ada, bob)] == [401, 200]
            found = (await running.anonymous.get("/.well-known/oauth-protected-resource")).json()
            assert found["authorization_servers"] == [second.url]
            card = (await bob.get(f"{path_of('index')}/agent-card.json")).json()
            assert second.url in card["securitySchemes"]["bearer"]["description"]


async def test_a_host_that_began_without_issuers_stays_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "people.toml"
    file.write_text("")
    async with running_host(people=read_people_settings(file)) as running:
        reload_host(running.host, file, load_webhook_auth=lambda: None, audit=None)
        assert "A host that began without issuers stays without" in caplog.text
        assert (await running.acme.client.get("/v1/agents")).status_code == 200


async def test_grants_that_give_nothing_are_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = f"sqlite:///{tmp_path}/host.db"
    async with running_host(store=store):
        pass
    grants = (PersonGrant("1", "viewer"), PersonGrant("1", "veiwer"), PersonGrant("99", "viewer"))
    trusted = TrustedIssuer(issuer="https://login.example.com", audience=AUDIENCE, grants=grants)
    async with running_host(store=store, tenants=(), people=PeopleSettings((trusted,))):
        faults = [record.getMessage() for record in caplog.records if record.getMessage().startswith("People")]
    assert ["'veiwer'" in faults[0], "'99'" in faults[1], len(faults)] == [True, True, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[issuers]\n", "is not valid"),
        ('[[issuers]]\nissuer = "https://a.example"\n', "audience"),
        ('[[issuers]]\nissuer = "https://a.example"\naudience = "b"\n', "no grants"),
        ('[[issuers]]\nissuer = "https://a.example"\naudience = "b"\nrole = "c"\n', "role"),
    ],
)
def test_a_file_of_issuers_that_is_not_valid_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "people.toml"
    file.write_text(text)
    with pytest.raises(PeopleSettingError, match=problem):
        read_people_settings(file)
