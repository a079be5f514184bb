"""Ids in the resource names of 0.3's protobuf, as peers write them beside or instead of the id itself.

a2a-sdk 0.3 writes Python's `None` where a webhook has no id. Spec: 0.3.0 a2a.proto.
"""

from __future__ import annotations

import re

_CONFIG_NAME = re.compile(r"tasks/(?P<task>.+)/pushNotificationConfigs/(?P<id>.*)", re.DOTALL)


def real_id(text: str) -> str | None:
    """An id, or `None` for a text that means none."""
    return None if text in ("", "None") else text


def task_in_name(name: str) -> str | None:
    """The task of a webhook: `tasks/t1/pushNotificationConfigs/c1` is of `t1`."""
    found = _CONFIG_NAME.fullmatch(name)
    return found["task"] if found else None


def id_in_name(name: str) -> str | None:
    """The id of a webhook: `tasks/t1/pushNotificationConfigs/c1` is `c1`."""
    found = _CONFIG_NAME.fullmatch(name)
    return real_id(found["id"]) if found else None
