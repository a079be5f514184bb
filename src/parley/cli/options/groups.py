"""Options that several commands share, declared once.

A group is a function whose parameters are options, and which builds one value from them. A command has a parameter
`Annotated[Value, OptionGroup(function)]`; `with_option_groups` replaces it by the options of the function, and calls
the function with what was typed. A group may contain others. A command that is a coroutine function returns its exit
code.

Typer sees separate options, so help, completion and error messages are as if the command had declared them. In the
help, a command's own options come first.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo

from parley.cli.output.exit_codes import run


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Marks a parameter whose value a function builds from options."""

    make: Callable[..., Any]


def with_option_groups(command: Callable[..., Coroutine[Any, Any, int] | None]) -> Callable[..., None]:
    """The command with separate options instead of its groups, run to its end if it is a coroutine function."""

    @functools.wraps(command)
    def with_separate_options(**given: Any) -> None:
        values = _values(command, given)
        work = command(**values)
        if work is not None:
            run(work, as_json=values.get("as_json", False), options=values["options"])

    parameters = [parameter for _, parameter in sorted(_ranked(command, is_shared=False), key=lambda ranked: ranked[0])]
    # Typer reads both, and `wraps` has copied those of the command.
    with_separate_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    with_separate_options.__dict__["__signature__"] = inspect.Signature(parameters)
    return with_separate_options


def _values(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What to call a function with: the options that were given, and what its groups build from them."""
    groups = {name: _group_of(parameter) for name, parameter in _parameters(function).items()}
    return {
        name: given[name] if group is None else group.make(**_values(group.make, given))
        for name, group in groups.items()
    }


def _ranked(function: Callable[..., Any], *, is_shared: bool) -> Iterator[tuple[int, inspect.Parameter]]:
    """All parameters with their rank: arguments, then the command's own options, then those of groups."""
    for parameter in _parameters(function).values():
        group = _group_of(parameter)
        if group is not None:
            yield from _ranked(group.make, is_shared=True)
        else:
            rank = 0 if _is_argument(parameter) else 2 if is_shared else 1
            # Keyword-only, because a parameter with a default may now precede one without.
            yield rank, parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(word, ArgumentInfo) for word in get_args(parameter.annotation))


def _group_of(parameter: inspect.Parameter) -> OptionGroup | None:
    if get_origin(parameter.annotation) is not Annotated:
        return None
    return next((word for word in get_args(parameter.annotation) if isinstance(word, OptionGroup)), None)
