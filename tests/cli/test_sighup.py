"""SIGHUP to `parley up` and `parley proxy` in processes of their own; for `parley serve` see `tests/keys`."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.keys import KeyFolder
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.server.security.auth_file import new_token
from parley.server.security.schemes.stored_secrets import hash_secret
from tests.cli.served import Served, running, served
from tests.keys.test_rotation_in_processes import ECHO, auth_file, signer_of, status_with

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")

PLAIN = ["Bearer", "Basic", "ApiKey", "HMAC"]
OAUTH2 = """
[[oauth2]]
hosts = ["hooks.example"]
token_url = "https://login.example/token"
client_id = "parley"
client_secret = "s3cret"
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with an agent, a key file, and settings for webhooks."""
    (tmp_path / "echo.py").write_text(ECHO)
    for name in ("a", "b"):
        KeyFolder(tmp_path / name).create(key_id=name)
    use_key(tmp_path, "a")
    (tmp_path / "hooks.toml").write_text("")
    return tmp_path


def use_key(files: Path, name: str) -> None:
    (files / "key.json").write_bytes((files / name / f"{name}.json").read_bytes())


def hang_up(command: Served, *expected: str) -> None:
    """Send SIGHUP, and wait for these lines of the log, in their order."""
    os.kill(command.process.pid, signal.SIGHUP)
    for words in expected:
        command.until_logged(words)


def card_at(url: str, headers: Mapping[str, str] | None = None) -> bytes:
    request = urllib.request.Request(url, headers={"A2A-Version": "1.0", **(headers or {})})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.read()


def offered_by(card: bytes) -> Any:
    """The schemes for webhooks that a card offers."""
    (found,) = [each for each in json.loads(card)["capabilities"]["extensions"] if each["uri"] == WEBHOOK_AUTH]
    return found["params"]["schemes"]


def break_files(files: Path, *names: str) -> None:
    for name in names:
        (files / name).write_text("{")


def test_a_host_reads_its_keys_and_its_settings_for_webhooks_again(files: Path) -> None:
    options = ("--port", "0", "--signing-key", "key.json", "--webhook-auth", "hooks.toml", "--audit-log", "audit.jsonl")
    words = ("up", *options, "--tenant-token-file", "token.txt", "--log-format", "json")
    with running(sys.executable, "-m", "parley.cli.main", *words, cwd=files) as command:
        card_url = f"{command.ready_line()['url']}/v1/a2a/agents/index/agent-card.json"
        bearer = {"Authorization": f"Bearer {(files / 'token.txt').read_text().strip()}"}

        assert signer_of(card_at(card_url, bearer)) == "a"
        break_files(files, "key.json", "hooks.toml")
        hang_up(command, "The keys were not reloaded", "The settings for webhooks were not reloaded")
        assert signer_of(card_at(card_url, bearer)) == "a"
        use_key(files, "b")
        (files / "hooks.toml").write_text(OAUTH2)
        offered = ", ".join([*PLAIN, "JWT", "OAuth2"])
        hang_up(command, "The keys were reloaded; b signs", f"webhooks were reloaded; the server offers {offered}")
        assert signer_of(card_at(card_url, bearer)) == "b"
        assert command.end() == 0
    events = [json.loads(line)["what"] for line in (files / "audit.jsonl").read_text().splitlines()]
    assert [each for each in events if each.endswith("-reloaded")] == ["keys-reloaded", "webhook-auth-reloaded"]


def test_a_host_reads_the_issuers_of_people_again(files: Path) -> None:
    grant = '[[issuers.grants]]\ntenant = "1"\nrole = "viewer"\n'
    people = '[[issuers]]\nissuer = "https://{}.example"\naudience = "b"\n' + grant
    (files / "people.toml").write_text(people.format("a"))
    options = ("--people", "people.toml", "--audit-log", "audit.jsonl", "--log-format", "json")
    with running(sys.executable, "-m", "parley.cli.main", "up", "--port", "0", *options, cwd=files) as command:
        metadata = f"{command.ready_line()['url']}/.well-known/oauth-protected-resource"
        break_files(files, "people.toml")
        hang_up(
            command, "The issuers of people were not reloaded; the old ones stay in force: people.toml is not valid"
        )
        assert json.loads(card_at(metadata))["authorization_servers"] == ["https://a.example"]
        (files / "people.toml").write_text(people.format("b"))
        hang_up(command, "The issuers of people were reloaded from people.toml")
        assert json.loads(card_at(metadata))["authorization_servers"] == ["https://b.example"]
        assert command.end() == 0
    assert (files / "audit.jsonl").read_text().count('"what":"people-reloaded"') == 1


def test_a_proxy_reads_its_keys_and_its_files_for_authentication_again(files: Path) -> None:
    (ada, ada_entry), (bob, bob_entry) = new_token("ada"), new_token("bob")
    (files / "auth.toml").write_text(auth_file(ada_entry))
    options = ("--port", "0", "--grpc-port", "off")
    own = ("--auth", "auth.toml", "--signing-key", "key.json", "--webhook-auth", "hooks.toml", "--log-format", "json")
    with served("echo", *options, "--log-format", "json", cwd=files) as agent:
        agent_url = agent.ready_line()["url"]
        words = ("proxy", agent_url, *options, *own, "--webhook-url", "http://127.0.0.1:9", "--webhooks", "any")
        with running(sys.executable, "-m", "parley.cli.main", *words, cwd=files) as command:
            url = command.ready_line()["url"]

            def shown() -> tuple[str, Any, tuple[int, int]]:
                card = card_at(f"{url}/.well-known/agent-card.json")
                return signer_of(card), offered_by(card), (status_with(ada, url), status_with(bob, url))

            assert shown() == ("a", PLAIN, (200, 401))
            break_files(files, "key.json", "auth.toml", "hooks.toml")
            kept = ("The keys were not", "The auth file was not", "The settings for webhooks were not")
            hang_up(command, *(f"{what} reloaded" for what in kept))
            assert shown() == ("a", PLAIN, (200, 401))
            (files / "hooks.toml").write_text('sign = "always"')
            hang_up(command, "hooks.toml: a proxy does not sign its calls to webhooks")
            use_key(files, "b")
            (files / "auth.toml").write_text(auth_file(bob_entry))
            (files / "hooks.toml").write_text(OAUTH2)
            hang_up(command, "b signs", "The auth file was reloaded", "The settings for webhooks were reloaded")
            assert shown() == ("b", [*PLAIN, "OAuth2"], (401, 200))
            assert command.end() == 0


def api_keys(header: str, key: str) -> str:
    table = f'type = "api-key"\nparameter = "{header}"\nin = "header"'
    return f'[schemes.key]\n{table}\nkeys = [{{ name = "ada", hash = "{hash_secret(key)}" }}]\n'


def test_the_trace_of_a_proxy_masks_the_keys_of_a_file_that_was_reloaded(files: Path) -> None:
    (files / "auth.toml").write_text(api_keys("X-Old", "the-old-key-of-ada"))
    options = ("--port", "0", "--grpc-port", "off", "--log-format", "json")
    with served("echo", *options, cwd=files) as agent:
        agent_url = agent.ready_line()["url"]
        words = ("proxy", agent_url, *options, "--auth", "auth.toml", "--trace", "--trace-file", "trace.jsonl")
        with running(sys.executable, "-m", "parley.cli.main", *words, cwd=files) as command:
            url = command.ready_line()["url"]
            (files / "auth.toml").write_text(api_keys("X-New", "the-new-key-of-ada"))
            hang_up(command, "The auth file was reloaded")
            card_at(f"{url}/tasks", {"X-New": "the-new-key-of-ada"})
            assert command.end() == 0
            everything = (files / "trace.jsonl").read_text() + "\n".join(command.said)
    assert "x-new" in everything.lower()
    assert "the-new-key-of-ada" not in everything
