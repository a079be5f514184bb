"""The options of a server that runs agents, which `parley serve` and `parley up` share.

They say where tasks are kept and for how long, how the server shuts down, and what agents may use.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from parley.cli.options.durations import read_duration
from parley.cli.options.groups import OptionGroup
from parley.cli.options.limits import ENGINE_LIMITS, NO_CHANGES, LimitValues, limit_options
from parley.cli.options.server import host_names
from parley.cli.output.help_text import Section
from parley.client.guard import Guard
from parley.engine.limits import Limits
from parley.engine.webhooks.delivery_limits import DeliveryLimits

if TYPE_CHECKING:
    from parley.server.telemetry.audit import AuditTrail

FileHosts: TypeAlias = Literal["public", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """How agents run."""

    store: str
    retention: timedelta | None
    drain_seconds: float
    limits: LimitValues
    file_guard: Guard
    audit_log: Path | None

    @property
    def engine_limits(self) -> Limits:
        """The limits of tasks and runs."""
        return self.limits.of(Limits)

    @property
    def delivery_limits(self) -> DeliveryLimits:
        """The limits of webhook calls."""
        return self.limits.of(DeliveryLimits)

    def audit(self) -> AuditTrail | None:
        """The audit log, not open yet; None if it is off."""
        from parley.server.telemetry.audit import AuditTrail

        return None if self.audit_log is None else AuditTrail(self.audit_log)


_tasks = partial(typer.Option, rich_help_panel=Section.TASKS)
_security = partial(typer.Option, rich_help_panel=Section.SECURITY)
_logs = partial(typer.Option, rich_help_panel=Section.LOGS)

WithEngineLimits = Annotated[LimitValues, OptionGroup(limit_options(*ENGINE_LIMITS))]


def runtime_options(
    store: Annotated[
        str, _tasks(metavar="URL", help="What to store everything in: sqlite:///file.db, or memory: without a file.")
    ] = "sqlite:///parley.db",
    retention: Annotated[
        str | None, _tasks(metavar="TIME", help="Delete finished tasks after this time, such as 30d.")
    ] = None,
    drain_seconds: Annotated[
        float, _tasks(metavar="N", min=0, help="Seconds that runs have to finish at shutdown.")
    ] = 10,
    files: Annotated[
        FileHosts, _security(metavar="WHICH", help="Where agents may read files by URL: public (https) or any.")
    ] = "public",
    file_host: Annotated[
        list[str] | None,
        _security(
            metavar="NAME",
            callback=host_names,
            help="Also let agents read files on this host, private or not; .example.com for all subdomains.",
        ),
    ] = None,
    audit_log: Annotated[Path | None, _logs(metavar="FILE", help="Write an audit log, in lines of JSON.")] = None,
    limits: WithEngineLimits = NO_CHANGES,
) -> RuntimeOptions:
    """Build the value from the options.

    Raises:
        BadParameter: one of them is not valid.
    """
    return RuntimeOptions(
        store=store,
        retention=read_duration(retention, "--retention") if retention else None,
        drain_seconds=drain_seconds,
        limits=limits,
        file_guard=Guard(allow_private=files == "any", allowed_hosts=tuple(file_host or ())),
        audit_log=audit_log,
    )


WithRuntimeOptions = Annotated[RuntimeOptions, OptionGroup(runtime_options)]
