"""The page on the proxy names every option, and its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from parley.cli.main import app
from parley.cli.output.help_text import LIMITS
from parley.client.options import Bounds
from parley.proxy import ledger, listing, read_ahead
from parley.proxy import upstream_webhooks as hooks
from parley.server.security.throttle import RateLimits

PAGE = (Path(__file__).parent.parent.parent / "docs" / "proxy.md").read_text()


def test_every_option_is_on_the_page_and_no_other() -> None:
    command = get_command(app).commands["proxy"]  # type: ignore[attr-defined]
    options = {name for option in command.params for name in option.opts if option.rich_help_panel not in LIMITS}
    table = {name for row in PAGE.splitlines() if row.startswith("| `--") for name in re.findall(r"`(--[a-z-]+)", row)}
    assert {name for name in options if name.startswith("--")} - {"--help"} == table


def test_the_numbers_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    for said in (
        f"{ledger.MAX_NAMES:,} of each",
        f"the newest {listing.MAX_READ} tasks",
        f"{hooks.MAX_WEBHOOKS:,} tasks with webhooks are kept, and {hooks.MAX_BYTES // 2**20} MiB of them",
        f"At most another {read_ahead.MAX_BYTES // 2**20} MiB waits for a slow reader",
        f"up to {Bounds().stream_bytes // 2**30} GiB",
        f"after {RateLimits().failures_per_minute} within a minute",
    ):
        assert said in words, said
    assert ledger.FAIR_SHARE == 0.01  # a hundredth
