"""What a command of `parley admin` is: one route of the native API, and where each argument and option goes.

The commands are data (`table`). `typer_commands` makes real commands of them, `host_connection` makes the call, and
`reply_text` shows the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

OptionType: TypeAlias = type[str] | type[int] | type[float] | type[bool] | type[list[str]]


WHOLE_BODY = "$"
"""The member that stands for the body itself; other members are added to it."""


class Target(Enum):
    """Where the value of an option goes."""

    BODY = "body"
    QUERY = "query"
    IF_MATCH = "if-match"


@dataclass(frozen=True, slots=True)
class AdminOption:
    """An option such as `--expires-in-seconds 3600`.

    `member` is the member of the body or the query parameter, with dots for members of members; by default it is the
    name of the option. `is_json` says that the value is JSON, or `@` and a file with JSON; `is_word_or_number`, that
    digits are sent as a number.
    """

    name: str
    help: str
    type: OptionType = str
    metavar: str = "TEXT"
    member: str = ""
    target: Target = Target.BODY
    is_required: bool = False
    is_json: bool = False
    is_word_or_number: bool = False

    @property
    def path(self) -> Sequence[str]:
        """The names that lead to the member."""
        return (self.member or self.name.replace("-", "_")).split(".")


@dataclass(frozen=True, slots=True)
class AdminArgument:
    """An argument, which takes the place of a segment in braces in the route's path, or is a member of the body."""

    name: str
    help: str
    member: str = ""
    """The member of the body, if it is not a segment of the path."""
    is_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCommand:
    """One command. Without columns, the reply is shown member by member."""

    words: tuple[str, str]
    """The group and the name: `tokens create`."""
    help: str
    example: str
    """What follows `parley admin` in an example."""
    method: str
    path: str
    arguments: tuple[AdminArgument, ...] = ()
    options: tuple[AdminOption, ...] = ()
    rows: str = ""
    """The member of the reply that holds the rows of a table."""
    columns: tuple[str, ...] = ()
    is_text: bool = False
    """Whether the reply is text, which is printed as it is."""

    @property
    def is_for_tenant(self) -> bool:
        """Whether the route belongs to one tenant, which an operator has to name."""
        return not self.path.startswith("/v1/admin/")
