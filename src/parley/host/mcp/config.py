"""Which MCP servers agents may use, as the operator lists them in `mcp_servers.json`.

    {"servers": {"time": {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"]},
                 "search": {"url": "https://search.example/mcp", "headers": {"authorization": "Bearer ${SEARCH_KEY}"}}},
     "tenants": {"acme": {"servers": {"crm": {"url": "https://crm.acme.example/mcp", "identity": true}}}},
     "allow_private_hosts": ["127.0.0.1"]}

Servers at the top are for all tenants; those of a tenant are for it alone and win over the others. A key of `tenants`
that is a number is a tenant's id, any other is its name. `${NAME}` in `args`, `env` and `headers` is the value of an
environment variable, which must be set. Nothing is started here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from parley.host.mcp.placeholders import PlaceholderError, expand
from parley.host.mcp.sdk import McpExtraMissingError, check_installed
from parley.host.mcp.server_config import (
    DEFAULT_CONNECT_SECONDS,
    DEFAULT_MAX_RESULT_BYTES,
    DEFAULT_TIMEOUT_SECONDS,
    MAX_RESULT_BYTES,
    McpProcess,
    McpServerConfig,
    McpTarget,
    McpUrl,
)
from parley.network.addresses import AmbiguousHostError, check_host
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import ParleyError

DEFAULT_FILE = Path("~/.parley/mcp_servers.json")

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

RESERVED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that the protocol itself sets."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,8192}")

T = TypeVar("T")


class McpConfigError(ParleyError):
    """The list of MCP servers is invalid. `path` is the JSON path of the fault."""

    def __init__(self, message: str, *, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


@dataclass(frozen=True, slots=True)
class McpServers:
    """All MCP servers that the operator has configured, and what tenants may add."""

    servers: Mapping[str, McpServerConfig] = field(default_factory=dict[str, McpServerConfig])
    """Those of all tenants, by their names."""
    tenants: Mapping[str, Mapping[str, McpServerConfig]] = field(
        default_factory=dict[str, Mapping[str, McpServerConfig]]
    )
    """Those of one tenant each, by its id or its name."""
    tenant_servers: bool = True
    """Whether tenants may add servers of their own."""
    allow_private_hosts_of_tenants: tuple[str, ...] = ()
    """Private hosts that the servers of tenants may have."""

    def of(self, tenant_id: str, tenant_name: str) -> Mapping[str, McpServerConfig]:
        """The operator's servers for a tenant, by their names. A tenant's own entry replaces one for all."""
        merged = dict(self.servers)
        if not tenant_name.isdecimal():  # which would be the id of another tenant
            merged.update(self.tenants.get(tenant_name, {}))
        merged.update(self.tenants.get(tenant_id, {}))
        return merged


def load_mcp_servers(file: Path | None = None, *, environment: Mapping[str, str] | None = None) -> McpServers:
    """The servers that a file lists, with secrets from the environment; none if there is no such file.

    Raises:
        McpConfigError: the file cannot be read or is invalid, a variable is missing, or the extra `mcp` is.
    """
    path = (file or DEFAULT_FILE).expanduser()
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if file is not None:
            raise McpConfigError(f"There is no file {path.name}") from None
        return McpServers()
    except OSError as error:
        raise McpConfigError(f"{path.name} cannot be read: {error.strerror}") from error
    return read_mcp_servers(text, os.environ if environment is None else environment)


# --- reading ----------------------------------------------------------------------------------------------------------


class _ListedServer(Struct, forbid_unknown_fields=True):
    command: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    args: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    description: Annotated[str, Meta(max_length=1_000)] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3_600)] = DEFAULT_TIMEOUT_SECONDS
    connect_seconds: Annotated[float, Meta(gt=0, le=600)] = DEFAULT_CONNECT_SECONDS
    tools: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=200)] = ()
    max_result_bytes: Annotated[int, Meta(ge=1_024, le=MAX_RESULT_BYTES)] = DEFAULT_MAX_RESULT_BYTES
    identity: bool = False
    enabled: bool = True


class _ListedTenantServers(Struct, forbid_unknown_fields=True):
    servers: dict[str, msgspec.Raw] = {}


class _ServersFile(Struct, forbid_unknown_fields=True):
    servers: dict[str, msgspec.Raw] = {}
    tenants: dict[str, msgspec.Raw] = {}
    allow_private_hosts: tuple[str, ...] = ()
    allow_private_hosts_of_tenants: tuple[str, ...] = ()
    tenant_servers: bool = True


def read_mcp_servers(text: bytes, environment: Mapping[str, str]) -> McpServers:
    """The servers that a document lists. Raises McpConfigError."""
    file = _read(text, _ServersFile, "$")
    for member in ("allow_private_hosts", "allow_private_hosts_of_tenants"):
        for number, host in enumerate(getattr(file, member)):
            _check_private_host(host, f"$.{member}[{number}]")
    reader = _ServerReader(environment, file.allow_private_hosts)
    servers = McpServers(
        reader.servers(file.servers, "$.servers"),
        {
            tenant: reader.servers(_read(listed, _ListedTenantServers, path).servers, f"{path}.servers")
            for tenant, listed in file.tenants.items()
            for path in [f"$.tenants.{tenant}"]
        },
        file.tenant_servers,
        file.allow_private_hosts_of_tenants,
    )
    if servers.servers or any(servers.tenants.values()):
        try:
            check_installed()
        except McpExtraMissingError as error:
            raise McpConfigError(error.message) from None
    return servers


@dataclass(frozen=True, slots=True)
class _ServerReader:
    environment: Mapping[str, str]
    allowed_hosts: tuple[str, ...]

    def servers(self, listed: Mapping[str, msgspec.Raw], path: str) -> Mapping[str, McpServerConfig]:
        read = {name: self._server(name, entry, f"{path}.{name}") for name, entry in listed.items()}
        return {name: server for name, server in read.items() if server is not None}

    def _server(self, name: str, entry: msgspec.Raw, path: str) -> McpServerConfig | None:
        if not SERVER_NAME.fullmatch(name):
            raise McpConfigError("A name has 1 to 64 letters, digits, hyphens and underscores", path=path)
        listed = _read(entry, _ListedServer, path)
        if (listed.command is None) == (listed.url is None):
            raise McpConfigError("A server has either a command or a url", path=path)
        if not listed.enabled:
            return None
        endpoint, secrets = self._process(listed, path) if listed.command else self._url(listed, path)
        return McpServerConfig(
            name,
            endpoint,
            description=listed.description,
            timeout_seconds=listed.timeout_seconds,
            connect_seconds=listed.connect_seconds,
            tools=listed.tools,
            max_result_bytes=listed.max_result_bytes,
            passes_identity=listed.identity,
            secrets=secrets,
        )

    def _process(self, listed: _ListedServer, path: str) -> tuple[McpTarget, tuple[str, ...]]:
        if listed.headers:
            raise McpConfigError("Only a server with a url has headers", path=f"{path}.headers")
        args, arg_secrets = self._expanded(enumerate(listed.args), f"{path}.args[{{}}]")
        env, env_secrets = self._expanded(listed.env.items(), f"{path}.env.{{}}")
        for name, value in env.items():
            if "=" in str(name) or "\0" in f"{name}{value}":
                raise McpConfigError("This cannot be an environment variable", path=f"{path}.env.{name}")
        process = McpProcess(listed.command or "", tuple(args.values()), _pairs(env), listed.cwd)
        return process, (*arg_secrets, *env_secrets)

    def _url(self, listed: _ListedServer, path: str) -> tuple[McpTarget, tuple[str, ...]]:
        for member in ("args", "env", "cwd"):
            if getattr(listed, member):
                raise McpConfigError("Only a server with a command has this", path=f"{path}.{member}")
        url = listed.url or ""
        try:
            parse_url(url)
        except InvalidUrlError as error:
            raise McpConfigError(error.message, path=f"{path}.url") from None
        headers, secrets = self._expanded(listed.headers.items(), f"{path}.headers.{{}}")
        for name, value in headers.items():
            if problem := header_problem(str(name), value):
                raise McpConfigError(problem, path=f"{path}.headers.{name}")
        held = [secret for value in headers.values() for secret in McpServerConfig.secrets_in(value)]
        return McpUrl(url, _pairs(headers), self.allowed_hosts), (*secrets, *held)

    def _expanded(
        self, texts: Iterable[tuple[str | int, str]], path: str
    ) -> tuple[dict[str | int, str], tuple[str, ...]]:
        """Texts with their placeholders replaced, and the secrets in them. `{}` in the path stands for each key."""
        expanded: dict[str | int, str] = {}
        secrets: list[str] = []
        for key, text in texts:
            try:
                expanded[key], found = expand(text, self.environment)
            except PlaceholderError as error:
                raise McpConfigError(error.message, path=path.format(key)) from None
            secrets += found
        return expanded, tuple(secrets)


def header_problem(name: str, value: str) -> str:
    """Why a header cannot be sent; empty if it can."""
    if not _HEADER_NAME.fullmatch(name):
        return "This is not the name of a header"
    if name.lower() in RESERVED_HEADERS:
        return "This header is set by the protocol"
    if not _HEADER_VALUE.fullmatch(value):
        return "The value of a header must be printable ASCII, up to 8192 characters"
    return ""


def _pairs(values: Mapping[str | int, str]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), value) for name, value in values.items())


def _check_private_host(host: str, path: str) -> None:
    try:
        check_host(host.removeprefix(".").lower())
    except AmbiguousHostError as error:
        raise McpConfigError(f"This is not a host: its {error}", path=path) from None


def _read(text: bytes | msgspec.Raw, kind: type[T], path: str) -> T:
    """A JSON value of this kind. Raises McpConfigError with the path inside the whole document."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        problem, _, inner = str(error).partition(" - at `$")
        raise McpConfigError(problem, path=f"{path}{inner.rstrip('`')}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise McpConfigError(f"This is not valid JSON: {error}", path=path) from None
