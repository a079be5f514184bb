"""Push notification configs: where and how an agent calls its caller back. Spec: 1.0 section 4.3."""

from __future__ import annotations

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
