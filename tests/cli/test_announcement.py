"""What is said when a server is ready, for apps of every kind."""

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from rich.console import Console

from parley import Agent
from parley.cli.options import server as serving
from parley.cli.serving.announcement import Announcement
from parley.server.app import App
from parley.server.run import Bound
from parley.server.security.auth_file import parse_security
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import hash_secret

PASSWORD = "$scrypt$ln=14,r=8,p=5$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
KEYS = f'keys = [{{ name = "ci", hash = "{hash_secret("k3y")}" }}]'
SCHEMES = {
    f'type = "bearer"\ntokens = [{{ name = "ci", hash = "{hash_secret("t")}" }}]': '-H "Authorization: Bearer $TOKEN"',
    f'type = "api-key"\n{KEYS}': '-H "X-API-Key: $API_KEY"',
    f'type = "api-key"\nin = "cookie"\nparameter = "key"\n{KEYS}': '-b "key=$API_KEY"',
    f'type = "api-key"\nin = "query"\nparameter = "key"\n{KEYS}': '--url-query "key=$API_KEY"',
    f'type = "basic"\nusers = [{{ name = "ada", password = "{PASSWORD}" }}]': '-u "$USERNAME:$PASSWORD"',
    'type = "mtls"': '--cert "$CLIENT_CERT" --key "$CLIENT_KEY"',
}


def hello() -> Agent:
    agent = Agent("Hello")
    agent.on_message(lambda turn: turn.text)
    return agent


def charts() -> Agent:
    agent = Agent("Charts", input_modes=["application/json"])
    agent.skill(lambda turn: "drawn", id="draw", name="Draw")
    return agent


def announcement(
    *agents: Agent,
    url: str = "http://here:1",
    grpc: str | None = None,
    security: Security | None = None,
    has_metrics: bool = False,
    **options: Any,
) -> Announcement:
    server = serving.server_options(**{"grpc_port": "off", **options})
    app = App(*agents, security=security)
    return Announcement(app, Bound(url, grpc), server, "memory:", "all is lost", security, has_metrics)


def with_tls(certificate: str) -> dict[str, Any]:
    return {"tls_cert": Path(certificate), "tls_key": Path("key.pem")}


def shown(announcement: Announcement) -> str:
    text = io.StringIO()
    announcement.show(Console(file=text, highlight=False, width=40))
    return text.getvalue()


def message_in(line: str) -> Any:
    words = shlex.split(line)
    message = json.loads(words[words.index("-d") + 1])["params"]["message"]
    assert (message.pop("role"), len(message.pop("messageId"))) == ("ROLE_USER", 8)
    return message


@pytest.mark.parametrize(("table", "words"), SCHEMES.items(), ids=SCHEMES.values())
def test_the_line_to_try_has_a_place_for_the_credentials(table: str, words: str) -> None:
    security = parse_security(f"[schemes.only]\n{table}\n")
    ready = announcement(hello(), security=security)
    assert ready.curl_line().endswith(f"' {words}")
    text = shown(ready)
    assert "\nCallers must authenticate: only.\n" in text
    variables = " ".join(f"{name}=…" for name in re.findall(r"\$(\w+)", words))
    assert f"\nTry it, after export {variables}:\n" in text


def places(announcement: Announcement) -> list[str]:
    lines = shown(announcement).splitlines()
    return [line for line in lines if line.startswith("  ") and not line.startswith(("  curl ", "  parley "))]


def places_of(base: str) -> list[str]:
    return [
        f"  card       {base}/.well-known/agent-card.json",
        f"  JSON-RPC   {base}/  (0.1 to 1.0)",
        f"  HTTP+JSON  {base}/message:send  (1.0), {base}/v1/message:send  (0.3)",
        f"  docs       {base}/docs",
        f"  OpenAPI    {base}/openapi.json",
    ]


