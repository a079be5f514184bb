"""Settings of `parley serve`: each is an option, a variable and a key of parley.toml, and errors name the source."""

from __future__ import annotations

import inspect
import json
import os
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from parley.cli.main import app
from parley.cli.options.limits import ENGINE_LIMITS, SERVER_LIMITS, limit_options
from parley.cli.options.settings import settings_of
from parley.client.guard import Guard
from parley.engine.limits import Limits
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.server.app import App
from parley.server.limits import ServerLimits
from parley.server.listener.limits import ListenerLimits
from parley.server.listener.tls import TlsFiles
from parley.server.run import Serving, serve
from parley.server.security.throttle import RateLimits
from parley.server.telemetry.telemetry import Telemetry
from parley.server.webhooks.guard import WebhookPolicy
from tests.cli.sampler import parley
from tests.cli.served import call, fetch, message, served

ECHO = """
from parley import Agent

agent = Agent("Echo")

@agent.on_message
async def echo(turn):
    return turn.text
"""

OBJECT = "an object of Python"
PROXY = "for a proxy, which has a command of its own"
INTERNAL = "the size of a batch or a cache, which changes with the implementation"

SETTINGS: dict[Any, dict[str, str]] = {
    App: {
        "agents": "targets",
        "many": "many",
        "root": "root-agent",
        "catalog": "catalog",
        "store": "store",
        "security": "auth",
        "limits": "max-body",
        "engine_limits": "max-runs",
        "public_url": "public-url",
        "signer": "signing-key",
        "card_version": "card-version",
        "cors_origins": "cors-origin",
        "telemetry": "metrics",
        "webhooks": "webhooks",
        "webhook_auth": "webhook-auth",
        "file_guard": "files",
        "delivery_limits": "webhook-attempts",
        "retention": "retention",
        "agent_retention": "retention",
        "drain_seconds": "drain-seconds",
        "hints": "cluster",
    },
    serve: {"replica": "replica"},
    Serving: {
        "host": "host",
        "port": "port",
        "grpc_port": "grpc-port",
        "public_grpc": "public-grpc-url",
        "tls": "tls-cert",
        "allow_anonymous": "allow-anonymous",
        "trusted_proxies": "trusted-proxy",
        "allowed_hosts": "allowed-host",
        "access_log": "access-log",
        "drain_delay": "drain-delay",
        "limits": "max-connections",
    },
    TlsFiles: {
        "certificate": "tls-cert",
        "key": "tls-key",
        "client_authority": "tls-client-ca",
        "client_certificates": "tls-client-auth",
    },
    WebhookPolicy: {
        "allow_private": "webhooks",
        "allowed_hosts": "webhook-host",
        "only_listed": "webhooks",
        "use_proxy": "webhook-proxy",
        "challenge": "webhook-challenge",
    },
    Guard: {"allow_private": "files", "allowed_hosts": "file-host"},
    Telemetry: {"metrics": "metrics", "audit": "audit-log"},
    ServerLimits: {"rates": "rate"},
    RateLimits: {},
    ListenerLimits: {},
    Limits: {},
    DeliveryLimits: {},
}
"""What a program can set, and the setting of the command; those of limits are in the table of `options/limits.py`."""

for one in (*SERVER_LIMITS, *ENGINE_LIMITS):
    SETTINGS[one.owner][one.field] = one.name

WITHOUT_OPTION: dict[Any, dict[str, str]] = {
    App: {
        "remote": PROXY,
        "conversation_observer": PROXY,
        "extra_route": PROXY,
        "hosted": "`parley up` makes it",
    },
    Serving: {
        "listening": "`--workers` hands it to each process",
        "or_free_port": "`parley console` sets it, if no port was named",
    },
    serve: dict.fromkeys(
        ("app", "serving", "on_start", "on_ready", "on_drain_asked", "on_drain", "on_hangup", "log_fields", "stop"),
        OBJECT,
    ),
    Guard: {
        **dict.fromkeys(("allow_other_origins", "trust_named"), "about cards, not files"),
        "use_proxy": "NO_PROXY names hosts that are called directly",
    },
    Telemetry: {"tracing": "on if the process has a tracer provider", "now": OBJECT},
    ServerLimits: {"discarded_bytes": INTERNAL},
    RateLimits: {"remembered": INTERNAL},
    ListenerLimits: dict.fromkeys(("linger_seconds", "pipelined", "check_seconds"), INTERNAL),
    Limits: {
        **dict.fromkeys(("events_in_memory", "bytes_in_memory", "unwritten_events", "snapshot_events"), INTERNAL),
        **dict.fromkeys(("page_events", "page_characters", "page_bytes"), INTERNAL),
    },
    DeliveryLimits: dict.fromkeys(("turn_events", "turn_seconds", "in_memory"), INTERNAL),
}
"""What a program can set and the command cannot, with the reason."""


