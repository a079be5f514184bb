"""A lock on an open file that other processes see, and that ends with its owner: `flock`.

Some systems have none, Windows among them. There, `lock_file` raises the OSError that it raises on disks without locks,
and its callers say what they do then.
"""

from __future__ import annotations

import errno
from importlib.util import find_spec

HAS_LOCKS = find_spec("fcntl") is not None


def lock_file(handle: int) -> bool:
    """Lock an open file for this process; False if another has locked it.

    Raises:
        OSError: the system or the disk has no locks.
    """
    if not HAS_LOCKS:
        raise OSError(errno.ENOTSUP, "this system has no file locks")
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
