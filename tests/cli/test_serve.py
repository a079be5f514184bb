"""`parley serve` as people use it: real processes, real ports, what they say and how they end."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
from base64 import b64encode
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest
import trustme
import typer
from joserfc.jwk import ECKey
from typer.testing import CliRunner

from parley import __version__
from parley.cli.commands import token
from parley.cli.main import app
from parley.cli.options.durations import read_duration, read_retention
from parley.cli.options.server import parse_grpc_port
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.signing import load_key, verify_card
from parley.server.security.auth_file import parse_security
from parley.server.security.credentials import PresentedCredentials
from tests.cli.forked import run_each
from tests.cli.served import SECONDS, call, fetch, message, running, served

ECHO = """
from parley import Agent

agent = Agent("Echo", description="Says it's you.")

@agent.skill(examples=["Say it's me"])
async def echo(turn):
    return turn.text

shout = Agent("Shout")

@shout.skill(tags=["loud"], input_modes=["application/json"])
async def shout_it(turn):
    return turn.text.upper()

@shout.skill
async def whisper(turn):
    return turn.text.lower()
"""

FREE = ("--port", "0", "--grpc-port", "off", "--store", "memory:")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path


@pytest.fixture
def taken_port() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def run_curl(line: str, cwd: Path, **variables: str) -> dict[str, object]:
    """What a shell prints for the line."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text_of(reply: dict[str, object]) -> str:
    result = reply["result"]
    return result["task"]["artifacts"][0]["parts"][0]["text"]  # type: ignore[index]


# --- what it says -----------------------------------------------------------------------------------------------------


def test_it_says_where_everything_is_and_the_line_to_try_works(directory: Path) -> None:
    with served("echo:agent", "--port", "0", "--grpc-port", "0", cwd=directory) as command:
        url = command.until_ready()
        text = "\n".join(command.said)
        assert f"Parley {__version__} serves Echo" in text
        assert f"  card       {url}/.well-known/agent-card.json\n  JSON-RPC   {url}/  (0.1 to 1.0)\n" in text
        assert f"  HTTP+JSON  {url}/message:send  (1.0), {url}/v1/message:send  (0.3)\n" in text
        assert "\n  gRPC       127.0.0.1:" in text
        assert text.endswith("\nPress Ctrl+C to stop; unfinished tasks continue at the next start.")
        assert "  store      sqlite:///parley.db\n" in text
        assert "Open to this machine only: no authentication is configured. See --auth." in text
        assert text_of(run_curl(command.curl, directory)) == "Say it's me"
        for page in ("docs", "openapi.json", "metrics"):
            assert fetch(f"{url}/{page}")
        card = json.loads(fetch(f"{url}/.well-known/agent-card.json"))
        assert any(interface["protocolBinding"] == "GRPC" for interface in card["supportedInterfaces"])
        assert command.end() == 0
    assert (directory / "parley.db").exists()
    assert command.logged[-1].endswith("Stopped")


def test_a_card_without_a_description_is_warned_of_with_the_cure(directory: Path) -> None:
    described = (
        'from parley import Agent\nagent = Agent("Told", description="Tells.")\nagent.on_message(lambda turn: "")\n'
    )
    (directory / "described.py").write_text(described)
    with served("described.py", "echo.py:shout", *FREE, cwd=directory) as command:
        command.until_ready()
        line = command.until_logged("has no description")
        assert line.endswith(
            "The card of 'Shout' has no description, by which callers choose an agent. Set one: Agent(\"…\", "
            'description="…"), or Agent.of(…, description="…") for an agent of a framework.'
        )
        assert command.end() == 0
    assert not [other for other in command.logged if "'Told' has no description" in other]


def test_several_agents_each_have_a_place_and_the_line_says_the_skill(directory: Path) -> None:
    with served("echo.py:shout", "echo.py:agent", *FREE, "--no-metrics", cwd=directory) as command:
        command.until_ready()
        text = "\n".join(command.said)
        assert "serves Shout, Echo" in text
        assert "metrics" not in text
        directory_url = next(line.split()[-1] for line in command.said if "directory" in line)
        assert [agent["id"] for agent in json.loads(fetch(directory_url))["agents"]] == ["echo", "shout"]
        assert '"skillId": "shout_it"' in command.curl
        assert "result" in run_curl(command.curl, directory)


