"""Three questions about a server, for load balancers and operators: is it alive, is it ready, why not.

`/livez` is answered by every process whose event loop runs: one that does not answer should be restarted. `/readyz`
says whether requests should come here now, and if not, why: a restart would not help. `/healthz` is the same question
under its usual name. The reasons are for anybody to read: they name no files and no callers. A loop that is blocked
cannot answer at all; `parley.engine.watchdog` tells of it.
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
    """Why a server is not ready: one word for machines, a sentence for people."""

    reason: str
    text: str
    since: datetime | None = None


class Health:
    """How a server is."""

    def __init__(self, store: StoreHealth) -> None:
        self.store = store
        self.is_draining = False

    async def reasons(self) -> list[Reason]:
        """Why requests should go elsewhere now; none if the server is ready."""
        found: list[Reason] = []
        if self.is_draining:
            found.append(Reason("draining", "The server is shutting down."))
        elif (trouble := await self.store.trouble()) is not None:
            found.append(Reason("store", trouble.text, trouble.since))
        return found

    async def answer(self, request: AsgiRequest, path: str) -> None:
        """Answer one of the three questions."""
        if request.verb not in ("GET", "HEAD"):
            await reply_error(request, Version.V1_0, MethodNotAllowedError(["GET", "HEAD"]))
            return
        reasons = [] if path == "/livez" else await self.reasons()
        body = {"status": "not ready", "reasons": reasons} if reasons else {"status": "ok"}
        await request.reply(
            503 if reasons else 200, msgspec.json.encode(body), headers=[(b"cache-control", b"no-store")]
        )
