"""Tells clients when the agents have changed: sessions of older versions, and subscriptions of 2026-07-28.

A change is only a hint to list the agents again, so several of them may be told as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

INITIALIZED = "notifications/initialized"
SESSION_HEADER = "mcp-session-id"


class ListChanges:
    """What subscribers of one server listen to. It is a `SubscriptionBus` of the SDK."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}

    def changed(self) -> None:
        """Tell all listeners that agents were added, replaced or removed."""
        for event in (ToolsListChanged(), ResourcesListChanged()):
            for listener in tuple(self._listeners.values()):
                listener(event)

    async def publish(self, event: ServerEvent) -> None:
        """Tell all listeners of one event."""
        for listener in tuple(self._listeners.values()):
            listener(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Call a function with every event, until the function that is returned is called."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None


class SessionNotifier:
    """Middleware that tells each session of changes, from its handshake on.

    The SDK cancels what a session's messages have begun when the session ends, so the wait for changes ends with it.
    """

    def __init__(self, changes: ListChanges) -> None:
        self._changes = changes
        self._notified: set[str] = set()
        """The ids of sessions that are told already: a client may repeat the end of its handshake."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass a message on; after the one that ends the handshake, wait for changes."""
        result = await call_next(ctx)
        if ctx.method == INITIALIZED and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._notify(ctx)
        return result

    async def _notify(self, ctx: ServerRequestContext[Any, Any]) -> None:
        session_id = "" if ctx.request is None else ctx.request.headers.get(SESSION_HEADER, "")
        if session_id in self._notified:
            return
        has_changed = asyncio.Event()
        stop = self._changes.subscribe(lambda _: has_changed.set())
        self._notified.add(session_id)
        try:
            while True:
                await has_changed.wait()
                has_changed.clear()
                await ctx.session.send_tool_list_changed()
                await ctx.session.send_resource_list_changed()
        finally:
            stop()
            self._notified.discard(session_id)