def test_a_token_from_parley_token_opens_a_server_with_that_file(directory: Path) -> None:
    options = ("--scope", "write", "--tenant", "acme", "--expires", "1d")
    with (directory / "auth.toml").open("w") as file:
        done = subprocess.run(
            [sys.executable, "-m", "parley.cli.main", "token", "ci", *options],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    token = done.stderr.removesuffix("\n")
    assert token.split() == [token], "standard error is not a terminal, and has the token alone"
    assert token not in (directory / "auth.toml").read_text()

    with served("echo", *FREE, "--host", "0.0.0.0", "--auth", "auth.toml", cwd=directory) as command:
        url = command.until_ready()
        text = "\n".join(command.said)
        assert "Callers must authenticate: token. Credentials are not encrypted" in text
        assert f"  listens on every address of this machine, port {url.rpartition(':')[2]}\n" in text
        assert text.endswith("\nPress Ctrl+C to stop; tasks are lost (--store memory:).")
        assert not any("metrics" in line for line in command.said)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            call(url, "SendMessage", message("hi"))
        assert text_of(run_curl(command.curl, directory, TOKEN=token)) == "Say it's me"


def test_the_card_says_how_webhooks_can_be_authenticated_to(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    (directory / "hooks.toml").write_text("""
[[oauth2]]
hosts = ["hooks.example.com"]
token_url = "https://login.example.com/token"
client_id = "parley"
client_secret = "env:HOOK_SECRET"
""")
    options = ("--webhook-auth", "hooks.toml", "--webhook-challenge", "always")
    with served("echo", *FREE, *options, cwd=directory) as command:
        card = json.loads(fetch(f"{command.until_ready()}/.well-known/agent-card.json"))
        (found,) = [one for one in card["capabilities"]["extensions"] if one["uri"] == WEBHOOK_AUTH]
        assert found["params"] == {"schemes": ["Bearer", "Basic", "ApiKey", "HMAC", "OAuth2"]}


def test_cards_are_signed_and_have_the_public_url(directory: Path) -> None:
    key = ECKey.generate_key("P-256", {"kid": "k-1"})
    (directory / "key.json").write_text(json.dumps(key.as_dict(private=True)))
    (directory / "key.pem").write_bytes(key.as_pem(private=True))
    for file, key_id in (("key.json", "k-1"), ("key.pem", key.thumbprint())):
        options = ("--signing-key", file, "--public-url", "https://a.example/x/")
        with served("echo", *FREE, "--log-format", "json", *options, cwd=directory) as command:
            ready = command.ready_line()
            url = ready["url"]
            facts = {
                name: ready[name] for name in ("message", "grpc", "agents", "public_url", "store", "auth", "metrics")
            }
            assert facts == {
                "message": f"Serving at {url}",
                "grpc": None,
                "agents": ["echo"],
                "public_url": "https://a.example/x/",
                "store": "memory:",
                "auth": [],
                "metrics": True,
            }
            card = json.loads(fetch(f"{url}/.well-known/agent-card.json?A2A-Version=1.0"))
            assert card["supportedInterfaces"][0]["url"].rstrip("/") == "https://a.example/x"
            assert verify_card(card, lambda _: load_key(key.as_dict(private=False))).header.key_id == key_id
            assert command.end() == 0
        assert command.said == []


# --- gRPC that is not installed ---------------------------------------------------------------------------------------

WITHOUT_GRPC = """
import sys

sys.modules["grpc"] = sys.modules["google"] = None
from parley.cli.main import main

main()
"""


def test_grpc_is_served_and_listed_only_where_it_is_asked_for_and_then_must_be_installed(directory: Path) -> None:
    """google-adk refuses a card if any of its interfaces is not an http URL of the card's own origin."""
    command = (sys.executable, "-c", WITHOUT_GRPC, "serve", "echo", "--port", "0", "--store", "memory:")
    with running(*command, cwd=directory) as server:
        url = server.until_ready()
        card = json.loads(fetch(f"{url}/.well-known/agent-card.json"))
        assert {face["url"].rstrip("/") for face in card["supportedInterfaces"]} == {url}
        assert {face["url"].rstrip("/") for face in card["additionalInterfaces"]} == {url}
        assert "  gRPC       off; --grpc-port 50051 serves it" in server.said
        assert text_of(run_curl(server.curl, directory)) == "Say it's me"
        assert server.end() == 0
    with running(*command, "--grpc-port", "0", cwd=directory) as server:
        assert server.ended() == 2
    assert server.logged == ["Error: gRPC is not installed. pip install 'parley-a2a[grpc]', or leave out --grpc-port."]


def test_the_card_names_grpc_where_callers_reach_it(directory: Path) -> None:
    options = ("--port", "0", "--grpc-port", "0", "--store", "memory:", "--public-grpc-url", "https://grpc.example")
    with served("echo", *options, "--cors-origin", "https://a.example", cwd=directory) as command:
        card = json.loads(fetch(f"{command.until_ready()}/.well-known/agent-card.json"))
        assert "  gRPC       https://grpc.example  (0.3 and 1.0)" in command.said
        assert command.end() == 0
    assert "https://grpc.example" in {face["url"] for face in card["supportedInterfaces"]}


# --- certificates -----------------------------------------------------------------------------------------------------


def test_mutual_tls_lets_in_who_shows_a_certificate(directory: Path) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("ada@example.com")
    server.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    server.private_key_pem.write_to_path(directory / "key.pem")
    client.private_key_and_cert_chain_pem.write_to_path(directory / "client.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    tls = ("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem")
    with served("echo", *FREE, *tls, cwd=directory) as command:
        assert command.until_ready().startswith("https://127.0.0.1:")
        line = command.curl.replace("--cacert cert.pem", "--cacert ca.pem")
        assert line != command.curl
        assert text_of(run_curl(f"{line} --cert client.pem", directory)) == "Say it's me"
        refused = subprocess.run(["sh", "-c", line], cwd=directory, capture_output=True, timeout=SECONDS)
        assert (refused.returncode != 0, refused.stdout) == (True, b"")


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_named_with_the_cure(directory: Path, taken_port: int) -> None:
    reason = f"Error: Port {taken_port} on 127.0.0.1 is in use. Stop the program that uses it, or choose another port. "
    http = ["serve", "echo", "--port", str(taken_port), "--grpc-port", "off"]
    grpc = ["serve", "echo", "--port", "0", "--grpc-port", str(taken_port)]
    assert run_each([http, grpc], cwd=directory) == [
        (1, [], [f"{reason}For HTTP: --port 0 picks a free one."]),
        (1, [], [f"{reason}For gRPC: --grpc-port 0 picks a free one."]),
    ]
    assert not (directory / "parley.db").exists()


def test_an_open_server_stays_on_this_machine_unless_told_otherwise(directory: Path) -> None:
    (refused,) = run_each([["serve", "echo", *FREE, "--host", "0.0.0.0"]], cwd=directory)
    assert (refused.code, refused.logged) == (
        2,
        [
            "Error: Every machine that can reach 0.0.0.0 could use the agent, because "
            "no security scheme is configured. "
            "Configure one, listen on 127.0.0.1 only, or allow anonymous callers. See the options --auth FILE, "
            "--host 127.0.0.1, --allow-anonymous."
        ],
    )
    with served("echo", *FREE, "--host", "0.0.0.0", "--allow-anonymous", cwd=directory) as command:
        assert command.until_ready().startswith("http://localhost:")
        assert any(line.startswith("Open: ANYONE who can reach this machine may call") for line in command.said)


MISTAKES = {
    ("nothing:agent",): (2, "There is no module nothing in "),
    ("echo:agent", "echo.py:agent"): (2, "Two agents have the id 'echo'"),
    ("echo", "--store", "redis://x"): (2, "Invalid store: 'redis://x'."),
    ("echo", "--retention", "30d,other=7d"): (2, "--retention: no agent has the id 'other'; there are: echo"),
    ("echo", "--auth", "no.toml"): (2, "Error: no.toml cannot be read: No such file or directory"),
    ("echo", "--auth", "latin.toml"): (2, "Error: latin.toml cannot be read: it is not UTF-8"),
    ("echo", "--host", "nosuch.invalid"): (
        2,
        "Error: Invalid host: nosuch.invalid is not an address of this machine. Use",
    ),
    ("echo", "--signing-key", "no.pem"): (2, "Error: no.pem cannot be read: No such file or directory"),
    ("echo", "--tls-cert", "cert.pem", "--tls-key", "other.pem"): (1, "Error: other.pem is not the key of cert.pem"),
    ("echo", "--auth", "mtls.toml"): (2, "mtls.toml: the scheme cert needs client certificates, which --tls-client-ca"),
    ("echo", "--signing-key", "echo.py"): (2, "echo.py is not a valid signing key: "),
    ("echo", "--signing-key", "public.json"): (2, "public.json holds a public key; signing needs the private one."),
    ("echo", "--tls-cert", "no.pem", "--tls-key", "no.pem"): (1, "no.pem cannot be read: No such file"),
    ("echo", "--webhook-auth", "no.toml"): (2, "Error: no.toml cannot be read: No such file or directory"),
    ("echo", "--webhook-auth", "hooks.toml"): (2, "Error: hooks.toml: oauth2[0].token_url: it is missing"),
    ("echo", "--webhook-auth", "always.toml"): (2, "Error: Webhooks shall always be signed"),
    ("echo", "--audit-log", "no/such/file"): (1, "no/such/file cannot be used: No such file"),
    ("echo", "--store", "sqlite:///no/such.db"): (1, "no/such.db"),
}


def test_mistakes_are_told_in_one_line_each(directory: Path) -> None:
    key = ECKey.generate_key("P-256")
    (directory / "public.json").write_text(json.dumps(key.as_dict(private=False)))
    (directory / "mtls.toml").write_text('[schemes.cert]\ntype = "mtls"\n')
    (directory / "latin.toml").write_bytes(b"\xe9")
    (directory / "hooks.toml").write_text('[[oauth2]]\nhosts = ["hooks.example.com"]\n')
    (directory / "always.toml").write_text('sign = "always"')
    authority = trustme.CA()
    other = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)  # one of the same kind is in test_tls
    authority.issue_cert("127.0.0.1").cert_chain_pems[0].write_to_path(directory / "cert.pem")
    other.private_key_pem.write_to_path(directory / "other.pem")
    options = ("serve", "--port", "0", "--grpc-port", "off", "--store", "memory:")
    commands = run_each([[*options, *arguments] for arguments in MISTAKES], cwd=directory)
    for (arguments, (code, reason)), ended in zip(MISTAKES.items(), commands, strict=True):
        assert (ended.code, ended.said) == (code, []), arguments
        (line,) = ended.logged
        assert (line.startswith("Error: "), reason in line) == (True, True), line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["serve", "x", "--grpc-port", "many"], "Invalid port: 'many'."),
        (["serve", "x", "--port", "70000"], "70000 is too large: the maximum is 65535."),
        (["serve", "x", "--retention", "soon"], "Invalid duration: 'soon'."),
        (["serve", "x", "--retention", "30d,=7d"], "Invalid: '30d,=7d'. Write for example 30d,currency=7d."),
        (["serve", "x", "--retention", "30d,echo=soon"], "Invalid duration: 'soon'."),
        (
            ["serve", "x", "--public-url", "example.com"],
            "Invalid URL: 'example.com'. It must start with http:// or https://.",
        ),
        (["serve", "x", "--tls-cert", "cert.pem"], "TLS needs both files."),
        (["serve", "x", "--trusted-proxy", "proxy.example"], "Invalid address or network: 'proxy.example'."),
        (
            ["serve", "x", "--cors-origin", "foo"],
            "Invalid origin: 'foo'. Write it as https://app.example.com, or * for all.",
        ),
        (["serve", "x", "--cors-origin", "https://a.example/"], "Invalid origin: 'https://a.example/'."),
        (["serve", "x", "--allowed-host", "a.example:80"], "Invalid host name: 'a.example:80'."),
        (["serve", "x", "--public-grpc-url", "a.example:1"], "gRPC is not served. Choose a port with --grpc-port."),
        (["serve", "x", "--grpc-port", "0", "--public-grpc-url", "a.example"], "Invalid host and port: 'a.example'."),
        (
            ["serve", "x", "--grpc-port", "0", "--public-grpc-url", "a.example:0"],
            "Invalid URL: its host or its port is invalid.",
        ),
        (
            ["serve", "x", "--workers", "2", "--store", "memory:"],
            "The store memory: belongs to one process. Several processes need --store sqlite:///file.db or postgresql://…",
        ),
        (["serve", "x", "--workers", "2", "--reload"], "A server that reloads is one process. Leave out --workers."),
        (
            ["serve", "x", "--cluster", "http://u:hush@h", "--store", "postgresql://h/d"],
            "Invalid URL: 'http://u:***@h'. Write nats://host:4222, postgres or none.",
        ),
        (
            ["serve", "x", "--cluster", "nats://127.0.0.1"],
            "The store sqlite:///parley.db belongs to the processes of one machine. Several servers need",
        ),
        (["serve", "x", "--replica", "a b"], "Invalid name: 'a b'."),
        (["serve"], "Error: Missing argument TARGET: the agent to serve, as module:agent."),
        (["token", ""], "The name must not be empty."),
        (["token", "ci", "--scope", "a b"], "Invalid scope: 'a b'. It must be one word."),
        (["token", "ci", "--tenant", ""], "The tenant must not be empty."),
        (["token", "ci", "--expires", "soon"], "Invalid duration: 'soon'."),
        (["password", "a:b"], "A name for Basic authentication must not contain a colon."),
        (["password", "ada"], "A password has 1 to 1,024 characters."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_ends_with_2(arguments: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})
    assert (done.exit_code, reason in done.output) == (2, True), done.output


def test_the_version_and_help_with_examples() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"parley {__version__}\n"
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "80"}).output
    assert "\n    parley serve currency:agent\n" in shown
    assert "--reloader" not in shown
    assert "  --retention TIME    Delete finished tasks after this time: 30d, or\n" in shown


