"""Which agents sessions may call, and which URLs an agent may make the server call.

On a console that only this machine reaches, a person may name any host: people debug agents of their own. On a shared
server, a URL that a person enters is as foreign as one in a card: its host must be public and use TLS, unless the
operator allows it. Hosts that only a card or a catalogue names are never trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from parley.client.guard import Guard, read_target
from parley.console.settings import ConsoleSettings


@dataclass(frozen=True, slots=True)
class RemotePolicy:
    """The guards of a console."""

    is_loopback: bool
    allowed_hosts: tuple[str, ...] = ()

    @staticmethod
    def of(settings: ConsoleSettings) -> RemotePolicy:
        """The policy of a console with these settings."""
        return RemotePolicy(settings.is_loopback, settings.allowed_hosts)

    @property
    def hint(self) -> str:
        """What people can do about a host that may not be called."""
        if self.is_loopback:
            return ""
        return "The operator of this server can allow it."

    def guard(self, *, is_named: bool = True) -> Guard:
        """The guard for a URL that a person entered, or for one that a catalogue names."""
        return Guard(trust_named=self.is_loopback and is_named, allowed_hosts=self.allowed_hosts)

    def operators_guard(self) -> Guard:
        """The guard for a URL that the operator has configured."""
        return Guard(allowed_hosts=self.allowed_hosts)

    def file_guard(self, agent_guard: Guard, address: str) -> Guard:
        """The guard for files of an agent: public hosts over TLS, and the agent's own host where it may be called."""
        if not agent_guard.trust_named:
            return agent_guard
        return replace(agent_guard, allowed_hosts=(*agent_guard.allowed_hosts, read_target(address).host))
