"""`parley card`: what it shows of a card, whoever wrote it; and credentials, which only the named agent gets."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley.cli.commands.card import describe, show_card
from parley.cli.options.client import ClientOptions, agent_url, parse_header, parse_origin
from parley.cli.output.exit_codes import code_of
from parley.cli.output.transcript import console, size_of
from parley.protocol import cards as c
from parley.protocol.errors import LocalProtocolError
from parley.server.security.auth_file import new_token, parse_security
from tests.cli.sampler import parley, sampler_on_a_port
from tests.cli.served import served


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        yield url


def test_a_card_is_shown(url: str) -> None:
    done = parley("card", url)
    assert (done.exit_code, done.stderr) == (0, "")
    assert (
        done.stdout
        == f"""\
Sampler 1.0.0
Does what it hears

  features    streaming, push notifications
  input       text/plain, application/json, */*
  output      */*
  extension   urn:parley:cursor:1
  extension   urn:parley:idempotent-send:1
  extension   urn:parley:authorization-request:1
  extension   urn:parley:webhook-auth:1

Interfaces
→ JSONRPC 1.0    {url}/
  HTTP+JSON 1.0  {url}
  JSONRPC 0.3    {url}/
  HTTP+JSON 0.3  {url}

Skills
  sample  Sample
                Does what it hears.
    example     ask
    tags        test

The card has no problems.
"""
    )


def test_programs_get_the_card_as_1_0_spells_it(url: str) -> None:
    card = json.loads(parley("card", f"{url}/.well-known/agent-card.json", "--json").stdout)
    assert (card["name"], card["supportedInterfaces"][0]["protocolBinding"]) == ("Sampler", "JSONRPC")


def test_the_card_of_an_older_version_can_be_asked_for(url: str) -> None:
    assert f"\n→ JSONRPC 0.1    {url}/\n" in parley("card", url, "--dialect", "0.1").stdout


def test_a_card_that_is_not_for_everybody_is_shown_to_who_may_see_it() -> None:
    class Closed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers["authorization"] == "Bearer sesame"
            self.send_response(200 if is_known else 401)
            self.end_headers()
            face = {"url": f"http://{self.headers['host']}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            card = {"name": "Closed", "description": "", "version": "1", "capabilities": {}, "skills": []}
            modes = {"defaultInputModes": [], "defaultOutputModes": [], "supportedInterfaces": [face]}
            self.wfile.write(json.dumps({**card, **modes}).encode() if is_known else b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        url = f"http://127.0.0.1:{server.server_port}"
        stranger, known = parley("card", url), parley("card", url, "--token", "sesame")
        server.shutdown()
    assert (stranger.exit_code, known.exit_code) == (3, 0)
    assert "answers 401" in stranger.stderr
    assert known.stdout.startswith("Closed 1\n")


def test_an_agent_without_an_extended_card_says_so(url: str) -> None:
    done = parley("card", url, "--extended")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")


def test_everything_that_a_card_may_say_is_shown_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    flow = c.OAuthFlow({"read": "Reads"}, token_url="https://login.example/token")
    card = c.AgentCard(
        "Evil\x1b[2J\nagent",
        "",
        "2",
        (c.AgentInterface("soap://x", "urn:soap", "9.9", "tenant\x9b"),),
        c.AgentCapabilities(extended_card=True, extensions=(c.AgentExtension("urn:x", required=True),)),
        provider=c.AgentProvider("Them", "https://them.example"),
        documentation_url="https://docs.example",
        security_schemes={"oauth": c.OAuth2Scheme(c.OAuthFlows(client_credentials=flow)), "key": c.MutualTlsScheme()},
        security=({"oauth": ("read",), "key": ()}, {}),
        signatures=(c.CardSignature("e30", "AA"),),
    )
    show_card(card, ClientOptions(url="https://x.example"), console())
    assert (
        capsys.readouterr().out
        == """\
