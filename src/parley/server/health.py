"""Health checks for load balancers and operators.

`/livez` succeeds if the event loop runs; a process that does not answer should be restarted. `/readyz` says whether the
server can take requests now, and if not, why; a restart would not help. `/healthz` is another name for it. A server
that drains has a status of its own: it still answers, and no new requests should be sent to it. The reasons are public:
they contain no file names and no callers. A blocked event loop cannot answer at all; `parley.engine.runs.watchdog` logs
it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from parley.engine.store_health import StoreHealth
from parley.protocol.versions import Version
from parley.server.bindings.http import AsgiRequest, reply_error
from parley.wire.rest import MethodNotAllowedError

PATHS = frozenset({"/livez", "/readyz", "/healthz"})


class Reason(Struct, frozen=True, omit_defaults=True):
    """Why a server is not ready: a code for programs and a sentence for people."""

    reason: str
    text: str
    since: datetime | None = None


class Health:
    """The health of a server."""

    def __init__(self, store: StoreHealth) -> None:
        self.store = store
        self.is_draining = False
        """Whether the server shuts down; it may still accept requests for a while."""

    async def reasons(self) -> list[Reason]:
        """Why the server is not ready; empty if it is."""
        found: list[Reason] = []
        if self.is_draining:
            found.append(Reason("draining", "The server is shutting down."))
        elif (problem := await self.store.problem()) is not None:
            found.append(Reason("store", problem.text, problem.since))
        return found

    async def answer(self, request: AsgiRequest, path: str) -> None:
        """Answer a request for one of the three paths."""
        if request.verb not in ("GET", "HEAD"):
            await reply_error(request, Version.V1_0, MethodNotAllowedError(["GET", "HEAD"]))
            return
        reasons = [] if path == "/livez" else await self.reasons()
        status = "ok" if not reasons else "draining" if self.is_draining else "not ready"
        body = {"status": status, "reasons": reasons} if reasons else {"status": status}
        await request.reply(
            503 if reasons else 200, msgspec.json.encode(body), headers=[(b"cache-control", b"no-store")]
        )