@pytest.mark.parametrize("is_interactive", [False, True], ids=["piped", "asked"])
@pytest.mark.anyio
async def test_a_password_from_parley_password_lets_its_holder_in(
    monkeypatch: pytest.MonkeyPatch, is_interactive: bool
) -> None:
    monkeypatch.setattr(token, "_is_interactive", lambda: is_interactive)
    typed = "correct horse\n" * (2 if is_interactive else 1)
    done = CliRunner().invoke(app, ["password", "ada", "--scope", "write"], input=typed)
    assert (done.exit_code, "correct horse" in done.stdout) == (0, False)
    security = parse_security(done.stdout)
    basic = b64encode(b"ada:correct horse").decode()
    try:
        identity = await security.authenticate(PresentedCredentials({"authorization": f"Basic {basic}"}))
    finally:
        await security.close()
    assert (identity.name, identity.scopes) == ("people:ada", {"write"})


def test_ports_and_times_are_read() -> None:
    assert [parse_grpc_port(text) for text in ("off", "0", "50051")] == [None, 0, 50051]
    assert [read_duration(text, "--retention") for text in ("45s", "90m", "12h", "30d", "2w")] == [
        timedelta(seconds=45),
        timedelta(minutes=90),
        timedelta(hours=12),
        timedelta(days=30),
        timedelta(weeks=2),
    ]
    assert read_retention("30d, currency=7d,trip=12h", "--retention") == (
        timedelta(days=30),
        {"currency": timedelta(days=7), "trip": timedelta(hours=12)},
    )
    assert read_retention("", "--retention") == (None, {})
    for text in ("30d,7d", "a=1d,a=2d", "a=", "30d,"):
        with pytest.raises(typer.BadParameter):
            read_retention(text, "--retention")
    for text in ("0d", "-1d", "d", "1y", "1000000000d"):
        with pytest.raises(typer.BadParameter):
            read_duration(text, "--retention")


