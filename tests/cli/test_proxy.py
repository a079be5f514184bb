"""`parley proxy` as people use it: real processes, real ports, what they say and how they end."""

from __future__ import annotations

import json
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import trustme
from joserfc.jwk import ECKey
from typer.testing import CliRunner

from parley.cli.main import app
from parley.protocol.signing import load_key, verify_card
from parley.server.security.schemes.stored_secrets import hash_secret
from tests.cli.served import SECONDS, Served, call, fetch, message, running, served

ECHO = """
from parley import Agent

agent = Agent("Echo", description="Says it's you.")

@agent.skill
async def echo(turn):
    return turn.text
"""

FREE = ("--port", "0", "--grpc-port", "0")


@pytest.fixture
def agent(tmp_path: Path) -> Generator[str]:
    """The URL of an agent."""
    (tmp_path / "echo.py").write_text(ECHO)
    with served("echo.py:agent", "--port", "0", "--grpc-port", "off", "--store", "memory:", cwd=tmp_path) as server:
        yield server.until_ready()


@contextmanager
def proxying(*arguments: str, cwd: Path) -> Generator[Served]:
    with running(sys.executable, "-m", "parley.cli.main", "proxy", *arguments, cwd=cwd) as command:
        yield command


def test_an_agent_is_put_behind_every_binding_and_what_is_said_is_shown(agent: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    with proxying(agent, "--dialect", "0.3", *FREE, "--trace", "--trace-file", str(file), cwd=tmp_path) as proxy:
        url = proxy.until_ready()
        reply = call(url, "SendMessage", message("hello"))
        assert reply["result"]["task"]["artifacts"][0]["parts"] == [{"text": "hello"}]
        proxy.until_said("proxy → caller")
        assert proxy.end() == 0
    said = "\n".join(proxy.said)
    assert f"Parley serves Echo ({agent}, A2A 0.3 over JSONRPC) in every version and binding:" in said
    assert "Open: anyone who can reach the proxy may call the agent." in said
    assert "  gRPC       127.0.0.1:" in said
    assert "proxy → agent   request  A2A 0.3 JSONRPC  message/send" in said
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["direction"] for line in lines] == [
        "caller → proxy",
        "proxy → agent",
        "agent → proxy",
        "proxy → caller",
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_door_of_its_own(agent: str, tmp_path: Path) -> None:
    secret = "alice-token-0123456789abcdef"
    hashed = hash_secret(secret)
    entry = f'[schemes.token]\ntype = "bearer"\ntokens = [{{ name = "alice", hash = "{hashed}" }}]\n'
    (tmp_path / "auth.toml").write_text(entry)
    with proxying(agent, *FREE, "--auth", "auth.toml", "--header", "X-Team: red", cwd=tmp_path) as proxy:
        url = proxy.until_ready()
        assert "Callers must authenticate at the proxy (--auth)." in proxy.said
        with pytest.raises(urllib.error.HTTPError, match="401"):
            call(url, "SendMessage", message("hello"))
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("hello")}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {secret}"}
        with urllib.request.urlopen(urllib.request.Request(f"{url}/", body, headers), timeout=SECONDS) as reply:
            assert json.load(reply)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert proxy.end() == 0


def test_callers_credentials_are_handed_on_to_an_agent_that_asks_for_some(tmp_path: Path) -> None:
    hashed = hash_secret("alice-token-0123456789abcdef")
    entry = f'[schemes.token]\ntype = "bearer"\ntokens = [{{ name = "alice", hash = "{hashed}" }}]\n'
    (tmp_path / "auth.toml").write_text(entry)
    (tmp_path / "echo.py").write_text(ECHO)
    options = ("--port", "0", "--grpc-port", "off", "--store", "memory:", "--auth", "auth.toml")
    with (
        served("echo.py:agent", *options, cwd=tmp_path) as server,
        proxying(server.until_ready(), "--port", "0", "--grpc-port", "off", cwd=tmp_path) as proxy,
    ):
        proxy.until_ready()
        assert "The proxy forwards callers' credentials to the agent: token." in proxy.said
        assert proxy.end() == 0


def test_an_agent_with_mutual_tls_sees_the_proxys_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("proxy@example.com")
    server.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    server.private_key_pem.write_to_path(tmp_path / "key.pem")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "echo.py").write_text(ECHO)
    tls = ("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem")
    options = ("--port", "0", "--grpc-port", "off", "--store", "memory:")
    with (
        served("echo.py:agent", *options, *tls, cwd=tmp_path) as agent,
        proxying(agent.until_ready(), *FREE, "--ca", "ca.pem", "--cert", "client.pem", cwd=tmp_path) as proxy,
    ):
        reply = call(proxy.until_ready(), "SendMessage", message("hello"))
        assert reply["result"]["task"]["artifacts"][0]["parts"] == [{"text": "hello"}]
        assert "Open: anyone who can reach the proxy may call the agent." in proxy.said
        assert proxy.end() == 0


