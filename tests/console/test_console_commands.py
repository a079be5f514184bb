"""The commands that serve the console, as people use them: real processes, what they print, and what they refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio import to_thread
from typer.testing import CliRunner

from parley.cli.main import app
from parley.server.security.auth_file import new_token
from tests.cli.served import Served, running
from tests.console.consoles import Browser, streaming
from tests.deadlines import fail_after

ECHO = """
from parley import Agent

agent = Agent("Echo", description="Says what it hears.")

@agent.on_message
async def echo(turn):
    return turn.text
"""

FREE = ("--port", "0", "--grpc-port", "off", "--store", "memory:")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    token, entry = new_token("ada")
    (tmp_path / "auth.toml").write_text(f'[schemes.bearer]\ntype = "bearer"\ntokens = [{entry}]\n')
    (tmp_path / "token").write_text(token)
    return tmp_path


@contextmanager
def command(*words: str, cwd: Path) -> Generator[Served]:
    with running(sys.executable, "-m", "parley.cli.main", *words, cwd=cwd) as served:
        yield served


def session(url: str) -> dict[str, Any]:
    """The session of a browser that opens the console there."""
    return httpx2.get(f"{url}/console/api/session", timeout=60).raise_for_status().json()


def test_serve_has_a_console_on_loopback_and_says_where(folder: Path) -> None:
    with command("serve", "echo.py", *FREE, cwd=folder) as served:
        url = served.until_ready()
        assert f"  console    {url}/console/" in served.said
        assert session(url)["server"] == {"kind": "serve", "name": "Echo", "version": "0.1.0", "url": url}


@pytest.mark.parametrize("where", ["option", "variable", "file"])
def test_the_console_is_turned_off_as_every_setting_is(where: str, folder: Path, monkeypatch: Any) -> None:
    options = ["--console", "off"] if where == "option" else []
    if where == "variable":
        monkeypatch.setenv("PARLEY_CONSOLE", "off")
    if where == "file":
        (folder / "parley.toml").write_text('[serve]\nconsole = "off"\n')
    with command("serve", "echo.py", *FREE, *options, cwd=folder) as served:
        url = served.until_ready()
        assert not any("console" in line for line in served.said)
        assert httpx2.get(f"{url}/console/").status_code == 404
        assert httpx2.get(f"{url}/console/api/session").status_code == 404


def test_a_server_for_other_machines_has_one_only_with_authentication(folder: Path) -> None:
    with command("serve", "echo.py", *FREE, "--host", "0.0.0.0", "--allow-anonymous", cwd=folder) as served:
        url = served.until_ready()
        assert httpx2.get(f"{url}/console/api/session").status_code == 404
    with command("serve", "echo.py", *FREE, "--host", "0.0.0.0", "--auth", "auth.toml", cwd=folder) as served:
        url = served.until_ready()
        assert f"  console    {url}/console/" in served.said
        assert (session(url)["needs_login"], session(url)["caller"]) == (True, None)
    with command("serve", "echo.py", *FREE, "--public-url", "https://a.example", cwd=folder) as served:
        served.until_ready()
        (local,) = [line.split()[-1] for line in served.said if line.startswith("  local")]
        assert httpx2.get(f"{local}/console/api/session").status_code == 404


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "echo.py", *FREE, "--host", "0.0.0.0", "--allow-anonymous", "--console", "on"],
        ["serve", "echo.py", *FREE, "--public-url", "https://a.example", "--console", "on"],
        ["console", "--host", "0.0.0.0"],
        ["console", "--public-url", "https://a.example"],
        ["console", "--allowed-host", "a.example"],
        ["console", "--trusted-proxy", "127.0.0.1"],
    ],
)
def test_a_console_that_anyone_could_use_is_refused(words: list[str], folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "The console needs a login where other machines can reach it" in result.stderr


def test_the_console_alone_listens_on_any_free_port_and_needs_a_login_elsewhere(folder: Path) -> None:
    with command("console", "localhost:1", cwd=folder) as served, command("console", cwd=folder) as second:
        urls = [_console_url(one) for one in (served, second)]
        assert urls[0] != urls[1]
        shown = session(urls[0])
        assert (shown["server"]["kind"], shown["needs_login"]) == ("console", False)
        assert "tasks" not in shown["features"]
        assert served.end() == second.end() == 0
    with command("console", "--host", "0.0.0.0", "--port", "0", "--auth", "auth.toml", cwd=folder) as served:
        assert session(_console_url(served))["needs_login"]


def test_a_proxy_has_a_console_with_its_agent(folder: Path) -> None:
    with (
        command("serve", "echo.py", *FREE, cwd=folder) as agent,
        command("proxy", agent.until_ready(), "--port", "0", "--grpc-port", "off", cwd=folder) as proxy,
    ):
        url = proxy.until_ready()
        assert f"  console    {url}/console/" in proxy.said
        shown = session(url)
        assert (shown["server"]["kind"], shown["server"]["name"]) == ("proxy", "Echo")
        assert shown["features"] == ["agents", "chat", "wire", "checks", "remote"]


def test_up_prints_a_link_that_logs_in_once_and_has_no_token_in_it(folder: Path) -> None:
    with command("up", "--port", "0", "--store", "sqlite:///parley.db", cwd=folder) as served:
        url = served.until_ready()
        text = "\n".join(served.said)
        title = "Open the console as the tenant default (id 1); the link works once, within ten minutes:"
        link = re.search(rf"{re.escape(title)}\n\n  (\S+)\n", text)
        assert link is not None
        page, _, code = link[1].partition("#once=")
        assert page == f"{url}/console/"
        assert not re.search("atr_|adm_|apt_", link[1])
        with httpx2.Client(base_url=url, timeout=60) as browser:
            csrf = browser.get("/console/api/session").json()["csrf"]
            login = {"json": {"once": code}, "headers": {"X-Parley-Csrf": csrf}}
            reply = browser.post("/console/api/session/login", **login)  # pyright: ignore[reportArgumentType]
            assert reply.json()["caller"]["tenant_name"] == "default"
            login["headers"] = {"X-Parley-Csrf": reply.json()["csrf"]}
            again = browser.post("/console/api/session/login", **login)  # pyright: ignore[reportArgumentType]
            assert again.status_code == 401


@pytest.mark.anyio
async def test_a_page_opens_channels_through_all_workers_on_one_port(folder: Path) -> None:
    """Every request has a connection of its own, so that the system gives it to any of the workers."""
    options = ("--port", "0", "--workers", "3", "--store", "sqlite:///parley.db")
    with command("up", *options, cwd=folder) as served, fail_after(120):
        url = await to_thread.run_sync(served.until_ready)
        code = "".join(re.findall(r"#once=(\S+)", "\n".join(served.said)))
        browser = Browser(httpx2.AsyncClient(base_url=url, timeout=60, headers={"Connection": "close"}))
        await browser.load()
        reply = await browser.log_in(once=code)
        assert reply.status_code == 200, reply.text
        page = await browser.page()
        for number in range(12):
            request = streaming("5 miles in km", f"m-{number}")
            reply = await page.open(f"c{number}", "a2a", url="/v1/a2a/agents/units", request=request)
            assert reply.json() == {}
        for number in range(12):
            frames = await page.rest_of(f"c{number}")
            assert frames[-1] == {"channel": f"c{number}", "end": True}
            assert "8.04672" in repr(frames)
        await browser.close()


def test_a_machine_that_reads_the_log_learns_of_the_console_and_gets_no_link(folder: Path) -> None:
    with command("up", "--port", "0", "--store", "memory:", "--log-format", "json", cwd=folder) as served:
        line = served.ready_line()
        assert line["console"] is True
        assert session(line["url"])["needs_login"]
        served.end()
        assert "once=" not in "\n".join(served.said + served.logged)


def test_nothing_of_the_console_is_imported_before_it_is_used() -> None:
    program = "import sys, parley.cli.main, parley.server.app; print([m for m in sys.modules if 'parley.console' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['parley.console', 'parley.console.settings']"


def _console_url(served: Served) -> str:
    line = served.until_said("The console is at ")
    return line.removeprefix("The console is at ").removesuffix("/console/")
