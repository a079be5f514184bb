"""What is said when a server is ready, for apps of every kind."""

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from rich.console import Console

from parley import Agent
from parley.cli import serve
from parley.cli.announcement import Announcement
from parley.server.app import App
from parley.server.auth_file import parse_security
from parley.server.schemes.stored_secrets import hash_secret

PASSWORD = "$scrypt$ln=14,r=8,p=5$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
KEYS = f'keys = [{{ name = "ci", hash = "{hash_secret("k3y")}" }}]'
SCHEMES = {
    f'type = "bearer"\ntokens = [{{ name = "ci", hash = "{hash_secret("t")}" }}]': '-H "Authorization: Bearer $TOKEN"',
    f'type = "api-key"\n{KEYS}': '-H "X-API-Key: $API_KEY"',
    f'type = "api-key"\nin = "cookie"\nparameter = "key"\n{KEYS}': '-b "key=$API_KEY"',
    f'type = "api-key"\nin = "query"\nparameter = "key"\n{KEYS}': '--url-query "key=$API_KEY"',
    f'type = "basic"\nusers = [{{ name = "ada", password = "{PASSWORD}" }}]': '-u "$USER:$PASSWORD"',
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


def announcement(*agents: Agent, **options: Any) -> Announcement:
    security = options.pop("security", None)
    facts: dict[str, Any] = {
        "app": App(*agents, security=security),
        "url": "http://here:1",
        "grpc_target": None,
        "store": "memory:",
        "security": security,
        "certificate": None,
        "is_exposed": False,
        "has_metrics": False,
        **options,
    }
    return Announcement(**facts)


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
    assert "\nCallers must authenticate: only.\n" in shown(ready)


def test_several_agents_share_grpc_and_each_has_a_card() -> None:
    text = shown(announcement(hello(), charts(), grpc_target="here:2", has_metrics=True))
    assert [line for line in text.splitlines() if line.startswith("  ") and "curl" not in line] == [
        "  card       http://here:1/agents/hello/.well-known/agent-card.json",
        "  card       http://here:1/agents/charts/.well-known/agent-card.json",
        "  directory  http://here:1/agents",
        "  JSON-RPC   http://here:1/agents/hello/  (0.1 to 1.0)",
        "  HTTP+JSON  http://here:1/agents/hello/message:send  (1.0), "
        "http://here:1/agents/hello/v1/message:send  (0.3)",
        "  gRPC       here:2  (1.0)",
        "  docs       http://here:1/agents/hello/docs",
        "  OpenAPI    http://here:1/agents/hello/openapi.json",
        "  metrics    http://here:1/metrics",
        "  store      memory:",
    ]


def test_the_message_to_try_is_of_a_kind_that_the_agent_takes() -> None:
    assert message_in(announcement(hello()).curl_line()) == {"parts": [{"text": "Hello"}]}
    assert message_in(announcement(charts()).curl_line(is_stream=True)) == {"parts": [{"data": {}}]}


def test_a_server_that_everybody_reaches_says_so_loudly() -> None:
    assert "\nOpen: EVERYBODY who reaches this machine may call" in shown(announcement(hello(), is_exposed=True))


def test_the_certificate_to_trust_is_in_the_line() -> None:
    words = shlex.split(announcement(hello(), certificate=Path("my cert.pem")).curl_line())
    assert words[words.index("--cacert") + 1] == "my cert.pem"


def test_spans_are_made_where_something_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: trace.ProxyTracerProvider())
    assert serve._tracing() is None
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    assert serve._tracing() is not None