# --- which settings there are -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", SETTINGS, ids=lambda what: what.__name__)
def test_everything_that_a_program_can_set_is_a_setting_of_the_command(what: Any) -> None:
    names = set(inspect.signature(what).parameters)
    named, excepted = set(SETTINGS[what]), set(WITHOUT_OPTION.get(what, {}))
    assert (names, named & excepted) == (named | excepted, set())
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    assert set(SETTINGS[what].values()) <= {setting.name.replace("_", "-") for setting in settings_of(command)}


def test_a_limit_reaches_the_field_that_it_names_and_its_default_is_that_of_the_field() -> None:
    options = (*SERVER_LIMITS, *ENGINE_LIMITS)
    read = limit_options(*options)
    names = [option.name.replace("-", "_") for option in options]
    defaults = read(**{name: option.default_text for name, option in zip(names, options, strict=True)})
    changed = read(**{name: str(number) for number, name in enumerate(names, 1)})
    for owner in (ServerLimits, RateLimits, ListenerLimits, Limits, DeliveryLimits):
        assert defaults.of(owner) == owner()
        expected = {option.field: number for number, option in enumerate(options, 1) if option.owner is owner}
        assert {field: getattr(changed.of(owner), field) for field in expected} == expected
    removed = read(**{name: "off" if option.allows_off else None for name, option in zip(names, options, strict=True)})
    assert {field.name for field in fields(RateLimits) if getattr(removed.of(RateLimits), field.name) is None} == {
        field.name for field in fields(RateLimits)
    } - {"remembered"}


# --- where they come from ---------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PARLEY_")]:
        monkeypatch.delenv(name)
    return tmp_path


def shown(*words: str, **variables: str) -> dict[str, tuple[Any, str]]:
    """Every setting that `--show-config` prints, with its value and its source."""
    done = parley("serve", *words, "--show-config", env=variables)
    assert done.exit_code == 0, done.stderr
    values = tomllib.loads(done.stdout)["serve"]
    lines = [line.partition(" = ") for line in done.stdout.splitlines() if " = " in line]
    return {key: (values[key], line.rpartition("  # ")[2]) for key, _, line in lines}


def test_the_command_line_wins_then_variables_then_the_file(directory: Path) -> None:
    (directory / "parley.toml").write_text(
        """
[serve]
targets = ["echo"]
host = "localhost"
port = 9000
send-window = 60
allowed-host = [
    "a.example",
    "b.example",
]
access-log = true
reload = true
grpc-port = 50051
"""
    )
    variables = {
        "PARLEY_PORT": "9001",
        "PARLEY_SEND_WINDOW": "2h",
        "PARLEY_CORS_ORIGIN": "https://a.example https://b.example",
        "PARLEY_METRICS": "no",
        "PARLEY_LOG_LEVEL": "",
        "PARLEY_RATE": "off",
    }
    found = shown("--send-window", "1h", "--no-access-log", **variables)
    assert found["send-window"] == ("1h", "command line")
    assert found["access-log"] == (False, "command line")
    assert found["port"] == (9001, "PARLEY_PORT")
    assert found["cors-origin"] == (["https://a.example", "https://b.example"], "PARLEY_CORS_ORIGIN")
    assert found["metrics"] == (False, "PARLEY_METRICS")
    assert found["rate"] == ("off", "PARLEY_RATE")
    assert found["targets"] == (["echo"], "parley.toml, line 3")
    assert found["allowed-host"] == (["a.example", "b.example"], "parley.toml, line 7")
    assert found["grpc-port"] == (50051, "parley.toml, line 13")
    assert found["log-level"] == ("info", "default")
    assert found["max-body"] == ("24MiB", "default")
    assert "retention" not in found


def test_what_is_shown_can_be_used_as_a_file(directory: Path) -> None:
    words = ("echo", "--retention", "30d", "--auth", 'a "b".toml', "--rate", "2.5", "--card-version", "1.0", "--many")
    first = shown(*words, PARLEY_MAX_BODY="1MiB")
    done = parley("serve", *words, "--show-config", env={"PARLEY_MAX_BODY": "1MiB"})
    (directory / "own.toml").write_text(done.stdout)
    second = shown(PARLEY_CONFIG="own.toml")
    assert {key: value for key, (value, _) in second.items()} == {key: value for key, (value, _) in first.items()}
    assert all(source.startswith("own.toml, line ") for _, source in second.values())


