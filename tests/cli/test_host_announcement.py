"""What `parley up` prints for hosts of every kind, and the files that it keeps tokens in."""

import io
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from parley.cli.options import server as serving
from parley.cli.options.server import UsageError
from parley.cli.serving import host_announcement
from parley.cli.serving.host_announcement import HostAnnouncement, parley_command
from parley.cli.serving.host_tokens import AdminToken, TenantTokenFile, find_admin_token
from parley.host.data.admin_token import VARIABLE
from parley.host.data.tenant import Tenant
from parley.server.run import Bound

FIRST = Tenant("1", "default")
TOKEN = f"atr_{'0' * 64}"
KEPT = AdminToken("adm_hush", Path("my db.admin-token"), is_new=False)


def announcement(*, url: str = "http://here:1", grpc: str | None = None, **facts: Any) -> HostAnnouncement:
    given = {name: facts.pop(name) for name in ("host", "public_url", "tls_cert", "tls_key") if name in facts}
    usual = {
        "store": "sqlite:///x.db",
        "model": "parley/router",
        "is_built_in": True,
        "has_metrics": False,
        "admin": KEPT,
        "tenant": FIRST,
        "tenant_count": 1,
        "new_token": None,
        "token_file": None,
        "agents": host_announcement.EXAMPLE_AGENTS,
    }
    server = serving.server_options(grpc_port="off", **given)
    return HostAnnouncement(bound=Bound(url, grpc), server=server, **{**usual, **facts})


def shown(ready: HostAnnouncement) -> str:
    text = io.StringIO()
    ready.show(Console(file=text, highlight=False, width=40))
    return text.getvalue()


def line_below(ready: HostAnnouncement, title: str) -> list[str]:
    """The words of the line below a title."""
    lines = shown(ready).splitlines()
    (number,) = [number for number, line in enumerate(lines) if line.startswith(title)]
    return shlex.split(lines[number + 2])


def test_the_model_of_a_provider_is_named_and_the_starter_agents_are_told_apart() -> None:
    text = shown(announcement(model="openai/gpt-6-luna", is_built_in=False))
    assert (
        "  model      openai/gpt-6-luna, for index and agents that name none; the starter agents are built in\n" in text
    )


def test_a_token_in_a_file_is_read_from_there_and_not_printed() -> None:
    ready = announcement(token_file=Path("/my tokens/first"))
    assert TOKEN not in shown(ready)
    assert line_below(ready, "Try it;")[-2:] == ["--token", "$(cat '/my tokens/first')"]
    assert line_below(ready, "The same")[-2:] == ["-H", "Authorization: Bearer $(cat '/my tokens/first')"]


def test_the_admin_token_is_where_it_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    rotate = line_below(announcement(), "Get a new token for the tenant default (id 1); the one before is refused then")
    assert rotate[-1] == f"Authorization: Bearer $(cat '{tmp_path}/my db.admin-token')"
    in_variable = announcement(admin=AdminToken("adm_hush", None, is_new=False))
    assert line_below(in_variable, "Get a new token")[-1] == "Authorization: Bearer $PARLEY_ADMIN_TOKEN"
    assert "/v1/admin/tenants, with the token in PARLEY_ADMIN_TOKEN\n" in shown(in_variable)
    for ready in (announcement(), in_variable):
        assert "adm_hush" not in shown(ready)
    in_memory = announcement(admin=AdminToken("adm_hush", None, is_new=True), store="memory:", new_token=TOKEN)
    assert "/v1/admin/tenants, with the token below, until the server stops\n" in shown(in_memory)
    assert line_below(in_memory, "The admin token, shown only now:") == ["adm_hush"]


def test_if_all_tenants_are_disabled_a_new_one_can_be_created() -> None:
    words = line_below(announcement(tenant=None, agents=frozenset()), "Create a tenant, because all are disabled")
    assert (words[2], words[words.index("-d") + 1]) == ("http://here:1/v1/admin/tenants", '{"name": "…"}')


def test_callers_on_this_machine_trust_the_certificate_and_others_use_the_public_url() -> None:
    tls = {"tls_cert": Path("/my cert.pem"), "tls_key": Path("key.pem")}
    local = announcement(url="https://here:1", new_token=TOKEN, **tls)
    assert line_below(local, "Talk to it")[-4:] == ["--ca", "/my cert.pem", "--token", TOKEN]
    assert "--cacert" in line_below(local, "The same")
    public = announcement(public_url="https://agents.example/x/", new_token=TOKEN, grpc="here:2", **tls)
    assert line_below(public, "Talk to it")[-3:] == [
        "https://agents.example/x/v1/a2a/agents/index",
        "--token",
        TOKEN,
    ]
    assert "  gRPC       here:2  (1.0; the agent's id is the tenant)\n" in shown(public)
    assert "  local      http://here:1\n" in shown(public)


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", "public_url": "https://a.example"}, False),
        ({"host": "0.0.0.0", "tls_cert": Path("c"), "tls_key": Path("k")}, False),
    ],
)
def test_tokens_that_would_cross_a_network_unencrypted_are_warned_of(options: dict[str, Any], warns: bool) -> None:
    assert ("Credentials are not encrypted" in shown(announcement(**options))) == warns


def test_the_command_is_named_so_that_a_shell_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "my bin" / "parley"
    script.parent.mkdir()
    script.touch(0o755)
    monkeypatch.setattr("sys.argv", [str(script), "up"])
    assert shlex.split(parley_command()) == [str(script)]
    monkeypatch.setenv("PATH", str(script.parent))
    assert parley_command() == "parley"


# --- files ------------------------------------------------------------------------------------------------------------


def test_an_admin_token_is_beside_the_store_or_only_in_memory(tmp_path: Path) -> None:
    made = find_admin_token(None, f"sqlite:///{tmp_path}/x.db", {})
    assert (made.file, made.is_new, made.is_for_this_process) == (tmp_path / "x.db.admin-token", True, False)
    assert find_admin_token(None, f"sqlite:///{tmp_path}/x.db", {}) == AdminToken(made.token, made.file, is_new=False)
    assert find_admin_token(tmp_path / "x.db.admin-token", "memory:", {}).token == made.token
    assert find_admin_token(None, "memory:", {}).is_for_this_process
    given = find_admin_token(None, f"sqlite:///{tmp_path}/y.db", {VARIABLE: "adm_mine"})
    assert (given.token, given.file, given.is_new) == ("adm_mine", None, False)
    assert not (tmp_path / "y.db.admin-token").exists()
    assert made.token not in repr(made)


def test_a_file_that_holds_something_else_than_a_token_is_refused_and_kept(tmp_path: Path) -> None:
    file = TenantTokenFile(tmp_path / "token")
    assert file.read() is None
    file.path.write_text("my notes")
    file.path.chmod(0o644)
    with pytest.raises(UsageError, match="token does not hold a tenant's token"):
        file.read()
    assert file.path.read_text() == "my notes"
    file.path.write_text(f"{TOKEN}\n")
    with file.opened() as writing:
        writing.write(f"{TOKEN[:-1]}1\n")
    assert file.read() == f"{TOKEN[:-1]}1"
    assert file.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        TenantTokenFile(tmp_path).read()
