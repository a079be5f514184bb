"""The page on serving: it names every option, says the true numbers, and its programs run."""

import re
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after
from httpx2 import ASGITransport, AsyncClient
from typer.main import get_command

from parley.cli.main import app
from parley.server.listener import ListenerLimits

PAGE = (Path(__file__).parent.parent.parent / "docs" / "serving.md").read_text()


def test_every_option_is_on_the_page_and_no_other() -> None:
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    shown = [option for option in command.params if not getattr(option, "hidden", False)]
    options = {name for option in shown for name in (*option.opts, *option.secondary_opts)}
    table = {name for row in PAGE.splitlines() if row.startswith("| `--") for name in re.findall(r"`(--[a-z-]+)", row)}
    assert {name for name in options if name.startswith("--")} - {"--help"} == table


def test_the_numbers_are_those_of_the_limits() -> None:
    limits = ListenerLimits()
    for words in (
        f"more than {limits.header_seconds:g} s for a request's headers",
        f"less than {limits.body_bytes_per_second:g} bytes a second, over {limits.body_seconds:g} s",
        f"more than {limits.headers} headers, or {limits.head_bytes // 1024} KiB",
        f"at {limits.write_bytes_per_second:g} bytes a second over {limits.write_seconds:g} s",
        f"idle for {limits.idle_seconds:g} s",
        f"has {limits.connections_per_address:,} connections open, or is one more than {limits.connections:,}",
    ):
        assert words in PAGE


def programs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        names: dict[str, Any] = {}
        exec(text, names)
        found.append(names)
    return found


@pytest.mark.anyio
async def test_the_mounted_app_answers() -> None:
    site = programs()[0]["site"]
    with fail_after(10):
        async with site.router.lifespan_context(site), AsyncClient(transport=ASGITransport(site)) as client:
            reply = await client.get("http://here/echo/.well-known/agent-card.json")
    assert (reply.status_code, reply.json()["name"]) == (200, "Echo")
    assert reply.json()["supportedInterfaces"][0]["url"].startswith("http://here/echo")


def test_the_program_of_ones_own_is_complete() -> None:
    assert callable(programs()[1]["main"])
