"""What `parley serve` prints when it is ready: its URLs, who may call, and commands to try.

The commands can be pasted into a shell. Secrets in them are shell variables, such as `$TOKEN`, which the text above
tells the reader to set.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from parley import Agent
from parley.cli.options.server import ServerOptions
from parley.cli.serving.ready_text import show_ready
from parley.network.urls import parse_url
from parley.protocol.cards import (
    AgentSkill,
    ApiKeyLocation,
    ApiKeyScheme,
    HttpAuthScheme,
    MutualTlsScheme,
    SecurityScheme,
)
from parley.protocol.negotiation import accepts
from parley.server.app import App
from parley.server.contracts import CONSOLE_PATH
from parley.server.run import Bound, is_loopback
from parley.server.security.authentication import Security

CARD_PATH = "/.well-known/agent-card.json"

UNENCRYPTED_WARNING = "Credentials are not encrypted: use --tls-cert, or a proxy that terminates TLS."


@dataclass(frozen=True, slots=True)
class Announcement:
    """The facts about a server that is ready."""

    app: App
    bound: Bound
    server: ServerOptions
    store: str
    shutdown_note: str
    """What happens to tasks when the server ends."""
    security: Security | None
    has_metrics: bool
    has_console: bool = False

    @property
    def _agents(self) -> list[Agent]:
        return list(self.app.agents)

    @property
    def _public_url(self) -> str | None:
        """The URL for other callers, if it was given."""
        return self.server.public_url.rstrip("/") if self.server.public_url else None

    @property
    def _url(self) -> str:
        return self._public_url or self.bound.url

    @property
    def _certificate(self) -> Path | None:
        """The certificate that a caller on this machine must trust; None without TLS."""
        return self.server.serving.tls.certificate if self.server.serving.tls else None

    @property
    def _is_exposed(self) -> bool:
        return not is_loopback(self.server.serving.host)

    def show(self, console: Console) -> None:
        """Print it."""
        names = ", ".join(agent.name for agent in self._agents)
        show_ready(
            console,
            f"serves {names}",
            rows=self._rows(),
            access=self._access(),
            lines=self._commands(),
            shutdown_note=self.shutdown_note,
        )

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.has_console:
            yield "console", f"{self._url}{CONSOLE_PATH}/"
        for agent in self._agents:
            base = self._base(agent, self._url)
            yield "card", f"{base}{CARD_PATH}"
            yield "JSON-RPC", f"{base}/  (0.1 to 1.0)"
            yield "HTTP+JSON", f"{base}/message:send  (1.0), {base}/v1/message:send  (0.3)"
            yield "docs", f"{base}/docs"
            yield "OpenAPI", f"{base}/openapi.json"
        if self.app.table.is_directory("/agents"):
            yield "directory", f"{self._url}/agents"
        if self.bound.grpc_target:
            versions = "1.0" if len(self._agents) > 1 else "0.3 and 1.0"
            yield "gRPC", f"{self.server.serving.public_grpc or self.bound.grpc_target}  ({versions})"
        elif self.server.grpc_hint:
            yield "gRPC", f"off; {self.server.grpc_hint}"
        if self.has_metrics:
            yield "metrics", f"{self._url}/metrics"
        yield "store", self.store
        if self.server.serving.host in ("", "0.0.0.0", "::"):
            yield "listens on", f"every address of this machine, port {parse_url(self.bound.url).port}"
        if self._public_url:
            grpc = f", gRPC {self.bound.grpc_target}" if self.bound.grpc_target else ""
            yield "local", f"{self.bound.url}{grpc}"

    def _base(self, agent: Agent, url: str) -> str:
        return self.app.table.url_of(agent.id, url)

    def _access(self) -> str:
        if self.security is not None:
            who = f"Callers must authenticate: {', '.join(self.security.schemes)}."
            return f"{who} {UNENCRYPTED_WARNING}" if self._is_unencrypted else who
        if self._is_exposed:
            return "Open: ANYONE who can reach this machine may call, without credentials (--allow-anonymous)."
        return "Open to this machine only: no authentication is configured. See --auth."

    @property
    def _is_unencrypted(self) -> bool:
        is_behind_tls = (self._public_url or "").startswith("https:")
        return self._is_exposed and self._certificate is None and not is_behind_tls

    # --- commands to try ---------------------------------------------------------------------------------------------

    def _commands(self) -> Iterator[tuple[str, str]]:
        names = dict.fromkeys(re.findall(r"\$(\w+)", " ".join(self._credentials())))
        first = f", after export {' '.join(f'{name}=…' for name in names)}" if names else ""
        if self._public_url:
            yield f"Try it{first}", self.curl_line(is_local=False)
            yield "Or from this machine", self.curl_line()
        else:
            yield f"Try it{first}", self.curl_line()
        yield "Stream the answer", self.curl_line(is_stream=True)
        login = ", after parley login with the same URL" if self.security is not None else ""
        yield f"Talk to it{login}", self._chat_line()

    def curl_line(self, *, is_stream: bool = False, is_local: bool = True) -> str:
        """A command that sends the first example of the first agent, and shows the result or the stream."""
        agent = self._agents[0]
        method = "SendStreamingMessage" if is_stream else "SendMessage"
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": _message(agent)}}
        flags = "-sSN" if is_stream else "-sS"
        base = self._base(agent, self.bound.url if is_local else self._url)
        words = ["curl", flags, f"{base}/", "-H", "Content-Type: application/json"]
        if self._certificate is not None and is_local:
            words += ["--cacert", str(self._certificate)]
        words += ["-d", json.dumps(request, ensure_ascii=False)]
        return " ".join([shlex.join(words), *self._credentials()])

    def _chat_line(self) -> str:
        words = ["parley", "chat", self._base(self._agents[0], self.bound.url)]
        return shlex.join([*words, *(["--ca", str(self._certificate)] if self._certificate is not None else [])])

    def _credentials(self) -> list[str]:
        """Arguments for curl, with shell variables in double quotes."""
        if self.security is None or not self.security.requirements:
            return []
        schemes = self.security.schemes
        return [_credential(schemes[name]) for name in self.security.requirements[0]]


def _message(agent: Agent) -> dict[str, Any]:
    skills = agent.card().skills
    skill = skills[0]
    message: dict[str, Any] = {"messageId": secrets.token_hex(4), "role": "ROLE_USER", "parts": [_part(agent, skill)]}
    if len(skills) > 1:
        message["metadata"] = {"skillId": skill.id}
    return message


def _part(agent: Agent, skill: AgentSkill) -> dict[str, Any]:
    modes = skill.input_modes or agent.input_modes
    if accepts(modes, "text/plain"):
        return {"text": skill.examples[0] if skill.examples else "Hello"}
    return {"data": {}}


def _credential(scheme: SecurityScheme) -> str:
    match scheme:
        case ApiKeyScheme(location=ApiKeyLocation.HEADER):
            return f'-H "{scheme.name}: $API_KEY"'
        case ApiKeyScheme(location=ApiKeyLocation.COOKIE):
            return f'-b "{scheme.name}=$API_KEY"'
        case ApiKeyScheme():
            return f'--url-query "{scheme.name}=$API_KEY"'
        case MutualTlsScheme():
            return '--cert "$CLIENT_CERT" --key "$CLIENT_KEY"'
        case HttpAuthScheme() if scheme.scheme.lower() == "basic":
            return '-u "$USERNAME:$PASSWORD"'
        case _:
            return '-H "Authorization: Bearer $TOKEN"'
