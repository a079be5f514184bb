"""Which remote agents may be called, as the operator lists them in `a2a_agents.json`.

    {"agents": {"weather": {"url": "https://weather.example/a2a", "auth": {"type": "bearer", "token_env": "WEATHER"}}},
     "tenants": {"acme": {"agents": {"billing": {"url": "https://billing.acme.example"}}}},
     "allow_private_hosts": ["127.0.0.1", ".corp.example"]}

Agents at the top are for all tenants; those of a tenant are for it alone and win over the others. A key of `tenants`
that is a number is a tenant's id, any other is its name. Nothing is called here, and no token is ever shown.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from parley.client.discovery.signatures import Mode
from parley.host.models.model import RosterEntry
from parley.network.addresses import AmbiguousHostError, check_host
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

DEFAULT_FILE = Path("~/.parley/a2a_agents.json")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")  # what fits into an Authorization header

T = TypeVar("T")


class RemoteConfigError(ParleyError):
    """The list of remote agents is invalid. `path` is the JSON path of the fault."""

    def __init__(self, message: str, *, path: str = "$") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


@dataclass(frozen=True, slots=True)
class RemoteAgentConfig:
    """A remote agent that may be called."""

    name: str
    url: str
    token: str | None = field(default=None, repr=False)
    """The bearer token that it gets with every call."""
    timeout_seconds: float | None = None
    """How long it may take to answer, and be silent while it streams; None for the client's defaults."""
    description: str | None = None
    """What the operator says it does; None for the description in its card."""
    enabled: bool = True
    signature_mode: Mode = "if signed"
    """Which cards of it are accepted: see `SignaturePolicy`."""
    trusted_keys: str = ""
    """The keys that verify its cards, as a JSON Web Key Set."""
    roster_entry: RosterEntry | None = None
    """What models are told of it; None: what its card says now."""


@dataclass(frozen=True, slots=True)
class RemoteAgents:
    """All remote agents of a host."""

    agents: Mapping[str, RemoteAgentConfig] = field(default_factory=dict[str, RemoteAgentConfig])
    """Those of all tenants, by their names."""
    tenants: Mapping[str, Mapping[str, RemoteAgentConfig]] = field(
        default_factory=dict[str, Mapping[str, RemoteAgentConfig]]
    )
    """Those of one tenant each, by its id or its name."""
    allow_private_hosts: tuple[str, ...] = ()
    """Hosts that may be called whatever their addresses, and without TLS; `.example.com` allows all below it."""

    def of(self, tenant_id: str, tenant_name: str) -> Mapping[str, RemoteAgentConfig]:
        """The agents that a tenant may call, by their names, in their order. One that is not enabled is left out.

        A tenant's own agent replaces the host's of the same name, also if it is not enabled.
        """
        merged = dict(self.agents)
        if not tenant_name.isdecimal():  # which would be the id of another tenant
            merged.update(self.tenants.get(tenant_name, {}))
        merged.update(self.tenants.get(tenant_id, {}))
        return {name: agent for name, agent in merged.items() if agent.enabled}


def load_remote_agents(file: Path | None = None, *, environment: Mapping[str, str] | None = None) -> RemoteAgents:
    """The remote agents that a file lists, with tokens from the environment; none if there is no such file.

    A token whose variable is not set is a warning: its agent is kept, and called without a token.

    Raises:
        RemoteConfigError: the file cannot be read or is invalid; the message says where.
    """
    path = (file or DEFAULT_FILE).expanduser()
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return RemoteAgents()
    except OSError as error:
        raise RemoteConfigError(f"{path.name} cannot be read: {error.strerror}") from error
    return read_remote_agents(text, os.environ if environment is None else environment)


# --- reading ----------------------------------------------------------------------------------------------------------


class _Auth(Struct, forbid_unknown_fields=True):
    type: Literal["bearer"] = "bearer"
    token_env: str | None = None
    token: str | None = None


class _ListedAgent(Struct, forbid_unknown_fields=True):
    url: str
    auth: _Auth | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] | None = None
    description: Annotated[str, Meta(max_length=1000)] | None = None
    enabled: bool = True


class _ListedTenant(Struct, forbid_unknown_fields=True):
    agents: dict[str, msgspec.Raw] = {}


class _AgentsFile(Struct, forbid_unknown_fields=True):
    agents: dict[str, msgspec.Raw] = {}
    allow_private_hosts: tuple[str, ...] = ()
    tenants: dict[str, msgspec.Raw] = {}


def read_remote_agents(text: bytes, environment: Mapping[str, str]) -> RemoteAgents:
    """The remote agents that a document lists. Raises RemoteConfigError."""
    file = _read(text, _AgentsFile, "$")
    for number, host in enumerate(file.allow_private_hosts):
        _check_private_host(host, f"$.allow_private_hosts[{number}]")
    return RemoteAgents(
        _agents(file.agents, "$.agents", environment),
        {
            tenant: _agents(_read(listed, _ListedTenant, path).agents, f"{path}.agents", environment)
            for tenant, listed in file.tenants.items()
            for path in [f"$.tenants.{tenant}"]
        },
        file.allow_private_hosts,
    )


def _agents(
    listed: Mapping[str, msgspec.Raw], path: str, environment: Mapping[str, str]
) -> Mapping[str, RemoteAgentConfig]:
    return {name: _agent(name, entry, f"{path}.{name}", environment) for name, entry in listed.items()}


def _agent(name: str, entry: msgspec.Raw, path: str, environment: Mapping[str, str]) -> RemoteAgentConfig:
    if not _NAME.fullmatch(name):
        raise RemoteConfigError("A name has 1 to 64 letters, digits, hyphens and underscores", path=path)
    listed = _read(entry, _ListedAgent, path)
    try:
        parse_url(listed.url)
    except InvalidUrlError as error:
        raise RemoteConfigError(error.message, path=f"{path}.url") from None
    token = _token(name, listed.auth, f"{path}.auth", environment) if listed.auth is not None else None
    return RemoteAgentConfig(name, listed.url, token, listed.timeout_seconds, listed.description, listed.enabled)


def _token(name: str, auth: _Auth, path: str, environment: Mapping[str, str]) -> str | None:
    """The token itself if it is given, else the value of its variable."""
    token, place = auth.token, f"{path}.token"
    if not token and auth.token_env:
        token, place = environment.get(auth.token_env), f"{path}.token_env"
        if not token:
            text = "The remote agent %s is called without a token: the environment variable %s is not set"
            logger.warning(text, name, auth.token_env)
    if not token:
        return None
    if not _TOKEN.fullmatch(token):
        raise RemoteConfigError("A token must be printable ASCII without spaces", path=place)
    return token


def _check_private_host(host: str, path: str) -> None:
    try:
        check_host(host.removeprefix(".").lower())
    except AmbiguousHostError as error:
        raise RemoteConfigError(f"This is not a host: its {error}", path=path) from None


def _read(text: bytes | msgspec.Raw, kind: type[T], path: str) -> T:
    """A JSON value of this kind. Raises RemoteConfigError with the path inside the whole document."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        problem, _, inner = str(error).partition(" - at `$")
        raise RemoteConfigError(problem, path=f"{path}{inner.rstrip('`')}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteConfigError(f"This is not valid JSON: {error}", path=path) from None
