"""A worker process's side of `--workers`: it reports to its parent, and ends when the parent does."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
from rich.console import Console

from parley.cli.options.handover import Handover, WorkerReport
from parley.cli.serving.reload import exit_with_parent


class WorkerChannel:
    """The pipes between this worker and its parent."""

    def __init__(self, handover: Handover) -> None:
        """Take over the pipes. From now on this process drains and ends when its parent ends."""
        self._reports = handover.reports
        for descriptor in (handover.reports, handover.parent, *handover.listening):
            os.set_inheritable(descriptor, False)  # what agents start must not hold them
        exit_with_parent(handover.parent)

    def report_ready(self, url: str, announcement: str) -> None:
        """Tell the parent that this worker serves."""
        self._report(WorkerReport(url=url, announcement=announcement))

    def report_draining(self) -> None:
        """Tell the parent that this worker was asked in the store to drain, and is not to be started again."""
        self._report(WorkerReport(is_draining=True))

    def _report(self, report: WorkerReport) -> None:
        try:
            os.write(self._reports, msgspec.json.encode(report) + b"\n")
        except OSError:  # the parent has ended, and this process ends soon
            return


def open_channel(handover: Handover | None) -> WorkerChannel | None:
    """The channel to the parent, if this process is one of several workers."""
    return None if handover is None else WorkerChannel(handover)


def announce(show: Callable[[Console], None], url: str, channel: WorkerChannel | None) -> None:
    """Print what is served, or let the parent print it when all workers are ready."""
    console = Console(highlight=False)
    if channel is None:
        show(console)
        return
    with console.capture() as captured:
        show(console)
    channel.report_ready(url, captured.get())
