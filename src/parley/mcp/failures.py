"""Errors of A2A calls as MCP reports them: an answer for the model to act on, or an error of the protocol."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, CallToolResult

from parley.client.transports.http import retry_after_of
from parley.mcp.arguments import InvalidArgumentError
from parley.mcp.results import error_result
from parley.protocol.errors import (
    A2AError,
    ParleyError,
    PermissionDeniedError,
    TaskNotFoundError,
    UnauthenticatedError,
)


def failed_call(error: ParleyError, *, task_id: str | None, given_task: str | None) -> CallToolResult:
    """The result of a call that failed with an error; `given_task` is the task that the caller named.

    Raises:
        MCPError: it is an error of the protocol, not of the tool.
    """
    if isinstance(error, TaskNotFoundError) and given_task is not None and task_id in (None, given_task):
        raise InvalidArgumentError("$.params.arguments.task_id", "there is no such task") from None
    if isinstance(error, UnauthenticatedError | PermissionDeniedError):
        raise protocol_error(error) from None
    seconds = retry_after_of(error)
    also = f" Try again in {seconds:g} seconds." if seconds else ""
    return error_result(f"The agent has not done it: {str(error).rstrip('.')}.{also}", task_id=task_id)


def protocol_error(error: ParleyError) -> MCPError:
    """An error that is not a tool's."""
    if not isinstance(error, A2AError):
        return MCPError(INTERNAL_ERROR, str(error))
    is_refused = isinstance(error, UnauthenticatedError | PermissionDeniedError)
    return MCPError(INVALID_REQUEST if is_refused else INTERNAL_ERROR, str(error), {"reason": error.row.reason})
