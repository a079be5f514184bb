"""Why the times of a schedule are refused."""

from __future__ import annotations

from parley.host.data.errors import InvalidValueError


class InvalidTimingError(InvalidValueError):
    """A member that says when a schedule runs is not valid. `member` is its name."""

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(reason, f"$.{member}")
        self.member = member
