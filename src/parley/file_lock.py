"""A lock on an open file between processes, released when its owner ends: `flock`.

Some systems, such as Windows, have no `flock`. There `lock_file` raises OSError, as it does on disks without locks.
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
