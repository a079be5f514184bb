"""Which line of an author's code is at work, for log lines that name it."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).parents[2])
_ASYNCIO = str(Path(asyncio.__file__).parent)


def without_parley(stack: traceback.StackSummary) -> traceback.StackSummary:
    """The frames of a handler, without those of Parley that called it; the whole stack if there are no others."""
    own = [index for index, frame in enumerate(stack) if frame.filename.startswith(PACKAGE)]
    rest = stack[own[-1] + 1 :] if own else []
    return traceback.StackSummary.from_list(rest or stack)


def author_line(here: FrameType | None, suspended: FrameType | None) -> str:
    """The line of the author's code that called, else that of a suspended handler: ` (in plan, line 12 of trip.py)`."""
    while here is not None and here.f_code.co_filename.startswith(PACKAGE):
        here = here.f_back
    is_author = here is not None and not here.f_code.co_filename.startswith(_ASYNCIO)
    frame = here if is_author else suspended
    if frame is None:
        return ""
    return f" (in {frame.f_code.co_name}, line {frame.f_lineno} of {frame.f_code.co_filename})"