def test_help_and_a_server_import_nothing_that_they_do_not_need(directory: Path) -> None:
    """Neither gRPC nor the clients of PostgreSQL and NATS, which may not be installed; and help nothing slow."""
    (directory / "watched.py").write_text(
        f"{ECHO}\nimport sys\n\n@agent.skill\nasync def modules(turn):\n"
        "    return str([name for name in ('grpc', 'asyncpg', 'nats') if name in sys.modules])\n"
    )
    slow = {"grpc", "asyncpg", "nats", "cryptography", "joserfc", "httpx2", "parley.client.client"}
    script = f"import sys\nfrom parley.cli import main\nprint({slow} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "set()\n"
    options = ("--port", "0", "--store", "sqlite:///tasks.db")
    with served("watched:agent", *options, cwd=directory) as command:
        params = {**message("which?"), "metadata": {"skillId": "modules"}}
        params["message"]["metadata"] = {"skillId": "modules"}
        task = call(command.until_ready(), "SendMessage", params)["result"]["task"]
    assert task["artifacts"][0]["parts"][0]["text"] == "[]"


# --- reload -----------------------------------------------------------------------------------------------------------


def test_reload_starts_again_when_a_file_changes_and_survives_a_mistake(directory: Path) -> None:
    file = directory / "echo.py"
    (directory / "parley.toml").write_text(
        '[serve]\ntargets = ["echo:agent"]\nreload = true\ngrpc-port = 0\nport = 0\n'
    )
    with served(cwd=directory) as command:
        url = command.until_ready()
        assert text_of(call(url, "SendMessage", message("one"))) == "one"

        rewrite(file, "syntax error")
        command.until_logged("The server ended with an error. It restarts when a file changes.")
        rewrite(file, ECHO.replace("return turn.text\n", "return turn.text[::-1]\n", 1))
        command.until_said(f"Serving again at {url}")
        assert text_of(call(url, "SendMessage", message("abc", "m-2"))) == "cba"
        assert command.end() == 0


