"""`/write`, `/read` and `/list`: the files of an agent.

Every file that is written goes to the caller, as an artifact of the task. It is kept only where the agent says so and
there is a conversation to keep it in: a run that came over A2A has none, so there these commands keep and read nothing.
"""

from __future__ import annotations

from parley.host.commands.arguments import ArtifactToRead, FileToRead, FileToWrite, parse_read, parse_write
from parley.host.commands.syntax import Command
from parley.host.commands.usage import MAX_WRITTEN_BYTES
from parley.host.data.artifact_path import clean_path
from parley.host.data.errors import InvalidValueError
from parley.host.orchestration.turn_context import ToolResult, TurnContext, number_of

NO_CONVERSATION = "There is no conversation here, so no files are kept."


async def write_file(context: TurnContext, command: Command, step: str) -> ToolResult:
    """Give a file to the caller, and keep it if the agent wants that. Raises CommandSyntaxError."""
    file = parse_write(command)
    try:
        path = clean_path(file.path)
    except InvalidValueError as error:
        return ToolResult(error.message, ok=False)
    data = file.content.encode()
    if context.narration.files_bytes + len(data) > MAX_WRITTEN_BYTES:
        return ToolResult(f"All files of a turn together may have {MAX_WRITTEN_BYTES} bytes.", ok=False)
    note = ""
    if file.is_persistent:
        kept = await _keep(context, file, path, step)
        if not kept.ok:
            return kept
        note = f" {kept.body}"
    await context.narration.file(path, data)
    return ToolResult(f"Wrote {path} ({len(data)} bytes).{note}")


async def _keep(context: TurnContext, file: FileToWrite, path: str, step: str) -> ToolResult:
    if not context.origin.is_persistent:
        return ToolResult("It was not kept: this run has no conversation.")

    async def keep() -> str:
        artifact = await context.services.artifacts.write(
            context.tenant.id,
            context.origin.conversation,
            path,
            file.content,
            quota=context.services.storage_limit(context.tenant),
            key=context.turn.key_for(step),
        )
        return f"It is kept as #{artifact.id}."

    return await context.step(step, keep)


async def read_file(context: TurnContext, command: Command, step: str) -> ToolResult:
    """The content of a file of the conversation. Raises CommandSyntaxError."""
    wanted = parse_read(command)
    if not context.origin.is_persistent:
        return ToolResult(NO_CONVERSATION, ok=False)
    artifacts, tenant, conversation = context.services.artifacts, context.tenant.id, context.origin.conversation

    async def read() -> str:
        match wanted:
            case FileToRead():
                found = await artifacts.find(tenant, conversation, wanted.path)
            case ArtifactToRead():
                found = await artifacts.get(tenant, number_of(wanted.artifact_id))
                if found.conversation_id != conversation:
                    await _check_grant(context, wanted, found.id)
        return await artifacts.read(tenant, found.id)

    return await context.step(step, read)


async def _check_grant(context: TurnContext, wanted: ArtifactToRead, artifact_id: int) -> None:
    """Pass if the agent names an entry of its memory that refers to the artifact. Raises InvalidValueError."""
    entry_id = wanted.memory_entry_id
    if entry_id is not None:
        entry = await context.services.memory.get(context.tenant.id, number_of(entry_id))
        if entry.artifact_id == artifact_id:
            return
    raise InvalidValueError(
        "is an artifact of another conversation; name a memory entry that refers to it with via=mem:<id>", "artifact"
    )


async def list_files(context: TurnContext, step: str) -> ToolResult:
    """The files of the conversation."""
    if not context.origin.is_persistent:
        return ToolResult(NO_CONVERSATION, ok=False)

    async def list_all() -> str:
        found = await context.services.artifacts.list(context.tenant.id, conversation_id=context.origin.conversation)
        return "\n".join([f"#{one.id} {one.path} ({one.size} bytes)" for one in found]) or "(no files)"

    return await context.step(step, list_all)