Evil␛[2J agent 2

  provider    Them https://them.example
  docs        https://docs.example
  features    extended card
  input       text/plain
  output      text/plain
  extension   urn:x (required)
  signatures  1

Interfaces
  urn:soap 9.9   soap://x  tenant tenant�

Security
  oauth       OAuth 2: client credentials
  key         a client certificate (mutual TLS)
  required    oauth (read) and key, or nothing

Problems
! It lacks description.
! It lists no interface that this client supports or that you asked for.
! It lists no skills.
"""
    )


def test_every_scheme_has_words() -> None:
    assert [
        describe(c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Key")),
        describe(c.HttpAuthScheme("Bearer", "JWT")),
        describe(c.OAuth2Scheme(c.OAuthFlows())),
        describe(c.OpenIdConnectScheme("https://id.example")),
    ] == [
        "API key in the header X-Key",
        "HTTP Bearer (JWT)",
        "OAuth 2: no flow",
        "OpenID Connect at https://id.example",
    ]


# --- whether it is in order -------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "name": "Agent",
    "description": "An agent",
    "version": "1",
    "supportedInterfaces": [{"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "a", "name": "A", "description": "Does A", "tags": []}],
}


@contextmanager
def document(**members: Any) -> Generator[str]:
    """The URL of a server that has the good card with these members."""
    body = json.dumps({name: member for name, member in {**GOOD, **members}.items() if member is not None}).encode()

    class Document(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Document) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def face(url: str) -> dict[str, str]:
    return {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


@pytest.mark.parametrize(
    ("members", "code", "shown"),
    [
        ({}, 0, "The card has no problems.\n"),
        ({"supportedInterfaces": []}, 1, "! It lists no interfaces, so the agent cannot be called.\n"),
        ({"skills": [*GOOD["skills"], *GOOD["skills"]]}, 0, "! More than one skill has the id a.\n"),
        (
            {"securityRequirements": [{"schemes": {"token": {"list": ["read"]}}}]},
            0,
            "Security\n  required    token (read)\n\nProblems\n"
            "! It requires token, and declares no such security scheme.\n",
        ),
        (
            {"supportedInterfaces": [face("http://10.0.0.1/"), face("https://a.example/")]},
            0,
            "Interfaces\n  JSONRPC 1.0    http://10.0.0.1/\n→ JSONRPC 1.0    https://a.example/\n",
        ),
        (
            {"supportedInterfaces": [face("http://10.0.0.1/")]},
            1,
            "! http://10.0.0.1/ is not called: The card points to http://10.0.0.1, which is not encrypted."
            " --allow-private allows it.\n",
        ),
    ],
)
def test_what_is_not_in_order_in_a_card_is_said_below_it(members: dict[str, Any], code: int, shown: str) -> None:
    with document(**members) as url:
        done = parley("card", url)
    assert (done.exit_code, done.stderr) == (code, "")
    assert shown in done.stdout


def test_an_interface_is_called_that_the_caller_allows() -> None:
    with document(supportedInterfaces=[face("http://10.0.0.1/")]) as url:
        done = parley("card", url, "--allow-private")
    assert done.exit_code == 0
    assert "\n→ JSONRPC 1.0    http://10.0.0.1/\n" in done.stdout
    assert done.stdout.endswith("\nThe card has no problems.\n")


def test_programs_are_told_what_is_not_in_order_beside_the_card() -> None:
    with document(skills=[*GOOD["skills"], *GOOD["skills"]]) as url:
        done = parley("card", url, "--json")
    assert json.loads(done.stdout)["name"] == "Agent"
    assert json.loads(done.stderr) == {"problem": "More than one skill has the id a."}


def test_all_that_a_card_lacks_is_told_with_its_place() -> None:
    with document(name=None, version=None, skills=None) as url:
        done = parley("card", url)
    assert (done.exit_code, done.stdout) == (1, "")
    told = " ".join(done.stderr.split())
    assert f"The card at {url}/.well-known/agent-card.json is not valid: " in told
    assert told.endswith("; it lacks name, version, skills.")


# --- credentials ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Generator[tuple[str, str]]:
    """The URL of an agent that demands a token, and the token."""
    secret, entry = new_token("ci", scopes=(), tenant=None, expires=datetime.now(UTC) + timedelta(days=1))
    security = parse_security(f'[schemes.token]\ntype = "bearer"\ntokens = [{entry}]\n')
    with sampler_on_a_port(security=security) as url:
        yield url, secret


def test_a_token_is_an_option_or_a_variable_or_a_header(guarded: tuple[str, str]) -> None:
    url, secret = guarded
    assert parley("send", url, "hi", "--token", secret).stdout == "hi\n"
    assert parley("send", url, "hi", env={"PARLEY_TOKEN": secret}).stdout == "hi\n"
    assert parley("send", url, "hi", "-H", f"Authorization: Bearer {secret}").stdout == "hi\n"


def test_without_a_token_the_cure_is_told_and_no_secret_ever_is(guarded: tuple[str, str]) -> None:
    url, _ = guarded
    cures = {(): "Give credentials with --token or --header", ("--token", "wr0ng"): "refused the credentials"}
    for options, cure in cures.items():
        done = parley("send", url, "hi", *options)
        assert (done.exit_code, cure in done.stderr) == (1, True)
        assert "wr0ng" not in done.stderr


def test_credentials_do_not_go_where_a_card_leads_unless_that_is_trusted(guarded: tuple[str, str]) -> None:
    url, secret = guarded
    elsewhere = url.replace("127.0.0.1", "localhost")
    with sampler_on_a_port(public_url=elsewhere) as leading:
        for options in (("--token", secret), ("-H", f"Authorization: Bearer {secret}")):
            refused = parley("send", leading, "hi", *options)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert parley("send", leading, "hi", *options, "--trust", elsewhere).stdout == "hi\n"


# --- options ----------------------------------------------------------------------------------------------------------


def test_urls_may_lack_their_scheme() -> None:
    assert [
        agent_url(text) for text in ("localhost:8080", "127.0.0.1/x", "[::1]:1", "a.example", "http://a.example")
    ] == [
        "http://localhost:8080",
        "http://127.0.0.1/x",
        "http://[::1]:1",
        "https://a.example",
        "http://a.example",
    ]


def test_headers_and_origins_are_read() -> None:
    assert parse_header("X-Key:  a: b ") == ("x-key", "a: b")
    assert parse_origin("a.example:50051") == "http://a.example:50051"


def test_what_was_wrong_on_this_side_ends_with_two() -> None:
    assert (code_of(OSError("disk full")), code_of(LocalProtocolError("no such thing in 0.1"))) == (2, 2)


def test_grpc_is_asked_for_only_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = parley("card", "https://a.example", "--binding", "grpc")
    assert done.exit_code == 2
    assert "gRPC is not installed. pip install" in done.stderr
    assert ClientOptions(url="https://a.example").bindings == (c.Binding.JSONRPC, c.Binding.HTTP_JSON)


def test_sizes_are_for_people() -> None:
    assert [size_of(count) for count in (0, 999, 2_500, 3_000_000, 10**13)] == [
        "0 bytes",
        "999 bytes",
        "2.5 kB",
        "3.0 MB",
        "10000.0 GB",
    ]


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_an_authority_of_ones_own_is_trusted_if_it_is_named(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server = authority.issue_cert("127.0.0.1")
    server.private_key_pem.write_to_path(tmp_path / "key.pem")
    server.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    (tmp_path / "agent.py").write_text(
        "from parley import Agent\nagent = Agent('E')\n@agent.on_message\nasync def echo(turn):\n    return turn.text\n"
    )
    free = ("--port", "0", "--grpc-port", "off", "--store", "memory:")
    client = ("--cert", str(tmp_path / "cert.pem"), "--key", str(tmp_path / "key.pem"))
    with served("agent.py", *free, "--tls-cert", "cert.pem", "--tls-key", "key.pem", cwd=tmp_path) as serving:
        url = serving.until_ready()
        assert parley("send", url, "hi", "--ca", str(tmp_path / "ca.pem"), *client).stdout == "hi\n"
        assert parley("send", url, "hi").exit_code == 3


@pytest.mark.parametrize("options", [("--ca", "/nowhere"), ("--cert", "/nowhere"), ("--key", "/nowhere")])
def test_files_for_tls_that_cannot_be_used_end_with_two(options: tuple[str, str]) -> None:
    done = parley("card", "https://a.example", *options)
    assert done.exit_code == 2
    assert "--" in done.stderr.split("Invalid value", 1)[1]
