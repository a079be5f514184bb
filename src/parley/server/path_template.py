"""Path templates such as `/v1/conversations/{id:int}/messages`: a segment in braces matches any one segment.

`int` says that the segment is a number, for documents; it is not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

PARAMETER = re.compile(r"\{(\w+)(:int)?\}")


def match_path(template: str, segments: Sequence[str]) -> dict[str, str] | None:
    """The parameters in the segments of a path, decoded; None if the path is another one."""
    wanted_segments = template.split("/")
    if len(wanted_segments) != len(segments):
        return None
    found: dict[str, str] = {}
    for wanted, given in zip(wanted_segments, segments, strict=True):
        parameter = PARAMETER.fullmatch(wanted)
        if parameter and given:
            found[parameter[1]] = unquote(given)
        elif wanted != given:
            return None
    return found
