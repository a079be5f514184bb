"""What `parley serve` says when it is ready: where everything is, who may call, and lines to try it with.

The lines are complete: what they need beyond themselves, such as a token, is a shell variable named after it.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from parley import Agent, __version__
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
from parley.server.security import Security

CARD_PATH = "/.well-known/agent-card.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What there is to say."""

    app: App
    url: str
    grpc_target: str | None
    store: str
    security: Security | None
    certificate: Path | None
    """What a caller on this machine must trust to believe it is talking to us."""
    is_exposed: bool
    has_metrics: bool

    @property
    def _agents(self) -> list[Agent]:
        return list(self.app.agents)

    def show(self, console: Console) -> None:
        """Say it."""
        names = ", ".join(agent.name for agent in self._agents)
        console.print(Text.assemble("\n", (f"Parley {__version__}", "bold"), f" serves {names}\n"), soft_wrap=True)
        for label, value in self._places():
            console.print(Text.assemble("  ", (f"{label:<11}", "dim"), value), soft_wrap=True)
        console.print(Text(f"\n{self._who_may_call()}\n"), soft_wrap=True)
        console.print(Text.assemble("Try it:\n\n  ", (self.curl_line(), "cyan"), "\n"), soft_wrap=True)
        streaming = self.curl_line(is_stream=True)
        console.print(Text.assemble("Watch it work:\n\n  ", (streaming, "cyan"), "\n"), soft_wrap=True)
        console.print(Text("Ctrl+C ends it; unfinished work goes on at the next start.", "dim"), soft_wrap=True)

    def _places(self) -> Iterator[tuple[str, str]]:
        for agent in self._agents:
            yield "card", f"{self._base(agent)}{CARD_PATH}"
        if len(self._agents) > 1:
            yield "directory", f"{self.url}/agents"
        base = self._base(self._agents[0])
        yield "JSON-RPC", f"{base}/  (0.1 to 1.0)"
        yield "HTTP+JSON", f"{base}/message:send  (1.0), {base}/v1/message:send  (0.3)"
        if self.grpc_target:
            versions = "1.0" if len(self._agents) > 1 else "0.3 and 1.0"
            yield "gRPC", f"{self.grpc_target}  ({versions})"
        yield "docs", f"{base}/docs"
        yield "OpenAPI", f"{base}/openapi.json"
        if self.has_metrics:
            yield "metrics", f"{self.url}/metrics"
        yield "store", self.store

    def _base(self, agent: Agent) -> str:
        return self.url if len(self._agents) == 1 else f"{self.url}/agents/{agent.id}"

    def _who_may_call(self) -> str:
        if self.security is not None:
            return f"Callers must authenticate: {', '.join(self.security.schemes)}."
        if self.is_exposed:
            return "Open: EVERYBODY who reaches this machine may call, without credentials (--allow-anonymous)."
        return "Open, to this machine only: no security scheme is configured. See --auth."

    # --- the line to try ----------------------------------------------------------------------------------------------

    def curl_line(self, *, is_stream: bool = False) -> str:
        """A command that sends the first agent its first example and shows the outcome, or everything as it comes."""
        agent = self._agents[0]
        method = "SendStreamingMessage" if is_stream else "SendMessage"
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": _message(agent)}}
        flags = "-sSN" if is_stream else "-sS"
        words = ["curl", flags, f"{self._base(agent)}/", "-H", "Content-Type: application/json"]
        if self.certificate is not None:
            words += ["--cacert", str(self.certificate)]
        words += ["-d", json.dumps(request, ensure_ascii=False)]
        return " ".join([shlex.join(words), *self._credentials()])

    def _credentials(self) -> list[str]:
        """In double quotes, for the shell to fill in."""
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
            return '-u "$USER:$PASSWORD"'
        case _:
            return '-H "Authorization: Bearer $TOKEN"'
