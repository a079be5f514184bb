"""What `parley up` prints when it is ready: URLs, the model, tokens that are shown only once, and lines to paste.

A line has the token itself only if it was made just now and no file keeps it. Otherwise it reads the token from its
file, or tells how to get a new one.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from parley.cli.options.server import ServerOptions
from parley.cli.serving.announcement import CARD_PATH, UNENCRYPTED_WARNING
from parley.cli.serving.host_tokens import AdminToken
from parley.cli.serving.ready_text import show_ready
from parley.cli.serving.shutdown import shutdown_note
from parley.host.a2a.cards import AGENTS_PATH
from parley.host.constitution import INDEX
from parley.host.data.admin_token import VARIABLE as ADMIN_VARIABLE
from parley.host.data.tenant import Tenant
from parley.network.urls import parse_url
from parley.server.contracts import CONSOLE_PATH
from parley.server.run import Bound, is_loopback

EXAMPLE = "5 miles in km and 100 USD in EUR, then write that to notes.md"
"""Two starter agents answer it at the same time, and a third one writes the file."""

TOKEN_VARIABLE = "PARLEY_TOKEN"
"""The variable from which commands that call an agent read a token."""

EXAMPLE_AGENTS = frozenset({"units", "currency", "drafts"})
OTHER_EXAMPLE = "What can you do?"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnnouncement:
    """The facts about a host that is ready."""

    bound: Bound
    server: ServerOptions
    store: str
    model: str
    is_built_in: bool
    """Whether the model needs no provider."""
    has_metrics: bool
    admin: AdminToken
    tenant: Tenant | None
    """The tenant for the lines to paste: the first that is not disabled."""
    tenant_count: int
    new_token: str | None = field(repr=False)
    """The token of the tenant, if it was created just now."""
    token_file: Path | None
    """The file that holds a valid token of the tenant."""
    agents: frozenset[str]
    """The ids of the tenant's agents."""
    has_console: bool = False
    console_code: str | None = field(default=None, repr=False)
    """The code of a link that logs a browser in as the tenant, once."""

    def show(self, console: Console) -> None:
        """Print it."""
        tenants = "1 tenant" if self.tenant_count == 1 else f"{self.tenant_count} tenants"
        show_ready(
            console,
            f"hosts the agents of {tenants}",
            rows=self._rows(),
            access=self._access(),
            lines=(*self._console_link(), *self._new_tokens(), *self._commands()),
            shutdown_note=shutdown_note(self.store),
        )

    @property
    def _public_url(self) -> str | None:
        return self.server.public_url.rstrip("/") if self.server.public_url else None

    @property
    def _url(self) -> str:
        return self._public_url or self.bound.url

    # --- facts --------------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[str, str]]:
        serving = self.server.serving
        if self.has_console:
            yield "console", f"{self._url}{CONSOLE_PATH}/"
        yield "card", f"{self._url}{CARD_PATH}"
        yield "A2A", f"{self._url}{AGENTS_PATH}ID  (JSON-RPC and HTTP+JSON; 0.3 and 1.0)"
        yield "API", f"{self._url}/v1/orchestrate, {self._url}/v1/agents, …"
        yield "OpenAPI", f"{self._url}/openapi.json"
        if self.bound.grpc_target:
            yield "gRPC", f"{serving.public_grpc or self.bound.grpc_target}  (1.0; the agent's id is the tenant)"
        elif self.server.grpc_hint:
            yield "gRPC", f"off; {self.server.grpc_hint}"
        yield "metrics", ", ".join(f"{self._url}{path}" for path in self._metrics_paths())
        yield "model", model_text(self.model, is_built_in=self.is_built_in)
        yield "admin", self._admin_text()
        yield "store", self.store
        if serving.host in ("", "0.0.0.0", "::"):
            yield "listens on", f"every address of this machine, port {parse_url(self.bound.url).port}"
        if self._public_url:
            yield "local", self.bound.url

    def _metrics_paths(self) -> tuple[str, ...]:
        return ("/v1/metrics", "/metrics") if self.has_metrics else ("/v1/metrics",)

    def _admin_text(self) -> str:
        path = f"{self._url}/v1/admin/tenants"
        if self.admin.is_for_this_process:
            return f"{path}, with the token below, until the server stops"
        return f"{path}, with the token in {self.admin.file or ADMIN_VARIABLE}"

    def _access(self) -> str:
        who = "Callers must authenticate with a tenant's token."
        is_behind_tls = self.server.serving.tls is not None or self._url.startswith("https:")
        if is_behind_tls or is_loopback(self.server.serving.host):
            return who
        return f"{who} {UNENCRYPTED_WARNING}"

    def _console_link(self) -> Iterator[tuple[str, str]]:
        if self.tenant is not None and self.console_code is not None:
            title = f"Open the console as {_name(self.tenant)}; the link works once, within ten minutes"
            yield title, f"{self._url}{CONSOLE_PATH}/#once={self.console_code}"

    def _new_tokens(self) -> Iterator[tuple[str, str]]:
        if self.tenant is not None and self.new_token is not None:
            kept = f"; it is kept in {self.token_file}" if self.token_file else ""
            yield f"The token of {_name(self.tenant)}, shown only now{kept}", self.new_token
        if self.admin.is_new:
            kept = f"; it is kept in {self.admin.file}" if self.admin.file else ""
            yield f"The admin token, shown only now{kept}", self.admin.token

    # --- lines to paste -----------------------------------------------------------------------------------------------

    def _commands(self) -> Iterator[tuple[str, str]]:
        if self.tenant is None:
            yield "Create a tenant, because all are disabled", self._admin_curl("", {"name": "…"})
            return
        token, first = self._tenant_token(), ""
        if token is None:
            rotate = self._admin_curl(f"/{self.tenant.id}/rotate-token", {})
            yield f"Get a new token for {_name(self.tenant)}; the one before is refused then", rotate
            token, first = f"${TOKEN_VARIABLE}", f", after export {TOKEN_VARIABLE}=…"
        has_example = self.agents >= EXAMPLE_AGENTS
        text = EXAMPLE if has_example else OTHER_EXAMPLE
        how = "; two agents answer at once, and a third one writes the file" if has_example else ""
        yield f"Try it{first}{how}", self._parley("send", text, token=token)
        yield "The same as a stream of events", self._orchestrate_curl(text, token)
        yield "Talk to it", self._parley("chat", token=token)

    def _tenant_token(self) -> str | None:
        """The tenant's token, or the shell's expression for it; None if neither is known."""
        return _contents(self.token_file) if self.token_file is not None else self.new_token

    def _admin_token(self) -> str:
        if self.admin.is_for_this_process:
            return self.admin.token
        return _contents(self.admin.file) if self.admin.file is not None else f"${ADMIN_VARIABLE}"

    def _parley(self, command: str, *words: str, token: str) -> str:
        url = f"{self._url}{AGENTS_PATH}{INDEX.id}"
        arguments = shlex.join([command, url, *words, *self._ca("--ca")])
        if token == f"${TOKEN_VARIABLE}":  # which the command reads itself
            return f"{parley_command()} {arguments}"
        return f"{parley_command()} {arguments} --token " + (f'"{token}"' if "$" in token else token)

    def _orchestrate_curl(self, text: str, token: str) -> str:
        return self._curl("-sSN", "/v1/orchestrate", {"message": text}, token)

    def _admin_curl(self, path: str, body: dict[str, str]) -> str:
        return self._curl("-sS", f"/v1/admin/tenants{path}", body, self._admin_token())

    def _curl(self, flags: str, path: str, body: dict[str, str], token: str) -> str:
        words = ["curl", flags, f"{self._url}{path}", *self._ca("--cacert"), "-H", "Content-Type: application/json"]
        words += ["-d", json.dumps(body, ensure_ascii=False)]
        return f'{shlex.join(words)} -H "Authorization: Bearer {token}"'

    def _ca(self, option: str) -> list[str]:
        """The certificate that a caller on this machine must trust."""
        tls = self.server.serving.tls
        return [option, os.path.abspath(tls.certificate)] if tls is not None and not self._public_url else []


def model_text(name: str, *, is_built_in: bool) -> str:
    """Which model answers, so that a built-in one is not mistaken for a language model."""
    if is_built_in:
        return f"{name}: built in, offline, not a language model (--model names another)"
    return f"{name}, for index and agents that name none; the starter agents are built in"


def parley_command() -> str:
    """The words that start this program from any directory: `parley`, if the shell would find the same one."""
    started = Path(sys.argv[0]).absolute()
    if started.stem != "parley":  # python -m parley.cli.main
        return shlex.join([sys.executable, "-m", "parley.cli.main"])
    found = shutil.which("parley")
    if found is not None and (not started.exists() or os.path.samefile(found, started)):
        return "parley"
    return shlex.quote(str(started))


def _name(tenant: Tenant) -> str:
    return f"the tenant {tenant.name} (id {tenant.id})"


def _contents(file: Path) -> str:
    """The shell's expression for the contents of a file, to be put between double quotes."""
    return f"$(cat {shlex.quote(os.path.abspath(file))})"
