"""A session with an MCP server, over either transport: opened, asked for tools, and given calls. Imports the SDK.

The block of `open_session` must begin and end in one task; calls may come from any. Errors are translated here, once:
what a server says is made safe, and its secrets are removed. Of the protocol only tools are used; requests of a server
to the host (sampling, elicitation, roots) are refused by the SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from opentelemetry import baggage
from opentelemetry import context as otel_context
from pydantic import RootModel, ValidationError

from parley import __version__
from parley.host.mcp.errors import McpCallError, McpSessionLostError, McpUnavailableError
from parley.host.mcp.http_transport import McpHttpTransport
from parley.host.mcp.inbound import InboundMessages
from parley.host.mcp.link import CALL_HEADERS, McpLink
from parley.host.mcp.results import error_text
from parley.host.mcp.server_config import McpProcess, McpServerConfig
from parley.host.mcp.stdio_transport import stdio_streams
from parley.host.mcp.tools import MAX_LIST_BYTES, MAX_TOOLS, ToolList, read_tools
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject

MAX_PAGES = 20
"""Pages of a list of tools. A server whose list has no end is asked no further."""

_NOISY = ("mcp.client", "client", "httpx2", "mcp.shared")
"""Loggers of the SDK, which quote what servers send."""


class _AnyResult(RootModel[dict[str, Any]]):
    """A result as it came. The SDK has checked that it is one of the protocol version."""


class McpSession:
    """An open session."""

    def __init__(self, config: McpServerConfig, client: Client, link: McpLink) -> None:
        self.config = config
        self.link = link
        self._client = client

    async def list_tools(self) -> ToolList:
        """The tools of the server.

        Raises:
            McpUnavailableError, McpCallError: there is no list.
        """
        listed: list[object] = []
        cursor: str | None = None
        size = 0
        self.link.malformed_tools.clear()
        with self._translated("tools/list"):
            for _ in range(MAX_PAGES):
                page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
                entries = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
                listed += entries
                size += sum(len(str(entry)) for entry in entries)
                cursor = page.next_cursor
                if cursor is None or len(listed) > MAX_TOOLS or size > MAX_LIST_BYTES:
                    break
        # In a thread: looking through hundreds of schemas takes a while.
        return await asyncio.to_thread(
            read_tools, self.config, listed, malformed=tuple(self.link.malformed_tools), is_cut=cursor is not None
        )

    async def call_tool(
        self, name: str, arguments: JsonObject, *, meta: JsonObject, headers: Mapping[str, str]
    ) -> JsonObject:
        """The result of a tool, as the server sends it. A call that is cancelled is cancelled at the server, too.

        Raises:
            McpSessionLostError: the server has forgotten the session, and has not carried out the call.
            McpUnavailableError, McpCallError: there is no result.
        """
        given: types.RequestParamsMeta | None = {**meta} if meta else None  # pyright: ignore[reportAssignmentType]
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=arguments, _meta=given)  # pyright: ignore[reportCallIssue]
        )
        with self._translated("tools/call"), _without_baggage(), _call_headers(headers):
            result = (await self._client.session.send_request(request, _AnyResult)).root
        if result.get("resultType") == "input_required":
            raise McpCallError("The tool asks for more input, which agents cannot give.")
        return result

    @contextmanager
    def _translated(self, method: str) -> Generator[None]:
        try:
            yield
        except MCPError as error:
            text = error_text(self.config, error.message)
            if self.link.is_session_lost:
                raise McpSessionLostError(f"The MCP server {self.config.name} has ended the session.") from None
            if self.link.over.is_set() or error.code == types.CONNECTION_CLOSED:
                reason = error_text(self.config, self.link.reason) or text
                raise McpUnavailableError(f"The MCP server {self.config.name} failed: {reason}") from None
            raise McpCallError(f"The MCP server {self.config.name} refused {method}: {text}") from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))[:100]
            raise McpCallError(
                f"The MCP server {self.config.name} answered {method} with something else than MCP defines: "
                f"{error_text(self.config, where)}: {error_text(self.config, first['msg'])}"
            ) from None


@asynccontextmanager
async def open_session(config: McpServerConfig, link: McpLink) -> AsyncGenerator[McpSession]:
    """A session that is open while the block lasts.

    Raises:
        McpUnavailableError: the server cannot be started or reached, or is not an MCP server; the text is the reason.
    """
    client = Client(
        _streams(config, link),
        mode="auto",
        cache=None,
        client_info=types.Implementation(name="parley", version=__version__),
    )
    try:
        async with client:
            yield McpSession(config, client, link)
    except Exception as error:  # whatever the SDK raises; its groups of tasks wrap it
        raise McpUnavailableError(error_text(config, link.reason or _why(error))) from None


def _why(error: BaseException) -> str:
    """Why a session could not be opened, or broke."""
    match error:
        case BaseExceptionGroup():
            return _why(error.exceptions[0])
        case OSError():
            return f"it cannot be started: {error.strerror or type(error).__name__}"
        case MCPError():
            return f"its handshake failed: {error.message}"
        case ParleyError():
            return error.message
        case _:
            return f"what it sends is not MCP ({type(error).__name__})"


@asynccontextmanager
async def _streams(config: McpServerConfig, link: McpLink) -> AsyncGenerator[TransportStreams]:
    if isinstance(config.endpoint, McpProcess):
        async with stdio_streams(config, config.endpoint, link) as (received, to_send):
            yield InboundMessages(received, link), to_send
        return
    transport = McpHttpTransport(config, config.endpoint, link)
    async with (
        httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as http,
        streamable_http_client(config.endpoint.url, http_client=http, max_sse_event_size=config.max_result_bytes) as (
            received,
            to_send,
        ),
    ):
        yield InboundMessages(received, link), to_send


@contextmanager
def _without_baggage() -> Generator[None]:
    """A block in which the SDK passes the trace on, and not its baggage, which may hold anything a caller has sent."""
    token = otel_context.attach(baggage.clear())
    try:
        yield
    finally:
        otel_context.detach(token)


@contextmanager
def _call_headers(headers: Mapping[str, str]) -> Generator[None]:
    token = CALL_HEADERS.set(headers)
    try:
        yield
    finally:
        CALL_HEADERS.reset(token)


def quiet_loggers() -> None:
    """Keep what servers send out of the log: the SDK quotes it, and we say what happened ourselves."""
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
