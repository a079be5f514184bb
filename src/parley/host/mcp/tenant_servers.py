"""MCP servers that tenants have added: what they may be, and how they become servers that can be called.

They are called over HTTP only, because a process would run a tenant's code on the host. Their URLs come from callers,
so no private address may be called unless the operator allows it for tenants. `${NAME}` in a header is the environment
variable `PARLEY_SECRET_<id of the tenant>_<NAME>`, so that no tenant can name a secret of another.
"""

from __future__ import annotations

from collections.abc import Mapping

from parley.client.errors import ForbiddenTargetError
from parley.client.guard import HINT, Guard
from parley.host.data.errors import InvalidValueError
from parley.host.data.mcp_servers import McpServerDefinition, StoredMcpServer
from parley.host.mcp.config import SERVER_NAME, header_problem
from parley.host.mcp.placeholders import PlaceholderError, expand, placeholders
from parley.host.mcp.server_config import (
    DEFAULT_CONNECT_SECONDS,
    DEFAULT_MAX_RESULT_BYTES,
    DEFAULT_TIMEOUT_SECONDS,
    McpServerConfig,
    McpUrl,
)

MAX_HEADERS = 20
"""Of one server."""

MAX_TENANT_SECONDS = 300.0
"""For one call of a tenant's server."""

MAX_TENANT_RESULT_BYTES = 16 * 1024 * 1024
"""For one message of a tenant's server. All tenants share the memory of the host."""


def secret_prefix(tenant_id: str) -> str:
    """How the names of a tenant's secrets begin in the environment. Ids are numbers, so no two prefixes overlap."""
    return f"PARLEY_SECRET_{tenant_id}_"


def check_definition(name: str, definition: McpServerDefinition, allowed_hosts: tuple[str, ...]) -> None:
    """Check a server that a tenant wants to add. Raises InvalidValueError."""
    if not SERVER_NAME.fullmatch(name):
        raise InvalidValueError("must be 1 to 64 letters, digits, '_' or '-'", "$.name")
    try:
        Guard(trust_named=False, allowed_hosts=allowed_hosts).check_named(definition.url)
    except ForbiddenTargetError as error:
        raise InvalidValueError(error.message.replace(HINT, ""), "$.url") from None
    if not definition.url.lower().startswith(("http://", "https://")):
        raise InvalidValueError("must start with http:// or https://", "$.url")
    if len(definition.headers) > MAX_HEADERS:
        raise InvalidValueError(f"may have up to {MAX_HEADERS} headers", "$.headers")
    if len({header.lower() for header in definition.headers}) < len(definition.headers):
        raise InvalidValueError("names a header twice", "$.headers")
    for header, value in definition.headers.items():
        try:
            names = placeholders(value or "")
        except PlaceholderError as error:
            raise InvalidValueError(error.message, f"$.headers.{header[:100]}") from None
        if problem := header_problem(header, "x" if value is None else value):
            raise InvalidValueError(problem, f"$.headers.{header[:100]}")
        if any(not secret.isupper() for secret in names):
            raise InvalidValueError("The name of a secret is in capitals", f"$.headers.{header}")


def config_of(
    stored: StoredMcpServer, environment: Mapping[str, str], allowed_hosts: tuple[str, ...]
) -> McpServerConfig:
    """A stored server, with the values of its secrets. Raises PlaceholderError if one is not set or cannot be read."""
    if stored.problem:  # the log of the host says which key is missing, or what was changed
        raise PlaceholderError("The host cannot read the values of its headers; set them again")
    headers: list[tuple[str, str]] = []
    secrets: list[str] = []
    definition = stored.definition
    for name, template in definition.headers.items():
        value, found = expand(template or "", environment, prefix=secret_prefix(stored.tenant))
        if problem := header_problem(name, value):
            raise PlaceholderError(f"The header {name} cannot be sent: {problem}")
        headers.append((name, value))
        secrets += [*McpServerConfig.secrets_in(value), *found]
    return McpServerConfig(
        stored.name,
        McpUrl(definition.url, tuple(headers), allowed_hosts),
        description=definition.description,
        timeout_seconds=min(definition.timeout_seconds or DEFAULT_TIMEOUT_SECONDS, MAX_TENANT_SECONDS),
        connect_seconds=DEFAULT_CONNECT_SECONDS,
        tools=definition.tools,
        max_result_bytes=min(definition.max_result_bytes or DEFAULT_MAX_RESULT_BYTES, MAX_TENANT_RESULT_BYTES),
        passes_identity=definition.identity,
        secrets=tuple(secrets),
        is_operators=False,
    )
