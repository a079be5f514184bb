"""Parameters that MCP does not allow are refused with the member that is wrong; the SDK says only that one is."""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from pydantic import ValidationError

from parley.mcp.arguments import InvalidArgumentError

MAX_PATH = 200
"""Characters of a path in an error: the members of an object may have any names."""


async def name_invalid_params(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware. Raises InvalidArgumentError instead of the SDK's ValidationError."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        path = f".params{path.removeprefix('.params')}"
        raise InvalidArgumentError(f"${path[:MAX_PATH]}", str(first["msg"])) from None
