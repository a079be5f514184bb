"""`/parley/data` below an agent's URL: the caller's data with this agent, to export (GET) or to delete (DELETE).

A2A has no operation for either. The query says what: `task=ID`, `context=ID` or `all=true`, `tenant=` where the
credentials name none, and for DELETE `cancel=true`. Callers are authenticated as for every operation, and see nothing
of others. All callers without credentials are one owner, so none of them may.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec

from parley.engine.caller import Caller
from parley.engine.owner_data import DeletedData, Selection
from parley.protocol.errors import InvalidParamsError, PermissionDeniedError
from parley.server.bindings.failures import ClientDisconnected, Header
from parley.server.bindings.http import JSON, AsgiRequest
from parley.server.security.credentials import Identity

logger = logging.getLogger(__name__)

DATA_PATH = "/parley/data"
VERBS = ("DELETE", "GET")
NDJSON = b"application/x-ndjson"
NO_STORE: Header = (b"cache-control", b"no-store")
CHUNK = 64 * 1024
PARAMETERS = ("all", "cancel", "context", "task", "tenant")


class DataOperations(Protocol):
    """Export and deletion of a caller's data."""

    def export(self, caller: Caller, selection: Selection) -> AsyncGenerator[bytes]:
        """The data as lines of JSON. Raises A2AError before the first line."""
        ...

    async def delete(self, caller: Caller, selection: Selection, *, cancels: bool) -> DeletedData:
        """Delete the data. Raises A2AError."""
        ...


def check_is_known(identity: Identity) -> None:
    """Check that a caller has credentials.

    Nothing in a request shows that it comes from this machine: a proxy here may pass on none of what its caller sent.

    Raises:
        PermissionDeniedError: it has none, and all such callers are one owner.
    """
    if not identity.name:
        raise PermissionDeniedError(
            "Callers without credentials are not told apart, so none of them can export or delete data. The operator "
            "can: parley tasks export or delete, with --store"
        )


def read_selection(query: Mapping[str, Sequence[str]], agent_id: str | None) -> Selection:
    """What a query selects.

    Raises:
        InvalidParamsError: it does not say what, or has something else in it.
    """
    for name, values in query.items():
        if name not in PARAMETERS or len(values) != 1 or not values[0]:
            expected = f"Expected each of {', '.join(PARAMETERS)} at most once, with a value"
            raise InvalidParamsError(f"Invalid query parameter {name!r}. {expected}", path=f"$.{name}")
    task, context, is_all = read_text(query, "task"), read_text(query, "context"), read_flag(query, "all")
    if (task is not None) + (context is not None) + is_all != 1:
        raise InvalidParamsError("Say what: one of task=ID, context=ID and all=true", path="$")
    return Selection(agent_id, context, task)


def read_text(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    """A parameter that is a text."""
    return query[name][0] if name in query else None


def read_flag(query: Mapping[str, Sequence[str]], name: str) -> bool:
    """A parameter that is true or false. Raises InvalidParamsError if it is neither."""
    text = read_text(query, name) or "false"
    if text not in ("true", "false"):
        raise InvalidParamsError(f"Invalid value of {name}: {text!r}. Expected true or false", path=f"$.{name}")
    return text == "true"


async def reply_export(request: AsgiRequest, lines: AsyncGenerator[bytes]) -> None:
    """Stream an export. An error before the first line is raised; later, the last line of the file says it."""
    async with aclosing(lines):
        pending = bytearray(await anext(lines))
        await request.start_reply(200, [(b"content-type", NDJSON), NO_STORE])
        try:
            async for line in lines:
                pending += line
                if len(pending) >= CHUNK:
                    await request.send_chunk(bytes(pending))
                    pending.clear()
        except ClientDisconnected:
            raise
        except Exception:  # the reply has begun: only the file can say it
            logger.exception("An export of a caller's data failed")
            pending += b'{"kind":"error","text":"The export is not whole; the log of the server says why."}\n'
        await request.send_chunk(bytes(pending), is_last=True)


async def reply_deleted(request: AsgiRequest, deleted: DeletedData) -> None:
    """Reply how much was deleted."""
    await request.reply(200, msgspec.json.encode(deleted), JSON, [NO_STORE])
