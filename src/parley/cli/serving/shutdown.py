"""What a command that serves says about its end: what happens to runs and tasks."""

from __future__ import annotations

import logging
from contextlib import suppress

import typer

from parley.cli.options.runtime import RuntimeOptions
from parley.cli.options.server import LogFormat

logger = logging.getLogger(__name__)


def report_drain(runs: int, runtime: RuntimeOptions, log_format: LogFormat) -> None:
    """Say which runs have time to finish, or that they are interrupted."""
    if not runs:
        return
    what = "1 run" if runs == 1 else f"{runs} runs"
    if runtime.drain_seconds:
        line = f"Finishing {what}, up to {runtime.drain_seconds:g} s; press Ctrl+C again to stop now."
    else:
        line = f"Interrupting {what}; {shutdown_note(runtime.store)}."
    if log_format == "json":
        logger.info(line)
    else:
        with suppress(OSError):  # the terminal may be gone
            typer.echo(line, err=True)


def shutdown_note(store: str) -> str:
    """What happens to tasks when the server ends."""
    return "tasks are lost (--store memory:)" if store == "memory:" else "unfinished tasks continue at the next start"
