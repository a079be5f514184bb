"""Everything below `/console/remote/ID`: the agent of the session with this id, served by an in-process proxy.

The proxy gets the headers that A2A defines and no others: neither the cookie nor the credentials of this server may
reach an agent elsewhere. Of its replies, the browser gets no cookies and no challenges, which would open a dialog.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from starlette.types import Send

from parley.console.agents.connections import RemoteConnections
from parley.console.agents.roster import REMOTE_PATH, Roster
from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleCall
from parley.server.bindings.failures import Header

FORWARDED = frozenset(
    {
        *("accept", "a2a-extensions", "a2a-version", "content-length", "content-type", "host", "last-event-id"),
        *("transfer-encoding", "x-a2a-extensions"),
    }
)

REMOVED = frozenset({b"set-cookie", b"www-authenticate", b"clear-site-data", b"location", b"refresh"})

SAFE_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""The proxy also has pages for people, which would run as the console's own."""

UNAUTHENTICATED = 401


async def call_remote(call: ConsoleCall) -> None:
    """Let the proxy of an agent answer.

    Raises:
        ConsoleError, PermissionDeniedError: the session has no such agent, or may call none, or it cannot be called.
    """
    segment, _, rest = call.path["rest"].partition("/")
    agent_id = unquote(segment)
    call.backend.require(call.caller, "call")
    if not call.session.id:
        raise ConsoleError("unsupported", "Agents elsewhere need a session; programs call them themselves")
    entry = await call.console.shared(Roster).find_remote(call.session, call.caller, agent_id, call.request.base_url)
    if entry is None:
        raise ConsoleError("not_found", "There is no such agent in this session")
    connections = call.console.shared(RemoteConnections)
    is_json_rpc = call.request.verb == "POST" and not rest

    def on_status(status: int) -> int:
        connections.answered(call.session, entry, is_refused=status == UNAUTHENTICATED)
        if status != UNAUTHENTICATED:
            return status
        return 200 if is_json_rpc else 502  # 401 would mean that the console's own session has ended

    headers = [(name, value) for name, value in call.request.raw_headers if name.decode("latin-1").lower() in FORWARDED]
    below = f"{REMOTE_PATH}{quote(agent_id, safe='')}"
    async with connections.using(call.session, entry) as found:
        await call.request.pass_to(found.app, below, headers, lambda send: _filtered(send, on_status))


def _filtered(send: Send, on_status: Any) -> Send:
    async def send_filtered(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers: Sequence[Header] = message.get("headers", ())
            kept = [header for header in headers if _is_kept(header[0].lower())]
            message = {**message, "status": on_status(message["status"]), "headers": [*kept, *SAFE_HEADERS]}
        await send(message)

    return send_filtered


def _is_kept(name: bytes) -> bool:
    is_ours = name in (b"content-security-policy", b"x-content-type-options")
    return name not in REMOVED and not is_ours and not name.startswith(b"access-control-")
