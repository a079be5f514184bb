"""Push notification configs: where and how an agent calls its caller back. Spec: 1.0 section 4.3."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from msgspec import Struct, structs

from parley.protocol.jsonvalue import JsonObject


class PushAuthentication(Struct, frozen=True, omit_defaults=True):
    """How the webhook wants to be called.

    1.0 names one scheme, older dialects a list; `extra` keeps the further members that 0.1 allows.
    """

    schemes: tuple[str, ...]
    credentials: str | None = None
    extra: JsonObject = {}


class PushConfig(Struct, frozen=True, omit_defaults=True):
    """One webhook of one task. `task_id` is `None` only inside a send, where the task may not exist yet."""

    url: str
    task_id: str | None = None
    id: str | None = None
    token: str | None = None
    authentication: PushAuthentication | None = None
    tenant: str | None = None

    def of_task(self, task_id: str) -> PushConfig:
        """The same webhook as one of a task; without an id of its own it gets the task's."""
        return structs.replace(self, task_id=task_id, id=self.id or task_id)


_URL = re.compile(r"""https?://[^\s"'<>`]+""", re.IGNORECASE)
_NETLOC = re.compile(r"[A-Za-z0-9.-]+(:\d*)?|\[[0-9A-Fa-f:.]+\](:\d*)?")


def without_secrets(url: str) -> str:
    """A webhook's URL as logs, traces and reports may show it: the path is often the only secret of its receiver.

    `"https://ada:pw@hooks.example.com/T0/B1/x?key=1"` → `"https://hooks.example.com/…"`
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/…" if parts.scheme and _NETLOC.fullmatch(host) else "…"


def text_without_secrets(text: str) -> str:
    """A text with every URL in it shown as `without_secrets` does: errors quote the webhook that they refuse."""
    return _URL.sub(lambda found: without_secrets(found[0]), text)