def test_it_has_what_every_server_has(agent: str, tmp_path: Path) -> None:
    """A signed card with public addresses, metrics, a log for machines, and a guard against web pages."""
    key = ECKey.generate_key("P-256")
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True))
    public = ("--public-url", "https://a.example/x", "--public-grpc-url", "grpc.example:443")
    files = ("--signing-key", "key.pem", "--ledger", "ledger.jsonl")
    names = ("--webhook-url", "http://hooks.example:8080", "--allowed-host", "b.example")
    with proxying(agent, *FREE, *public, *files, *names, "--log-format", "json", cwd=tmp_path) as proxy:
        url = json.loads(proxy.until_logged("Serving at"))["url"]
        card = json.loads(fetch(f"{url}/.well-known/agent-card.json?A2A-Version=1.0"))
        assert {face["url"] for face in card["supportedInterfaces"]} == {
            "https://a.example/x/",
            "https://a.example/x",
            "grpc.example:443",
        }
        verify_card(card, lambda _: load_key(key.as_dict(private=False)))
        call(url, "SendMessage", message("hello"))
        assert b"parley_" in fetch(f"{url}/metrics")
        answers = [
            httpx2.post(url, json={}, headers={"Host": host}).status_code
            for host in ("a.example", "b.example", "hooks.example", "evil.example")
        ]
        assert answers == [200, 200, 200, 421]
        assert httpx2.post(url, json={}, headers={"Origin": "https://evil.example"}).status_code == 403
        assert proxy.end() == 0
    assert proxy.said == []
    (entry,) = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert json.loads(entry)["kind"] == "task"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ftp://x"], 2, "Invalid URL"),
        (["localhost:1", "--grpc-port", "many"], 2, "Invalid port"),
        (["localhost:1", "--tls-cert", "cert.pem"], 2, "TLS needs both files"),
        (["localhost:1", "--grpc-port", "off"], 3, "No connection"),
        (["localhost:1", "--auth", "absent.toml"], 2, "absent.toml"),
        (["localhost:1", "--signing-key", "absent.pem"], 2, "absent.pem"),
        (["localhost:1", "--webhook-auth", "absent.toml"], 2, "absent.toml"),
        (["localhost:1", "--public-url", "a.example"], 2, "Invalid URL"),
        (["localhost:1", "--webhook-url", "a.example"], 2, "Invalid URL"),
        (["localhost:1", "--ledger", "absent/ledger"], 1, "absent/ledger cannot be used"),
        (["localhost:1", "--trace-file", "absent/trace"], 1, "absent/trace cannot be used"),
    ],
    ids=["url", "port", "tls", "nobody", "auth", "key", "webhook-auth", "public", "webhook", "ledger", "trace"],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], code: int, words: str) -> None:
    done = CliRunner().invoke(app, ["proxy", *arguments])
    assert (done.exit_code, words in done.output, "Traceback" in done.output) == (code, True, False), done.output


def test_what_cannot_be_served_is_told(agent: str) -> None:
    done = CliRunner().invoke(app, ["proxy", agent, "--host", "0.0.0.0", "--grpc-port", "off"])
    assert (done.exit_code, "--allow-anonymous" in done.output) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["proxy", agent, "--port", port, "--grpc-port", "off"])
    assert (done.exit_code, "in use" in done.output) == (1, True)
    files = ["--tls-cert", "absent.pem", "--tls-key", "absent.key"]
    done = CliRunner().invoke(app, ["proxy", agent, *files, "--port", "0", "--grpc-port", "off"])
    assert (done.exit_code, "absent" in done.output, "Traceback" in done.output) == (1, True, False), done.output


def test_ports_that_are_taken_are_told_at_once(agent: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        http, grpc = (str(taken.getsockname()[1]) for taken in (one, other))
        done = CliRunner().invoke(app, ["proxy", agent, "--port", http, "--grpc-port", grpc])
    assert done.exit_code == 1
    for words in (f"Port {http} on", "--port 0", f"Port {grpc} on", "--grpc-port 0"):
        assert words in done.output


def test_the_operator_hears_once_that_the_agent_refuses_the_proxys_own_credentials(tmp_path: Path) -> None:
    hashed = hash_secret("alice-token-0123456789abcdef")
    entry = f'[schemes.token]\ntype = "bearer"\ntokens = [{{ name = "alice", hash = "{hashed}" }}]\n'
    (tmp_path / "auth.toml").write_text(entry)
    (tmp_path / "echo.py").write_text(ECHO)
    options = ("--port", "0", "--grpc-port", "off", "--store", "memory:", "--auth", "auth.toml")
    wrong = ("--port", "0", "--grpc-port", "off", "--token", "wrong")
    with (
        served("echo.py:agent", *options, cwd=tmp_path) as server,
        proxying(server.until_ready(), *wrong, cwd=tmp_path) as proxy,
    ):
        url = proxy.until_ready()
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError, match="503"):
                fetch(f"{url}/v1/tasks/unknown")
        assert proxy.end() == 0
    (line,) = [line for line in proxy.logged if "own credentials" in line]
    assert "The agent refuses the proxy's own credentials; callers get status 503 until this is fixed" in line


def test_a_trace_can_have_one_line_for_each_message(agent: str, tmp_path: Path) -> None:
    with proxying(agent, "--dialect", "0.3", *FREE, "--trace-lines", cwd=tmp_path) as proxy:
        call(proxy.until_ready(), "SendMessage", message("hello"))
        proxy.until_said("proxy → caller")
        assert proxy.end() == 0
    lines = [line for line in proxy.said if "  #" in line]
    assert [line[14:] for line in lines[:2]] == [
        '#1  caller → proxy  request  A2A 1.0 JSONRPC  SendMessage  "hello"',
        '#1  proxy → agent   request  A2A 0.3 JSONRPC  message/send  "hello"',
    ]
    assert ["completed" in lines[2], "TASK_STATE_COMPLETED" in lines[3], len(lines)] == [True, True, 4]


def test_its_help_tells_how_a_server_ends() -> None:
    help_text = CliRunner().invoke(app, ["proxy", "--help"]).output
    assert ("0    stopped by a signal" in help_text, "waits for input" in help_text) == (True, False)


def test_grpc_that_is_not_installed_is_told_only_to_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.cli.options.server.GRPC_MODULES", ("there_is_no_such_module",))
    done = CliRunner().invoke(app, ["proxy", "localhost:1", "--grpc-port", "0"])
    assert (done.exit_code, "gRPC is not installed" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["proxy", "localhost:1"])
    assert (done.exit_code, "No connection" in done.output) == (3, True)