def test_several_agents_share_grpc_and_each_has_its_places() -> None:
    assert places(announcement(hello(), charts(), grpc="here:2", has_metrics=True)) == [
        *places_of("http://here:1/agents/hello"),
        *places_of("http://here:1/agents/charts"),
        "  directory  http://here:1/agents",
        "  gRPC       here:2  (1.0)",
        "  metrics    http://here:1/metrics",
        "  store      memory:",
    ]


def test_a_server_behind_a_public_url_says_where_it_is_from_here_too() -> None:
    grpc: dict[str, Any] = {"grpc": "here:2", "grpc_port": "2", "public_grpc_url": "a.example:443"}
    ready = announcement(hello(), public_url="https://a.example/x", **with_tls("cert.pem"), **grpc)
    assert places(ready) == [
        *places_of("https://a.example/x"),
        "  gRPC       a.example:443  (0.3 and 1.0)",
        "  store      memory:",
        "  local      http://here:1, gRPC here:2",
    ]
    text = shown(ready)
    assert "Try it:\n\n  curl -sS https://a.example/x/ -H 'Content-Type: application/json' -d" in text
    assert (
        "Or from this machine:\n\n  curl -sS http://here:1/ -H 'Content-Type: application/json' --cacert cert.pem"
        in text
    )


def test_a_server_at_every_address_without_grpc_says_so() -> None:
    ready = announcement(hello(), host="0.0.0.0", grpc_port=None)
    assert places(ready) == [
        *places_of("http://here:1"),
        "  gRPC       off; --grpc-port 50051 serves it",
        "  store      memory:",
        "  listens on every address of this machine, port 1",
    ]


def test_credentials_without_tls_are_warned_about_unless_a_proxy_does_it() -> None:
    security = parse_security(f"[schemes.only]\n{next(iter(SCHEMES))}\n")
    clear = "Credentials are not encrypted"
    kinds: list[tuple[dict[str, Any], bool]] = [
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "public_url": "http://a.example"}, True),
        ({"host": "0.0.0.0", "public_url": "https://a.example"}, False),
        ({"host": "0.0.0.0", **with_tls("cert.pem")}, False),
        ({}, False),
    ]
    for options, warns in kinds:
        assert (clear in shown(announcement(hello(), security=security, **options))) == warns, options


def test_the_last_line_says_what_becomes_of_tasks() -> None:
    assert shown(announcement(hello())).splitlines()[-1] == "Press Ctrl+C to stop; all is lost."


def test_the_message_to_try_is_of_a_kind_that_the_agent_takes() -> None:
    assert message_in(announcement(hello()).curl_line()) == {"parts": [{"text": "Hello"}]}
    assert message_in(announcement(charts()).curl_line(is_stream=True)) == {"parts": [{"data": {}}]}


def test_a_server_that_everybody_reaches_says_so_loudly() -> None:
    assert "\nOpen: ANYONE who can reach this machine may call" in shown(announcement(hello(), host="0.0.0.0"))


def test_the_certificate_to_trust_is_in_the_line() -> None:
    words = shlex.split(announcement(hello(), **with_tls("my cert.pem")).curl_line())
    assert words[words.index("--cacert") + 1] == "my cert.pem"


def test_spans_are_made_where_something_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: trace.ProxyTracerProvider())
    assert serving._tracing() is None
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    assert serving._tracing() is not None


def test_it_says_how_to_talk_to_the_first_agent() -> None:
    assert "Talk to it:\n\n  parley chat http://here:1\n" in shown(announcement(hello()))
    assert "parley chat http://here:1/agents/hello\n" in shown(announcement(hello(), charts()))
    behind_tls = announcement(hello(), url="https://here:1", **with_tls("my cert.pem"))
    assert "parley chat https://here:1 --ca 'my cert.pem'\n" in shown(behind_tls)


def test_who_must_authenticate_logs_in_first() -> None:
    security = parse_security("[schemes.one]\n" + next(iter(SCHEMES)))
    assert "Talk to it, after parley login with the same URL:\n" in shown(announcement(hello(), security=security))