def test_the_reloader_speaks_json_where_its_server_does(directory: Path) -> None:
    with served("echo", *FREE, "--reload", "--log-format", "json", cwd=directory) as command:
        url = command.ready_line()["url"]
        rewrite(directory / "echo.py", ECHO)
        assert json.loads(command.until_logged("has changed"))["level"] == "info"
        assert command.ready_line()["url"] == url
        assert command.end() == 0
    assert command.said == []
    assert all(json.loads(line) for line in command.logged)


def test_a_reloader_that_is_killed_takes_its_server_along(directory: Path) -> None:
    with served("echo", *FREE, "--reload", cwd=directory) as command:
        url = command.until_ready()
        command.process.kill()
        command.until_logged("Stopped")
        with pytest.raises(urllib.error.URLError):
            fetch(f"{url}/healthz")


def rewrite(file: Path, text: str) -> None:
    """Write a file so that its time differs, however coarse the file system's clock is."""
    before = file.stat().st_mtime_ns
    file.write_text(text)
    os.utime(file, ns=(before + 2_000_000_000, before + 2_000_000_000))


def test_ctrl_c_ends_it_with_0(directory: Path) -> None:
    with served("echo", *FREE, cwd=directory) as command:
        command.until_ready()
        command.process.send_signal(signal.SIGINT)
        assert command.ended() == 0


