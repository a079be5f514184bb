"""Looks at every message of a server before the SDK does: stops floods, and what would take the SDK too long to check.

The SDK lists everything that is wrong with a message, so that two megabytes of wrong items cost it gigabytes and half a
minute. Log messages, progress and other notifications are dropped. Tools of a list that the SDK would refuse are
dropped as well, because it would refuse the whole list for one of them. This module imports the SDK.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterable
from types import TracebackType
from typing import Self, cast

import anyio
import mcp_types as types
from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic import ValidationError

from parley.host.mcp.link import McpLink
from parley.host.mcp.rate import RateAllowance
from parley.host.mcp.tools import MAX_TOOLS

BURST = 2_000
"""Messages that may come at once."""

PER_SECOND = 200.0
"""Messages that may come in the long run. Agents ask for a few results in a second, and for no progress."""

MAX_VALUES = 5_000
"""Members and items of a message, or of one tool in a list: far more than a model reads. Structured content is not
counted, because the SDK does not look into it."""

MAX_MALFORMED = 20
"""Malformed tools whose names are kept."""

FLOOD = "the server floods the host with messages"

_LIST_VERSION = "2025-11-25"
"""The release of MCP by which the entries of a list are checked one by one; later ones allow more."""

_CANCELLED = "notifications/cancelled"
_TOOLS_CHANGED = "notifications/tools/list_changed"


class InboundMessages:
    """The messages of a server that the SDK reads."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], link: McpLink) -> None:
        self._stream = stream
        self._link = link
        self._rate = RateAllowance(BURST, PER_SECOND)

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the task that sent the last message, as the SDK's own streams have it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message. Raises EndOfStream."""
        while True:
            item = await self._stream.receive()
            if not self._rate.take():
                self._link.end(FLOOD)
                raise anyio.EndOfStream
            if isinstance(item, Exception):
                return item
            message = self._checked(item.message)
            if message is not None:
                return SessionMessage(message, item.metadata)

    def _checked(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage | None:
        """The message that the SDK gets in place of one that has come; None if it gets none."""
        match message:
            case types.JSONRPCNotification(method=method):
                if method == _TOOLS_CHANGED:
                    self._link.on_tools_changed()
                return message if method == _CANCELLED else None
            case types.JSONRPCRequest(params=params):
                return None if has_many_values(params) else message
            case types.JSONRPCResponse(id=id, result=result):
                tools = result.get("tools")
                if isinstance(tools, list):
                    listed = cast("list[object]", tools)[: MAX_TOOLS + 1]
                    result["tools"] = _well_formed_tools(listed, self._link.malformed_tools)
                others = {name: value for name, value in result.items() if name not in ("tools", "structuredContent")}
                if not has_many_values(others):
                    return message
                text = f"The answer has more than {MAX_VALUES} members and items"
                error = types.ErrorData(code=types.INTERNAL_ERROR, message=text)
                return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)
            case _:
                return message

    # --- the rest of a stream -----------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


def has_many_values(value: object, most: int = MAX_VALUES) -> bool:
    """Whether a JSON value holds more than so many values in all."""
    level: list[object] = [value]
    count = 0
    while level:
        count += len(level)
        if count > most:
            return True
        level = [inner for one in level for inner in _inner_values(one)]
    return False


def _inner_values(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _well_formed_tools(tools: list[object], malformed: list[str]) -> list[object]:
    """The tools of a list that the SDK accepts. The names of others are added to `malformed`."""
    kept: list[object] = []
    for tool in tools:
        if _is_tool(tool):
            kept.append(tool)
        elif len(malformed) < MAX_MALFORMED:
            name = cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else None
            malformed.append(name if isinstance(name, str) else "?")
    return kept


def _is_tool(tool: object) -> bool:
    if not isinstance(tool, dict) or has_many_values(cast("dict[str, object]", tool)):
        return False
    try:
        methods.validate_server_result("tools/list", _LIST_VERSION, {"tools": [tool]})
    except ValidationError:
        return False
    return True
