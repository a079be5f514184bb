"""The MCP server of some agents: each a tool, and each card a resource.

It knows no transport. Which agents there are depends on the request, if several callers share a server; `agents_of`
says which ones a request sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from parley import __version__
from parley.mcp.arguments import InvalidArgumentError, read_arguments
from parley.mcp.callable_agents import CallableAgents, NamedAgent
from parley.mcp.changes import ListChanges, SessionNotifier
from parley.mcp.failures import failed_call, protocol_error
from parley.mcp.input_state import read_state
from parley.mcp.invalid_params import name_invalid_params
from parley.mcp.progress import ProgressReporter
from parley.mcp.questions import ANSWER
from parley.mcp.resources import CARD_TEMPLATE, agent_in, contents_of, not_found, resource_of
from parley.mcp.tool_call import ToolCall
from parley.mcp.tools import tool_of
from parley.protocol.errors import ParleyError

RequestContext: TypeAlias = ServerRequestContext[Any, Any]
AgentsOf: TypeAlias = Callable[[RequestContext], CallableAgents]

PAGE = 100
"""Tools or resources of one page: some hundred kilobytes."""

MAX_NAME = 128
"""Characters of a tool's name in MCP."""

CALLS_AT_ONCE = 500
"""Calls of one server that are in progress. Each holds a stream, and a caller that waits for its user holds it long."""

SUBSCRIPTIONS = 200
"""Subscriptions to changes that one server holds."""

INSTRUCTIONS = (
    "Each tool is an agent that works on a message. A result has a task_id and a context_id: pass context_id to go on "
    "with the conversation, and task_id to answer a question of the agent."
)


class AgentServer(Server[Any]):
    """An MCP server whose tools are agents."""

    def __init__(self, agents_of: AgentsOf, *, name: str = "parley", title: str | None = None) -> None:
        self.changes = ListChanges()
        self.listen = ListenHandler(self.changes, max_subscriptions=SUBSCRIPTIONS)
        handlers = _Handlers(agents_of)
        super().__init__(
            name,
            version=__version__,
            title=title,
            instructions=INSTRUCTIONS,
            # No argument is a header, so there is none to compare: without this, each call would list all tools.
            get_tool_input_schema=lambda _: None,
            on_list_tools=handlers.list_tools,
            on_call_tool=handlers.call_tool,
            on_list_resources=handlers.list_resources,
            on_list_resource_templates=handlers.list_templates,
            on_read_resource=handlers.read_resource,
            on_subscriptions_listen=self.listen,
        )
        self.middleware[:] = [SessionNotifier(self.changes), *self.middleware, name_invalid_params]

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK's, with the promise to tell of changes."""
        options = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@dataclass(slots=True)
class _Handlers:
    """The requests of MCP that the server answers."""

    agents_of: AgentsOf
    calls: int = 0

    async def list_tools(self, ctx: RequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        """A page of the agents, as tools."""
        agents, cursor = await self._page(ctx, params)
        return ListToolsResult(tools=[tool_of(agent) for agent in agents], next_cursor=cursor)

    async def list_resources(self, ctx: RequestContext, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """A page of the agents, as resources."""
        agents, cursor = await self._page(ctx, params)
        return ListResourcesResult(resources=[resource_of(agent) for agent in agents], next_cursor=cursor)

    async def list_templates(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """The form of the cards' URIs."""
        return ListResourceTemplatesResult(resource_templates=[CARD_TEMPLATE])

    async def read_resource(self, ctx: RequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        """The card of an agent."""
        name = agent_in(params.uri)
        agents = self.agents_of(ctx)
        agent = await _find(agents, name) if name is not None else None
        if agent is None:
            raise not_found(params.uri, ctx.protocol_version)
        return ReadResourceResult(contents=[contents_of(agent.name, agents.card_document(agent))])

    async def call_tool(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Call an agent."""
        agents = self.agents_of(ctx)
        agent = await _find(agents, params.name) if len(params.name) <= MAX_NAME else None
        if agent is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:MAX_NAME]}", {"path": "$.params.name"})
        if self.calls >= CALLS_AT_ONCE:
            raise MCPError(INTERNAL_ERROR, f"There are {CALLS_AT_ONCE} calls in progress already; try again later")
        self.calls += 1
        try:
            return await _call(ctx, params, agents, agent)
        finally:
            self.calls -= 1

    async def _page(
        self, ctx: RequestContext, params: PaginatedRequestParams | None
    ) -> tuple[list[NamedAgent], str | None]:
        after = (params.cursor if params is not None else None) or ""
        if len(after) > MAX_NAME:
            raise InvalidArgumentError("$.params.cursor", "is not one that this server has given")
        try:
            found = list(await self.agents_of(ctx).page(after=after, limit=PAGE + 1))
        except ParleyError as error:
            raise protocol_error(error) from error
        return found[:PAGE], found[PAGE - 1].name if len(found) > PAGE else None


async def _find(agents: CallableAgents, name: str) -> NamedAgent | None:
    try:
        return await agents.find(name)
    except ParleyError as error:
        raise protocol_error(error) from error


async def _call(
    ctx: RequestContext, params: CallToolRequestParams, agents: CallableAgents, agent: NamedAgent
) -> CallToolResult | InputRequiredResult:
    """Call an agent; errors of A2A become results or errors of MCP."""
    arguments = read_arguments(params.arguments, agent.card)
    state = read_state(params.request_state) if params.request_state is not None else None
    call: ToolCall | None = None
    is_wanted = ctx.meta is not None and "progress_token" in ctx.meta
    try:
        async with agents.connect(agent) as client, ProgressReporter(ctx.session, is_wanted=is_wanted) as progress:
            call = ToolCall(ctx, client, progress)
            try:
                if state is None:
                    return await call.run(arguments)
                return await call.resume(state, _answer_in(params))
            except asyncio.CancelledError:
                with anyio.CancelScope(shield=True):
                    await call.abandon(cancel=not agents.is_stopping)
                raise
    except ParleyError as error:
        given = state.task_id if state is not None else arguments.task_id
        return failed_call(error, task_id=call.task_id if call is not None else None, given_task=given)


def _answer_in(params: CallToolRequestParams) -> ElicitResult | None:
    """The answer that a client of 2026-07-28 sends with the same call."""
    answer = (params.input_responses or {}).get(ANSWER)
    if answer is not None and not isinstance(answer, ElicitResult):
        raise InvalidArgumentError(f"$.params.inputResponses.{ANSWER}", "must be the result of an elicitation")
    return answer
