"""A stolen store shows no secret: each kind is given over the public API, and then looked for in the bytes on disk."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from parley.engine.credentials import AUTHORIZATIONS, CREDENTIALS
from parley.host.data import keys
from parley.protocol.masking import MASK
from parley.sealed.errors import SecretError
from parley.sealed.sealer import Sealer
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.secret_fields import SECRET_RECORDS
from parley.stores.sqlite.store import SqliteStore
from tests.client.test_discovery import Site, document
from tests.host.a2a_calls import result
from tests.host.api_calls import echo_models
from tests.host.mcp_fixtures.configured import operators
from tests.host.running_host import RunningHost, running_host
from tests.host.test_catalog_registry import AGENTS, CARD, CATALOG, LOCAL, NEVER, SOURCES
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

SECRETS = [
    f"secret-of-the-{name}"
    for name in (
        "remote-agent",
        "catalogue",
        "mcp-server",
        "token-of-a-request",
        "credentials-of-a-request",
        "token-of-a-message",
        "credentials-of-a-message",
        "token-of-0.3",
        "credentials-of-0.3",
        "token-of-1.0",
        "credentials-of-1.0",
    )
]
AGENT, CATALOGUE, MCP, *WEBHOOKS = SECRETS
DEAD = "http://127.0.0.1:9/hook"


def webhook(token: str, credentials: str, **scheme: Any) -> dict[str, Any]:
    return {"url": DEAD, "token": token, "authentication": {**scheme, "credentials": credentials}}


async def give_all(running: RunningHost, site: str) -> str:
    """Give the host every secret, and return all that it answers when they are read."""
    client, shown = running.acme.client, list[str]()

    async def request(verb: str, path: str, body: Any = None) -> None:
        reply = await client.request(verb, path, json=body)
        assert reply.is_success, reply.text
        shown.append(reply.text)

    settings = {"settings": {"push_notifications": True}}
    await running.admin.patch(f"/v1/admin/tenants/{running.acme.id}", json=settings)
    await request("POST", AGENTS, {"url": site, "name": "far", "credentials": {"token": AGENT}})
    await request("POST", SOURCES, {"url": site, "name": "partners", "credentials": {"token": CATALOGUE}})
    await request("PUT", "/v1/mcp/servers/own", {"url": "https://a.example/", "headers": {"X-Key": MCP}})
    background = webhook(WEBHOOKS[0], WEBHOOKS[1], scheme="Bearer")
    await request("POST", "/v1/requests", {"message": "hello", "webhook": background})
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    config = webhook(WEBHOOKS[2], WEBHOOKS[3], scheme="Bearer")
    sent = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
    task = (await result(client, "SendMessage", sent))["task"]["id"]
    old = {
        "taskId": task,
        "pushNotificationConfig": {**webhook(WEBHOOKS[4], WEBHOOKS[5], schemes=["Bearer"]), "id": "a"},
    }
    shown.append(json.dumps(await result(client, "tasks/pushNotificationConfig/set", old)))
    new = {"taskId": task, "id": "b", **webhook(WEBHOOKS[6], WEBHOOKS[7], scheme="Bearer")}
    shown.append(json.dumps(await result(client, "CreateTaskPushNotificationConfig", new)))
    for method, params in (
        ("ListTaskPushNotificationConfigs", {"taskId": task}),
        ("GetTaskPushNotificationConfig", {"taskId": task, "id": "b"}),
    ):
        shown.append(json.dumps(await result(client, method, params)))
        assert MASK in shown[-1]
    for path in (AGENTS, SOURCES, "/v1/mcp/servers", "/v1/mcp/servers/own", "/v1/catalog"):
        await request("GET", path)
    shown.append((await running.admin.get("/v1/admin/audit")).text)
    export = await running.admin.get(f"/v1/admin/tenants/{running.acme.id}/export")
    assert export.status_code == 200
    shown.append(export.text)
    return "\n".join(shown)


def found_in(folder: Path) -> list[str]:
    """The secrets in the files of a folder: the database, its log of writes, and the key."""
    content = b"".join(file.read_bytes() for file in folder.iterdir())
    return [secret for secret in SECRETS if secret.encode() in content]


async def use_host(folder: Path) -> tuple[str, list[str]]:
    """What a host with all secrets shows, and which are on disk while it runs."""
    site = Site({CARD: document(), CATALOG: json.dumps({"specVersion": "1.0", "entries": []}).encode()})
    settings: dict[str, Any] = {"remote_agents": LOCAL, "check_timing": NEVER, "mcp_servers": operators()}
    options: Any = {"webhooks": WebhookPolicy(allow_private=True)}
    async with (
        serving(site) as http,
        running_host(
            store=SqliteStore(folder / "host.db"), models=echo_models(), options=options, **settings
        ) as running,
    ):
        shown = await give_all(running, str(http.base_url))
        return shown, found_in(folder)


async def test_no_secret_is_in_the_store_the_log_of_writes_a_reply_an_export_or_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="parley")
    shown, while_running = await use_host(tmp_path)
    assert while_running == []
    assert found_in(tmp_path) == []
    assert [secret for secret in SECRETS if secret in shown] == []
    assert [secret for secret in SECRETS if secret in caplog.text] == []


async def test_the_search_finds_every_secret_that_is_not_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above fails if one of them is forgotten."""
    monkeypatch.setattr(Sealer, "seal", lambda self, text, *place: text)
    await use_host(tmp_path)
    assert found_in(tmp_path) == SECRETS


async def test_a_stolen_store_without_its_key_does_not_open(tmp_path: Path) -> None:
    await use_host(tmp_path)
    (tmp_path / "host.db.key").unlink()
    with pytest.raises(SecretError, match=r"encrypted with key [0-9a-f]{16} \(4 webhooks, 3 records\)"):
        await SqliteStore(tmp_path / "host.db").open()


def test_the_records_with_secrets_are_those_of_the_host_and_of_the_engine() -> None:
    assert set(SECRET_RECORDS) == {keys.REGISTRY_SECRETS, keys.MCP_SERVERS, CREDENTIALS, AUTHORIZATIONS}