SLOW = """
import asyncio

from parley import Agent

agent = Agent("Slow")

@agent.on_message
async def wait(turn):
    await asyncio.Event().wait()
"""


def test_ctrl_c_says_what_it_waits_for_and_a_second_one_does_not_wait(directory: Path) -> None:
    (directory / "slow.py").write_text(SLOW)
    at_once = {**message("go"), "configuration": {"returnImmediately": True}}
    options = ("--port", "0", "--grpc-port", "off", "--log-level", "warning")
    with served("slow", *options, cwd=directory) as command:
        call(command.until_ready(), "SendMessage", at_once)
        command.process.send_signal(signal.SIGINT)
        command.until_logged("Finishing 1 run, up to 10 s; press Ctrl+C again to stop now.")
        command.process.send_signal(signal.SIGINT)
        assert command.ended() == -signal.SIGINT
    with served("slow", *options, "--drain-seconds", "0", cwd=directory) as command:
        url = command.until_ready()  # and the first run is under way again
        call(url, "SendMessage", {**at_once, "message": {**at_once["message"], "messageId": "m-2"}})
        command.process.send_signal(signal.SIGINT)
        command.until_logged("Interrupting 2 runs; unfinished tasks continue at the next start.")
        assert command.ended() == 0
    with served("slow", *FREE, "--drain-seconds", "0", "--log-format", "json", cwd=directory) as command:
        call(command.ready_line()["url"], "SendMessage", at_once)
        command.process.send_signal(signal.SIGTERM)
        line = json.loads(command.until_logged("Interrupting"))
        assert line["message"] == "Interrupting 1 run; tasks are lost (--store memory:)."
        assert command.ended() == 0


BUSY = """
import threading

from parley import Agent

agent = Agent("Busy")

@agent.on_message
def work(turn):
    turn.wait(turn.status("at work"))
    if turn.text == "step":
        turn.wait(turn.step("wait", threading.Event().wait))
    threading.Event().wait()
"""


def test_a_plain_handler_or_step_that_is_busy_in_its_thread_does_not_keep_the_process(directory: Path) -> None:
    (directory / "busy.py").write_text(BUSY)
    with served("busy", *FREE, "--drain-seconds", "0", cwd=directory) as command:
        url = command.until_ready()
        for text in ("handler", "step"):
            sent = message(text)
            sent["message"]["messageId"] = text
            task = call(url, "SendMessage", {**sent, "configuration": {"returnImmediately": True}})["result"]["task"]
            while "message" not in task["status"]:
                task = call(url, "GetTask", {"id": task["id"]})["result"]
        command.process.send_signal(signal.SIGTERM)
        assert command.ended() == 0