def test_secrets_are_not_shown(directory: Path) -> None:
    done = parley("serve", "echo", "--show-config", env={"PARLEY_STORE": "postgresql://ada:hush@db/tasks"})
    assert "# store is secret  # PARLEY_STORE" in done.stdout
    words = ("proxy", "localhost:1", "--header", "X-Key: hush", "--show-config")
    proxied = parley(*words, env={"PARLEY_TOKEN": "hush", "PARLEY_HEADER": "x", "PARLEY_TIMEOUT": "5"})
    assert "# token is secret  # PARLEY_TOKEN\n# header is secret  # command line\n" in proxied.stdout
    assert "timeout = 5.0  # PARLEY_TIMEOUT" in proxied.stdout
    assert "# trust is not set\n" in proxied.stdout
    assert "hush" not in done.stdout + proxied.stdout


def test_the_file_of_the_page_is_served_with_what_it_says(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_PROT", "1")
    page = (Path(__file__).parent.parent.parent / "docs" / "serving.md").read_text()
    text = page.split("```toml\n[serve]")[1].split("```")[0].replace("port = 9000", "port = 0")
    (directory / "parley.toml").write_text(f"[serve]{text}")
    (directory / "echo.py").rename(directory / "currency.py")
    with served(cwd=directory) as server:
        assert server.until_logged("Settings are read from parley.toml")
        assert server.until_logged("PARLEY_PROT is not a setting. Did you mean PARLEY_PORT?")
        url = server.until_ready()
        card = json.loads(fetch(f"{url}/.well-known/agent-card.json"))
        assert ("protocolVersion" in card, card["name"]) == (False, "Echo")
        (window,) = [one["params"] for one in card["capabilities"]["extensions"] if "idempotent-send" in one["uri"]]
        assert window == {"seconds": 3600, "header": "Idempotency-Key"}
        assert card["capabilities"]["pushNotifications"] is False
        assert "result" in call(url, "SendMessage", message("hi"))
    assert (directory / "tasks.db").exists()


# --- what is wrong with them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[serve]\n\nport = 70000", "line 3: `port`: 70000 is too large: the maximum is 65535."),
        ("[serve]\nport = '80'", "line 2: `port` must be a whole number."),
        ("[serve]\ndrain-seconds = true", "line 2: `drain-seconds` must be a number."),
        ("[serve]\nmetrics = 1", "line 2: `metrics` must be true or false."),
        ("[serve]\ncors-origin = '*'", 'line 2: `cors-origin` must be a list of strings: ["…"].'),
        ("[serve]\ncors-origin = [\n1]", 'line 2: `cors-origin` must be a list of strings: ["…"].'),
        ("[serve]\ncors-origin = [\n'*',\n'x']", "line 2: `cors-origin`: Invalid origin: 'x'."),
        ("[serve]\nhost = 'a\\u0000'".replace("'", '"'), 'line 2: `host` must be a string: "…".'),
        ("[serve]\nmax-body = [1]", 'line 2: `max-body` must be a number or a string: "…".'),
        ("[serve]\nmax-body = '1 TB'", "line 2: `max-body`: Invalid size: '1 TB'. Write for example 512KiB or 24MiB"),
        ("[serve]\nmax-body = 0", "line 2: `max-body`: 0 is too small: it must be more than 0."),
        ("[serve]\nrate = nan", "line 2: `rate`: Invalid number: 'nan'. Write off for no limit."),
        ("[serve]\nrate = 'x'", "line 2: `rate`: Invalid number: 'x'."),
        ("[serve]\nmax-parts = 1.5", "line 2: `max-parts`: Invalid whole number: '1.5'."),
        ("[serve]\nheartbeat = -1", "line 2: `heartbeat`: Invalid duration: '-1'."),
        ("[serve]\nretention = 30", "line 2: `retention`: Invalid duration: '30'. Write for example 90s"),
        ("serve.log-level = 'loud'", "line 1: `log-level`: 'loud' is not one of debug, info, warning, error."),
        ("[serve]\npublic-grpc-url = 'a:1'", "line 2: `public-grpc-url`: gRPC is not served."),
        ("# all\n[serve]\nprot = 1", "line 3: There is no setting `prot`. Did you mean port?"),
        ("[serve]\ncard_version = '1.0'", "line 2: There is no setting `card_version`. Did you mean card-version?"),
        ("[serve]\nzzz = 1", "line 2: There is no setting `zzz`.\n"),
        ("[server]\nport = 1", "line 1: There is no table [server]. Did you mean serve?"),
        ("port = 1", "line 1: `port` must be in the table [serve]."),
        ("proxy = 1", "line 1: `proxy` must be a table: [proxy]"),
        ("[serve]\nport = 1\nport = 2\n", "line 3: Invalid TOML: this key is set before."),
        ("[serve]\n[serve]\n", "line 2: Invalid TOML: the table [serve] is defined before."),
        ("[serve]\nport = ", "line 2: Invalid TOML: Invalid value."),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(directory: Path, text: str, told: str) -> None:
    (directory / "parley.toml").write_text(text)
    done = parley("serve", "echo")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Error: parley.toml, {told}" in done.stderr


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"PARLEY_PORT": "x"}, "PARLEY_PORT: Invalid whole number: 'x'."),
        ({"PARLEY_METRICS": "maybe"}, "PARLEY_METRICS: Invalid value: 'maybe'. Write true or false."),
        ({"PARLEY_RUN_TIMEOUT": "1y"}, "PARLEY_RUN_TIMEOUT: Invalid duration: '1y'."),
        ({"PARLEY_CONFIG": "none.toml"}, "none.toml cannot be read: No such file or directory."),
        ({"PARLEY_CONFIG": "."}, ". cannot be read: Is a directory."),
        ({"PARLEY_CONFIG": "latin.toml"}, "latin.toml cannot be read: it is not UTF-8 text."),
        ({"PARLEY_CONFIG": "deep.toml"}, "deep.toml is not valid TOML: "),
    ],
)
def test_a_mistake_in_a_variable_is_told_with_its_name(directory: Path, variables: dict[str, str], told: str) -> None:
    (directory / "latin.toml").write_bytes(b"# \xe9")
    (directory / "deep.toml").write_text(f"a = {'9' * 5000}")
    done = parley("serve", "echo", env=variables)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Error: {told}" in done.stderr


