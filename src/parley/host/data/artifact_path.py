"""The paths of artifacts: relative, within bounds, and safe to use on any system.

Artifacts are not files of the host, but callers save them as files. A path comes from a model, so it must not be able
to point outside a directory, hide a file, or name a device.
"""

from __future__ import annotations

import re

from parley.host.data.errors import InvalidValueError

MAX_PATH = 256
MAX_COMPONENT = 128

_DEVICE = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)
"""Names that Windows takes for devices, with or without an extension."""


class InvalidPathError(InvalidValueError):
    """The path of an artifact is not valid."""


def clean_path(path: str) -> str:
    r"""The path in its one form: `notes\\a.md`, `notes//a.md` and `notes/a.md` are the same.

    Raises:
        InvalidPathError: it is empty, too long or absolute, or a component of it is not allowed.
    """
    if not path.isprintable():
        raise InvalidPathError("must not hold control characters", "$.path")
    slashed = path.strip().replace("\\", "/")
    if slashed.startswith("/") or ":" in slashed:
        raise InvalidPathError("must be relative, and without ':'", "$.path")
    components = [component for component in slashed.split("/") if component]
    clean = "/".join(components)
    if not clean or len(clean) > MAX_PATH:
        raise InvalidPathError(f"must be 1 to {MAX_PATH} characters", "$.path")
    for component in components:
        _check(component)
    return clean


def _check(component: str) -> None:
    if component.startswith("."):
        raise InvalidPathError("must not hold '.', '..' or names that begin with a dot", "$.path")
    if len(component) > MAX_COMPONENT:
        raise InvalidPathError(f"each name in it must be at most {MAX_COMPONENT} characters", "$.path")
    if _DEVICE.fullmatch(component):
        raise InvalidPathError("must not hold a name that Windows reserves", "$.path")
