"""`parley tasks`: lists, shows, watches and cancels the caller's tasks; `tasks_data` exports and deletes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from parley.cli.commands import tasks_data
from parley.cli.commands.send import how_to_answer
from parley.cli.options.client import AsJson, TaskId, WithClientOptions, non_empty_id
from parley.cli.options.groups import with_option_groups
from parley.cli.output.downloads import Downloads, SaveDirectory, downloads_in
from parley.cli.output.exit_codes import DONE, EXIT_CODES, FAILED, code_of_state
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.transcript import (
    Transcript,
    console,
    consoles,
    print_event,
    print_json,
    show_rows,
    state_text,
    time_text,
)
from parley.dialects.v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.authorization import without_description
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream, is_interrupted
from parley.protocol.messages import Role
from parley.protocol.requests import CancelTaskRequest, GetTaskRequest
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.client.client import Client

STATE_WIDTH = max(map(len, TaskState))

app = typer.Typer(
    cls=ParleyGroup,
    help="List, show, watch, cancel, export and delete your tasks.",
    rich_markup_mode=None,
)


# --- list -------------------------------------------------------------------------------------------------------------


@app.command("list", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def list_tasks(
    options: WithClientOptions,
    context: Annotated[
        str | None, typer.Option(metavar="ID", callback=non_empty_id, help="Only tasks of this conversation.")
    ] = None,
    state: Annotated[
        TaskState | None,
        typer.Option(
            metavar="STATE", help="Only tasks in this state: submitted, working, completed, input-required, …"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The maximum number of tasks.")] = 50,
    as_json: AsJson = False,
) -> int:
    """List your tasks, the last changed first.

    \b
    Examples:
      parley tasks list http://127.0.0.1:8080
      parley tasks list localhost:8080 --state input-required
      parley tasks list localhost:8080 --json | jq -r .id
    """
    to, count = console(), 0
    async with options.client() as client:
        # Artifacts are for programs: people see them with `show`.
        pages = client.list(context=context, state=state, artifacts=as_json, page_size=min(limit, 100))
        async with aclosing(pages) as found:
            async for task in found:
                if as_json:
                    print_json(DIALECT.encode_result(ops.GET_TASK, task))
                else:
                    to.print(_row(task))
                count += 1
                if count == limit:
                    break
    if not count and not as_json:
        console(stderr=True).print("There are no tasks.")
    return DONE


def _row(task: Task) -> Text:
    said = next((message.text for message in task.history if message.role is Role.USER), "")
    row = Text.assemble((printable_line(task.id), "cyan"), f"  {time_text(task.status)}  ")
    row.append_text(state_text(task.status.state))
    if said:
        row.append(f"{' ' * (STATE_WIDTH - len(task.status.state))}  {_short(said)}")
    return row


def _short(text: str, length: int = 60) -> str:
    line = printable_line(text)
    return line if len(line) <= length else f"{line[: length - 1]}…"


# --- show -------------------------------------------------------------------------------------------------------------


@app.command("show", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def show(
    options: WithClientOptions,
    task: TaskId,
    history: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Show the last N messages.", show_default="all")
    ] = None,
    save: SaveDirectory = None,
    as_json: AsJson = False,
) -> int:
    """Show a task: its state, messages and artifacts.

    The exit code depends on the state: 0 while the task runs and when it is completed.

    \b
    Examples:
      parley tasks show http://127.0.0.1:8080 $TASK
      parley tasks show localhost:8080 $TASK --save downloads
    """
    downloads = downloads_in(save, as_json=as_json)
    async with options.client() as client:
        found = await client.get_task(GetTaskRequest(task, history))
    if as_json:
        print_json(DIALECT.encode_result(ops.GET_TASK, found))
    else:
        _show_task(found, downloads)
    return code_of_state(found.status.state)


def _show_task(task: Task, downloads: Downloads | None) -> None:
    to = console()
    _show_facts(task, to)
    transcript = Transcript(to, to, downloads=downloads)
    if task.history:
        to.print(Text("\nMessages", "bold"))
    for message in task.history:
        transcript.note("you:" if message.role is Role.USER else "agent:", "cyan")
        transcript.show_parts(message.parts)
        transcript.end_line()
    if task.artifacts:
        to.print(Text("\nArtifacts", "bold"))
    for artifact in task.artifacts:
        transcript.show_artifact(artifact)
        transcript.end_line()
    if task.status.message:
        to.print(Text("\nStatus message", "bold"))
        transcript.show_parts(without_description(task.status.message))
        transcript.end_line()


def _show_facts(task: Task, to: Console) -> None:
    rows = [("task", task.id), ("context", task.context_id or "–"), ("state", state_text(task.status.state))]
    show_rows(to, [*rows, ("since", time_text(task.status))])


# --- watch ------------------------------------------------------------------------------------------------------------


@app.command("watch", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def watch(
    options: WithClientOptions,
    task: TaskId,
    save: SaveDirectory = None,
    as_json: AsJson = False,
) -> int:
    """Watch a task until it ends or asks a question: first its artifacts, then its updates.

    If the connection breaks, the command reconnects and prints nothing twice. The exit code depends on the state.

    \b
    Examples:
      parley tasks watch http://127.0.0.1:8080 $TASK
      parley tasks watch localhost:8080 $TASK --json | jq -c .statusUpdate.status
    """
    transcript = Transcript(*consoles(), downloads=downloads_in(save, as_json=as_json))
    status = TaskStatus(TaskState.UNKNOWN)
    async with options.client() as client, aclosing(_events(client, task)) as events:
        try:
            async for event in events:
                before, status = status, event.status if isinstance(event, Task | StatusUpdate) else status
                if as_json:
                    print_event(event)
                    continue
                if status.state is not before.state:
                    transcript.note(f"{_clock(status)}{status.state}", "bold")
                transcript.show(event)
        finally:
            transcript.end_line()
    if not as_json and is_interrupted(status.state):
        transcript.note(how_to_answer(options.url, task, status))
    return code_of_state(status.state)


async def _events(client: Client, task_id: str) -> AsyncGenerator[StreamEvent]:
    """The task and its updates, until it ends or asks a question, where a subscription would go on waiting."""
    task = await client.get_task(GetTaskRequest(task_id))
    if ends_stream(task.status.state):
        yield task
        return
    async with aclosing(client.subscribe(task_id)) as updates:
        async for update in updates:
            yield update.event
            if update.seen.is_over and not update.seen.has_ended:
                return


def _clock(status: TaskStatus) -> str:
    return f"{status.timestamp:%H:%M:%S} " if status.timestamp else ""


# --- cancel -----------------------------------------------------------------------------------------------------------


@app.command("cancel", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def cancel(
    options: WithClientOptions,
    task: TaskId,
    as_json: AsJson = False,
) -> int:
    """Cancel a task. The exit code is 0 if it is canceled.

    \b
    Example:
      parley tasks cancel http://127.0.0.1:8080 $TASK
    """
    async with options.client() as client:
        found = await client.cancel_task(CancelTaskRequest(task))
    is_canceled = found.status.state is TaskState.CANCELED
    if as_json:
        print_json(DIALECT.encode_result(ops.GET_TASK, found))
    else:
        _show_facts(found, console())
    if not is_canceled and not as_json:
        console(stderr=True).print("The task is not canceled, or not yet.")
    return DONE if is_canceled else FAILED


# --- export and delete ------------------------------------------------------------------------------------------------

tasks_data.add_commands(app)
