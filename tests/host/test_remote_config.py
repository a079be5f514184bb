"""`a2a_agents.json`: which remote agents a host and its tenants may call."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.host.remote.config import (
    RemoteAgentConfig,
    RemoteAgents,
    RemoteConfigError,
    load_remote_agents,
    read_remote_agents,
)

URL = "https://agents.example/a2a"


def read(environment: dict[str, str] | None = None, **members: Any) -> RemoteAgents:
    return read_remote_agents(json.dumps(members).encode(), environment or {})


def test_a_file_lists_agents_with_their_tokens_and_options(tmp_path: Path) -> None:
    file = tmp_path / "a2a_agents.json"
    full = {"url": URL, "auth": {"type": "bearer", "token": "t1", "token_env": "TOKEN"}, "timeout_seconds": 5}
    named = {"url": URL, "auth": {"token_env": "TOKEN"}, "description": "Knows"}
    off = {"url": URL, "enabled": False}
    file.write_text(json.dumps({"agents": {"full": full, "named": named, "plain": {"url": URL}, "off": off}}))
    agents = load_remote_agents(file, environment={"TOKEN": "t2"})
    assert agents.of("1", "acme") == {
        "full": RemoteAgentConfig("full", URL, "t1", 5),
        "named": RemoteAgentConfig("named", URL, "t2", description="Knows"),
        "plain": RemoteAgentConfig("plain", URL),
    }
    assert "t1" not in repr(agents)


def test_without_a_file_there_are_no_remote_agents(tmp_path: Path) -> None:
    assert load_remote_agents(tmp_path / "a2a_agents.json") == RemoteAgents()


def test_the_default_file_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".parley").mkdir()
    (tmp_path / ".parley" / "a2a_agents.json").write_text(json.dumps({"agents": {"one": {"url": URL}}}))
    assert list(load_remote_agents().agents) == ["one"]


def test_an_agent_whose_variable_is_not_set_is_kept_without_a_token(caplog: pytest.LogCaptureFixture) -> None:
    agents = read({"EMPTY": ""}, agents={"one": {"url": URL, "auth": {"token_env": "EMPTY"}}})
    assert agents.agents["one"].token is None
    text = "The remote agent one is called without a token: the environment variable EMPTY is not set"
    assert caplog.messages == [text]


def test_a_tenants_own_agents_are_added_and_win() -> None:
    other = "https://other.example"
    agents = read(
        agents={"a": {"url": URL}, "b": {"url": URL}, "c": {"url": URL}},
        tenants={
            "acme": {"agents": {"a": {"url": other}, "mine": {"url": other}}},
            "1": {"agents": {"b": {"url": URL, "enabled": False}}},
        },
    )
    assert {name: agent.url for name, agent in agents.of("1", "acme").items()} == {"a": other, "c": URL, "mine": other}
    assert list(agents.of("2", "umbrella")) == ["a", "b", "c"]
    assert list(agents.of("2", "1")) == ["a", "b", "c"]  # a tenant is not another one because its name is that one's id


AGENT = "$.agents.one"


@pytest.mark.parametrize(
    ("members", "path", "reason"),
    [
        ({"agents": []}, "$.agents", "Expected `object`, got `array`"),
        ({"agent": {}}, "$", "unknown field `agent`"),
        ({"agents": {"one": {}}}, AGENT, "missing required field `url`"),
        ({"agents": {"a b": {"url": URL}}}, "$.agents.a b", "1 to 64 letters"),
        ({"agents": {"one": {"url": "ftp://x.example"}}}, f"{AGENT}.url", "must start with http"),
        ({"agents": {"one": {"url": URL, "auth": {"type": "basic"}}}}, f"{AGENT}.auth.type", "'basic'"),
        ({"agents": {"one": {"url": URL, "auth": {"token_evn": "X"}}}}, f"{AGENT}.auth", "`token_evn`"),
        ({"agents": {"one": {"url": URL, "auth": {"token": "a\nb"}}}}, f"{AGENT}.auth.token", "printable ASCII"),
        ({"agents": {"one": {"url": URL, "timeout_seconds": 0}}}, f"{AGENT}.timeout_seconds", "> 0"),
        ({"tenants": {"acme": {"agents": {"one": 1}}}}, "$.tenants.acme.agents.one", "Expected `object`"),
        ({"allow_private_hosts": ["ok", "http://x"]}, "$.allow_private_hosts[1]", "not a host"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("$") else "",
)
def test_a_fault_is_named_with_its_place(members: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(RemoteConfigError) as caught:
        read(**members)
    assert caught.value.path == path
    assert reason in caught.value.message


def test_text_that_is_not_json_and_a_file_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RemoteConfigError, match="not valid JSON"):
        read_remote_agents(b'{"agents": {"one": ', {})
    with pytest.raises(RemoteConfigError, match="cannot be read"):
        load_remote_agents(tmp_path)
