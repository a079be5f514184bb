"""A failing play of the simulation, made small: fewer workers, and only the steps without which it does not fail."""

from __future__ import annotations

from collections.abc import Sequence

from parley.protocol.errors import ParleyError
from tests.ownership.simulation import Violation, World

MOST_PLAYS = 200
"""Plays that are tried to make one smaller; each takes some hundredths of a second."""


async def failure_of(seed: int, steps: Sequence[int], workers: int) -> tuple[str, list[str]] | None:
    """Why a play fails and what happened in it; None if it does not fail."""
    world = World(seed, workers=workers)
    try:
        await world.play(steps)
    except (Violation, ParleyError) as error:  # or a log that makes no task
        return f"{type(error).__name__}: {error}", world.trace
    return None


async def counterexample(seed: int, number_of_steps: int, *, most_plays: int = MOST_PLAYS) -> str | None:
    """The smallest failing play that was found for a seed, as text; None if it does not fail."""
    steps, workers = list(range(number_of_steps)), 3
    found = await failure_of(seed, steps, workers)
    if found is None:
        return None
    plays, size = 0, len(steps) // 2
    for fewer in (1, 2):
        if (smaller := await failure_of(seed, steps, fewer)) is not None:
            found, workers = smaller, fewer
            break
    while size > 0 and plays < most_plays:
        begin, is_smaller = 0, False
        while begin < len(steps) and plays < most_plays:
            kept, plays = steps[:begin] + steps[begin + size :], plays + 1
            smaller = await failure_of(seed, kept, workers)
            if smaller is None:
                begin += size
            else:
                steps, found, is_smaller = kept, smaller, True
        size = size if is_smaller and size == 1 else size // 2
    text, trace = found
    lines = [f"World({seed}, workers={workers}).play({steps}) fails:", *trace, text]
    return "\n".join(lines)
