"""`/mem`: what the agents of a tenant remember, as text for models.

Scratchpads are of one agent, or shared by all agents of the tenant; entries are shared, typed and linked. Every write
has a key that is the same when the run is repeated, so it happens once.
"""

from __future__ import annotations

from parley.host.commands import memory_commands as mem
from parley.host.commands.memory_arguments import parse_memory_command
from parley.host.commands.syntax import Command
from parley.host.data.memory_entry import MemoryEntry
from parley.host.orchestration.turn_context import ToolResult, TurnContext, number_of

EMPTY = "(empty)"


async def run_memory_command(context: TurnContext, command: Command, step: str) -> ToolResult:
    """Carry out one `/mem`. Raises CommandSyntaxError."""
    wanted = parse_memory_command(command)

    async def do() -> str:
        match wanted:
            case mem.ReadScratchpad() | mem.WriteScratchpad() | mem.ClearScratchpad():
                return await _use_scratchpad(context, wanted, step)
            case mem.AddEntry() | mem.AddLink() | mem.InvalidateEntry():
                return await _change_entries(context, wanted, step)
            case _:
                return await _read_entries(context, wanted)

    return await context.step(step, do)


async def _use_scratchpad(
    context: TurnContext, wanted: mem.ReadScratchpad | mem.WriteScratchpad | mem.ClearScratchpad, step: str
) -> str:
    pads, tenant, key = context.services.scratchpads, context.tenant.id, context.turn.key_for(step)
    agent_id = None if wanted.is_shared else context.agent_id
    match wanted:
        case mem.ReadScratchpad():
            return await pads.read(tenant, agent_id) or EMPTY
        case mem.WriteScratchpad():
            await pads.append(
                tenant, agent_id, wanted.text, quota=context.services.storage_limit(context.tenant), key=key
            )
            return "Noted."
        case mem.ClearScratchpad():
            await pads.clear(tenant, agent_id, key=key)
            return "Cleared."


async def _change_entries(
    context: TurnContext, wanted: mem.AddEntry | mem.AddLink | mem.InvalidateEntry, step: str
) -> str:
    memory, tenant, key = context.services.memory, context.tenant.id, context.turn.key_for(step)
    match wanted:
        case mem.AddEntry():
            entry = await memory.add(
                tenant,
                type=wanted.type,
                title=wanted.title,
                content=wanted.content,
                source=context.agent_id,
                artifact_id=number_of(wanted.artifact_id) if wanted.artifact_id is not None else None,
                conversation_id=context.origin.conversation or None,
                supersedes=[number_of(entry_id) for entry_id in wanted.supersedes],
                quota=context.services.storage_limit(context.tenant),
                key=key,
            )
            return f"Added entry #{entry.id}: {entry.title}"
        case mem.AddLink():
            link = await memory.add_link(
                tenant,
                number_of(wanted.source_id),
                relation=wanted.relation,
                target_id=number_of(wanted.target_id),
                key=key,
            )
            return f"Linked #{link.source_id} {link.relation} #{link.target_id}"
        case mem.InvalidateEntry():
            entry = await memory.invalidate(tenant, number_of(wanted.entry_id), key=key)
            return f"Entry #{entry.id} is no longer valid."


async def _read_entries(
    context: TurnContext,
    wanted: mem.ListEntries | mem.ShowEntry | mem.SearchEntries | mem.ExpandEntry | mem.MeasureDensity,
) -> str:
    memory, tenant = context.services.memory, context.tenant.id
    match wanted:
        case mem.ListEntries():
            entries = await memory.list(tenant, types=wanted.types, tag=wanted.tag)
            return "\n".join(map(_line, entries)) or EMPTY
        case mem.ShowEntry():
            entry = await memory.get(tenant, number_of(wanted.entry_id))
            return f"{_line(entry)}\n{entry.content}"
        case mem.SearchEntries():
            hits = await memory.search(tenant, wanted.query)
            return "\n".join([_line(hit.entry) for hit in hits]) or EMPTY
        case mem.ExpandEntry():
            found = await memory.expand(tenant, number_of(wanted.entry_id), depth=wanted.depth)
            lines = [f"{'  ' * one.depth}{_line(one.entry)}" for one in found.entries]
            return "\n".join(lines if found.is_complete else [*lines, "…"])
        case mem.MeasureDensity():
            density = await memory.density(tenant, number_of(wanted.entry_id))
            relations = ", ".join(density.relations) or "none"
            return (
                f"{density.incoming} incoming, {density.outgoing} outgoing; relations: {relations}; "
                f"{density.reach} entries within reach"
            )


def _line(entry: MemoryEntry) -> str:
    tags = f" [{', '.join(entry.tags)}]" if entry.tags else ""
    artifact = f" (artifact #{entry.artifact_id})" if entry.artifact_id is not None else ""
    return f"#{entry.id} {entry.type}: {entry.title}{tags}{artifact}"
