"""The remote agents of a tenant on a host: those that the operator lists, and those that the tenant has registered."""

from __future__ import annotations

from collections.abc import Sequence

from parley.console.agents.added import MOST_DESCRIPTION, MOST_NAME, RemoteAgentEntry
from parley.console.backend import ConsoleBackend, ConsoleCaller
from parley.safe_text import printable_line

MOST_AGENTS = 500


async def tenant_agents(backend: ConsoleBackend, caller: ConsoleCaller, origin: str) -> Sequence[RemoteAgentEntry]:
    """The agents elsewhere in the catalogue of the caller's tenant; nothing where there are no tenants."""
    if backend.kind != "host" or not caller.tenant:
        return ()
    from parley.console.hosted import HostedBackend  # only where there is a host: its modules are many

    if not isinstance(backend, HostedBackend):
        return ()
    entries = await backend.remote_agents(caller.tenant, origin)
    return [
        RemoteAgentEntry(
            one.entry.url,
            name=printable_line(one.entry.display_name[:MOST_NAME]),
            description=printable_line(one.entry.description[:MOST_DESCRIPTION]),
            catalog=f"{origin}/v1/catalog",
            is_configured=one.origin == "remote",  # by the operator
            skills=len(one.entry.skills),
        )
        for one in entries[:MOST_AGENTS]
        if one.entry.url is not None
    ]
