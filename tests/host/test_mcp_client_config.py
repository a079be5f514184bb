"""`mcp_servers.json`: what it may hold, where its secrets come from, and how its faults are told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from parley.host.mcp.config import McpConfigError, McpServers, load_mcp_servers, read_mcp_servers
from parley.host.mcp.http_transport import McpHttpTransport
from parley.host.mcp.link import McpLink
from parley.host.mcp.server_config import McpProcess, McpServerConfig, McpUrl
from parley.host.mcp.tools import read_tools
from tests.host.mcp_fixtures.behaviour import tool

ENVIRONMENT = {"TOKEN": "t0ken-of-the-operator", "EMPTY": ""}


def read(document: Any) -> McpServers:
    return read_mcp_servers(json.dumps(document).encode(), ENVIRONMENT)


def test_a_credential_is_removed_from_texts_with_its_scheme_and_without() -> None:
    server = {"url": "https://search.example/mcp", "headers": {"authorization": "Bearer s3cret-key"}}
    read = read_mcp_servers(json.dumps({"servers": {"search": server}}).encode(), {})
    assert read.servers["search"].redact("Bearer s3cret-key, or s3cret-key") == "…, or …"


def test_a_secret_that_looks_like_json_costs_one_tool_and_not_the_list() -> None:
    config = McpServerConfig("s", McpUrl("https://s.example"), secrets=('"title":',))
    found = read_tools(config, [tool("bad", {"type": "object", "title": "x"}), tool("good")])
    assert ([*found.tools], [one.name for one in found.rejected]) == (["good"], ["bad"])


def test_servers_are_read_with_their_secrets() -> None:
    servers = read(
        {
            "servers": {
                "files": {"command": "files", "args": ["--key=${TOKEN}"], "env": {"A": "${TOKEN}"}, "cwd": "/srv"},
                "web": {
                    "url": "https://web.example/mcp",
                    "headers": {"authorization": "Bearer ${TOKEN}"},
                    "tools": ["a*"],
                },
                "off": {"command": "x", "enabled": False},
            },
            "tenants": {"acme": {"servers": {"web": {"url": "https://acme.example/mcp", "identity": True}}}},
            "allow_private_hosts": ["127.0.0.1"],
            "allow_private_hosts_of_tenants": [".corp.example"],
        }
    )
    secret = ENVIRONMENT["TOKEN"]
    files, web = servers.servers["files"], servers.servers["web"]
    assert files.endpoint == McpProcess("files", (f"--key={secret}",), (("A", secret),), "/srv")
    assert web.endpoint == McpUrl("https://web.example/mcp", (("authorization", f"Bearer {secret}"),), ("127.0.0.1",))
    assert (web.offers("abc"), web.offers("b")) == (True, False)
    assert secret not in repr(servers)
    assert files.redact(f"key {secret}!") == "key …!"
    assert [one.passes_identity for one in servers.of("1", "acme").values()] == [False, True]
    assert list(servers.of("2", "globex")) == ["files", "web"]
    assert servers.of("2", "1") == servers.servers  # a name that is a number is not another tenant's id


PAGE = "https://x.example"


@pytest.mark.parametrize(
    ("server", "error"),
    [
        ({}, ": A server has either a command or a url"),
        ({"command": "x", "url": PAGE}, ": A server has either a command or a url"),
        ({"command": "x", "headers": {"a": "b"}}, ".headers: Only a server with a url has headers"),
        ({"url": PAGE, "args": ["b"]}, ".args: Only a server with a command has this"),
        ({"url": "ftp://x"}, ".url: "),
        ({"command": "x", "args": ["-v", "${NONE}"]}, ".args[1]: The environment variable NONE is not set"),
        ({"command": "x", "env": {"K": "${EMPTY}"}}, ".env.K: The environment variable EMPTY is not set"),
        ({"command": "x", "env": {"K": "${no name}"}}, ".env.K: A placeholder is written ${NAME}"),
        ({"command": "x", "env": {"A=B": "c"}}, ".env.A=B: This cannot be an environment variable"),
        ({"url": PAGE, "headers": {"K": "${NONE}"}}, ".headers.K: The environment variable NONE is not set"),
        ({"url": PAGE, "headers": {"Host": "k"}}, ".headers.Host: This header is set by the protocol"),
        ({"url": PAGE, "headers": {"K": "a\nb"}}, ".headers.K: The value of a header must be printable"),
        ({"command": "x", "timeout_seconds": 0}, ".timeout_seconds: "),
        ({"command": "x", "max_result_bytes": 10**9}, ".max_result_bytes: "),
        ({"command": "x", "typo": 1}, ": Object contains unknown field `typo`"),
        ({"command": 5}, ".command: Expected `str | null`, got `int`"),
    ],
)
def test_the_fault_of_a_server_is_named_with_its_path(server: Any, error: str) -> None:
    for document, path in (
        ({"servers": {"a": server}}, "$.servers.a"),
        ({"tenants": {"acme": {"servers": {"a": server}}}}, "$.tenants.acme.servers.a"),
    ):
        with pytest.raises(McpConfigError) as found:
            read(document)
        assert found.value.message.startswith(f"{path}{error}"), found.value.message


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"servers": {"a b": {"command": "x"}}}, "$.servers.a b: A name has 1 to 64 letters"),
        ({"allow_private_hosts": ["127.1"]}, "$.allow_private_hosts[0]: This is not a host"),
        ([], "$: "),
    ],
)
def test_the_fault_of_a_document_is_named_with_its_path(document: Any, error: str) -> None:
    with pytest.raises(McpConfigError) as found:
        read(document)
    assert found.value.message.startswith(error), found.value.message


def test_a_file_that_is_named_must_exist_and_the_usual_one_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_mcp_servers() == McpServers()
    with pytest.raises(McpConfigError, match=r"There is no file servers\.json"):
        load_mcp_servers(tmp_path / "servers.json")


def test_servers_without_the_extra_are_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert read({"servers": {}}) == McpServers()
    with pytest.raises(McpConfigError) as found:
        read({"servers": {"a": {"command": "x"}}})
    assert found.value.message.endswith("pip install 'parley-a2a[mcp]'")


def test_a_host_does_not_import_the_sdk_before_a_server_is_used() -> None:
    code = "import sys, parley.host.host, parley.host.api.table; print(sorted({'mcp', 'mcp_types'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.anyio
async def test_a_public_name_with_a_private_address_is_not_called() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    url = McpUrl("https://rebinding.example/mcp")
    link = McpLink()
    transport = McpHttpTransport(McpServerConfig("x", url), url, link, resolve=resolve)
    async with httpx2.AsyncClient(transport=transport) as client:
        reply = await client.post(url.url, json={"id": 1})
    assert reply.status_code == 502
    assert reply.json()["error"]["message"] == "rebinding.example has an address that is not public"
    assert link.reason == "rebinding.example has an address that is not public"
