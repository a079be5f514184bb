"""What the parent of several worker processes hands to one of them, as the value of a hidden option.

The parent is `parley.cli.serving.workers`. Descriptors are those of the child, which inherits them.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Handover(Struct, frozen=True, kw_only=True):
    """What a worker process begins with."""

    number: int
    """1 for the first worker, which also says what is served."""
    is_restart: bool
    listening: tuple[int, ...]
    """The sockets that all workers share."""
    grpc_port: int | None
    parent: int
    """A pipe that is closed when the parent ends."""
    reports: int
    """A pipe to the parent, for lines of JSON: `WorkerReport`."""
    replica: str
    hints_folder: str
    """A folder for the sockets of workers that share a SQLite file."""

    def encode(self) -> str:
        """The value of the option."""
        return msgspec.json.encode(self).decode()


class WorkerReport(Struct, frozen=True, omit_defaults=True):
    """What a worker process tells its parent."""

    url: str = ""
    """Where it serves, once it is ready."""
    announcement: str = ""
    """What to print when all workers are ready."""
    is_draining: bool = False
    """Whether it was asked in the store to drain, and is not to be started again."""


def decode_handover(text: str) -> Handover:
    """What the parent has handed over. Raises msgspec.MsgspecError: the option was not set by a parent."""
    return msgspec.json.decode(text, type=Handover)