def test_commands_that_call_an_agent_read_variables_and_no_file(directory: Path) -> None:
    (directory / "parley.toml").write_text("nonsense")
    done = parley("tasks", "list", "localhost:1", env={"PARLEY_TIMEOUT": "x"})
    assert (done.exit_code, done.stderr) == (2, "Error: PARLEY_TIMEOUT: Invalid number: 'x'.\n")
    assert parley("card", "localhost:1", env={"PARLEY_TIMEOUT": "1"}).exit_code == 3


def test_help_needs_no_valid_file_and_limits_have_a_help_of_their_own(directory: Path) -> None:
    (directory / "parley.toml").write_text("nonsense")
    usual, limits = parley("serve", "--help").stdout, parley("serve", "--help-limits").stdout
    assert "--max-body" not in usual
    assert "  --send-window TIME " in usual
    assert "  --[no-]access-log " in usual
    assert "  --max-body SIZE " in limits
    assert "--send-window" not in limits


def test_a_variable_that_is_no_setting_is_a_warning_and_those_of_kubernetes_are_ignored(directory: Path) -> None:
    variables = {
        "PARLEY_PROT": "1",
        "PARLEY_XYZ": "1",
        "PARLEY_TOKEN": "of the client",
        "PARLEY_CLIENT_SECRET": "of a login",
        "PARLEY_HOOK_TOKEN": "of a webhook",
        "PARLEY_PORT": "tcp://10.0.0.1:80",
        "PARLEY_PORT_80_TCP_ADDR": "10.0.0.1",
        "PARLEY_SERVICE_HOST": "10.0.0.1",
    }
    done = parley("serve", "echo", "--show-config", env=variables)
    assert done.exit_code == 0
    assert done.stderr == (
        "Warning: PARLEY_PROT is not a setting. Did you mean PARLEY_PORT?\nWarning: PARLEY_XYZ is not a setting.\n"
    )
    assert "port = 8080  # default" in done.stdout


def test_where_agents_may_read_files_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Guard] = []
    monkeypatch.setattr("parley.cli.commands.serve._serve", lambda options: seen.append(options.runtime.file_guard))
    monkeypatch.setattr("parley.server.telemetry.logs.configure_logging", lambda *_: None)
    assert parley("serve", "a:b").exit_code == 0
    assert parley("serve", "a:b", "--file-host", "files.internal").exit_code == 0
    assert parley("serve", "a:b", env={"PARLEY_FILES": "any"}).exit_code == 0
    assert seen == [Guard(), Guard(allowed_hosts=("files.internal",)), Guard(allow_private=True)]
