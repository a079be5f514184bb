"""`parley tasks`: the tasks that an agent has for its caller, to list, show, watch and cancel."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from parley.cli.calling import (
    ASKED,
    DONE,
    EXIT_CODES,
    REFUSED,
    AllowPrivate,
    AsJson,
    Authorities,
    BindingChoice,
    Calling,
    Certificate,
    CertificateKey,
    DialectChoice,
    Headers,
    TaskId,
    TimeoutSeconds,
    Token,
    TrustedOrigins,
    Url,
    calling,
    code_of_state,
    run,
    tls_of,
)
from parley.cli.downloads import Downloads
from parley.cli.harmless import harmless_line
from parley.cli.send import SaveDirectory
from parley.cli.transcript import Transcript, console, consoles, say_event, say_json, show_rows, state_text, time_text
from parley.dialects.v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.errors import UnsupportedOperationError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Role
from parley.protocol.tasks import Task, TaskState

if TYPE_CHECKING:
    from parley.client.client import Client

POLL_SECONDS = 1.0
"""How often a task is read whose agent does not stream."""

app = typer.Typer(
    help="The tasks that an agent has for you: list, show, watch, cancel.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


# --- list -------------------------------------------------------------------------------------------------------------


@app.command("list", epilog=EXIT_CODES)
def list_tasks(
    url: Url,
    context: Annotated[str | None, typer.Option(metavar="ID", help="Those of this conversation only.")] = None,
    state: Annotated[TaskState | None, typer.Option(help="Those in this state only.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many at most.")] = 50,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    binding: BindingChoice = None,
    dialect: DialectChoice = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
    as_json: AsJson = False,
) -> None:
    """List your tasks, those that changed last first.

    \b
    Examples:
      parley tasks list http://127.0.0.1:8080
      parley tasks list localhost:8080 --state input-required
      parley tasks list localhost:8080 --json | jq -r .id
    """
    how = calling(url, token, header, trust, tls_of(ca, cert, key), binding, dialect, allow_private, timeout)
    run(_list(how, context, state, limit, as_json=as_json), as_json=as_json)


async def _list(how: Calling, context: str | None, state: TaskState | None, limit: int, *, as_json: bool) -> int:
    to, count = console(), 0
    async with how.client() as client:
        # Artifacts are for programs: people see them with `show`.
        pages = client.list(context=context, state=state, artifacts=as_json, page_size=min(limit, 100))
        async with aclosing(pages) as found:
            async for task in found:
                if as_json:
                    say_json(DIALECT.encode_result(ops.GET_TASK, task))
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
    row = Text.assemble((harmless_line(task.id), "cyan"), f"  {time_text(task.status)}  ")
    row.append_text(state_text(task.status.state))
    if said:
        row.append(f"  {_short(said)}")
    return row


def _short(text: str, length: int = 60) -> str:
    line = harmless_line(text)
    return line if len(line) <= length else f"{line[: length - 1]}…"


# --- show -------------------------------------------------------------------------------------------------------------


@app.command("show", epilog=EXIT_CODES)
def show(
    url: Url,
    task: TaskId,
    history: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="How many messages, the last ones.", show_default="all")
    ] = None,
    save: SaveDirectory = None,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    binding: BindingChoice = None,
    dialect: DialectChoice = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
    as_json: AsJson = False,
) -> None:
    """Show a task: its state, what was said, and what it has produced.

    The exit code is that of the task's state: 0 while it works and when it is completed.

    \b
    Examples:
      parley tasks show http://127.0.0.1:8080 4f2c
      parley tasks show localhost:8080 4f2c --save downloads
    """
    how = calling(url, token, header, trust, tls_of(ca, cert, key), binding, dialect, allow_private, timeout)
    run(_show(how, task, history, save, as_json=as_json), as_json=as_json)


async def _show(how: Calling, task_id: str, history: int | None, save: Path | None, *, as_json: bool) -> int:
    async with how.client() as client:
        task = (await client.get(task_id, history=history)).task
    assert task is not None
    if as_json:
        say_json(DIALECT.encode_result(ops.GET_TASK, task))
    else:
        _show_task(task, save)
    return code_of_state(task.status.state)


def _show_task(task: Task, save: Path | None) -> None:
    to = console()
    _show_facts(task, to)
    transcript = Transcript(to, to, downloads=Downloads(save) if save else None)
    if task.history:
        to.print(Text("\nSaid", "bold"))
    for message in task.history:
        transcript.note("you:" if message.role is Role.USER else "agent:", "cyan")
        transcript.show_parts(message.parts)
        transcript.end_line()
    if task.artifacts:
        to.print(Text("\nProduced", "bold"))
    for artifact in task.artifacts:
        transcript.show_artifact(artifact)
        transcript.end_line()
    if task.status.message:
        to.print(Text("\nLast word", "bold"))
        transcript.show_parts(task.status.message.parts)
        transcript.end_line()


def _show_facts(task: Task, to: Console) -> None:
    rows = [("task", task.id), ("context", task.context_id or "–"), ("state", state_text(task.status.state))]
    show_rows(to, [*rows, ("since", time_text(task.status))])


# --- watch ------------------------------------------------------------------------------------------------------------


@app.command("watch", epilog=EXIT_CODES)
def watch(
    url: Url,
    task: TaskId,
    save: SaveDirectory = None,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    binding: BindingChoice = None,
    dialect: DialectChoice = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
    as_json: AsJson = False,
) -> None:
    """Watch a task until it ends or asks something: what it has produced, and then what is new.

    A connection that breaks is taken up again, and nothing is shown twice. The exit code is that of the task's state.

    \b
    Examples:
      parley tasks watch http://127.0.0.1:8080 4f2c
      parley tasks watch localhost:8080 4f2c --json | jq -c .statusUpdate.status
    """
    how = calling(url, token, header, trust, tls_of(ca, cert, key), binding, dialect, allow_private, timeout)
    run(_watch(how, task, save, as_json=as_json), as_json=as_json)


async def _watch(how: Calling, task_id: str, save: Path | None, *, as_json: bool) -> int:
    transcript = Transcript(*consoles(), downloads=Downloads(save) if save else None)
    state = TaskState.UNKNOWN
    async with how.client() as client, aclosing(_events(client, task_id)) as events:
        try:
            async for event in events:
                before, state = state, _state(event, state)
                if as_json:
                    say_event(event)
                    continue
                if state is not before:
                    transcript.note(f"{_clock(event)}{state}", "bold")
                transcript.show(event)
        finally:
            transcript.end_line()
    if not as_json and code_of_state(state) == ASKED:
        transcript.note(f"It waits. Answer with: parley send {shlex.quote(how.url)} TEXT --task {shlex.quote(task_id)}")
    return code_of_state(state)


async def _events(client: Client, task_id: str) -> AsyncGenerator[StreamEvent]:
    """The task as it is, and what happens to it; read again and again where the agent lets nobody subscribe."""
    from parley.client.growing import GrowingTask

    task = (await client.get(task_id)).task
    assert task is not None
    if not ends_stream(task.status.state) and client.card.capabilities.streaming is not False:
        try:
            async with aclosing(client.subscribe(task_id)) as updates:
                async for update in updates:
                    yield update.event
            return
        except UnsupportedOperationError:
            task = (await client.get(task_id)).task  # it has ended meanwhile, or nobody may subscribe
            assert task is not None
    seen = GrowingTask()
    seen.add(task)
    yield task
    while not seen.is_over:
        await client.calls.sleep(POLL_SECONDS)
        task = (await client.get(task_id)).task
        assert task is not None
        for event in seen.difference(task):
            seen.add(event)
            yield event


def _state(event: StreamEvent, before: TaskState) -> TaskState:
    return event.status.state if isinstance(event, Task | StatusUpdate) else before


def _clock(event: StreamEvent) -> str:
    stamp: datetime | None = event.status.timestamp if isinstance(event, Task | StatusUpdate) else None
    return f"{stamp:%H:%M:%S} " if stamp else ""


# --- cancel -----------------------------------------------------------------------------------------------------------


@app.command("cancel", epilog=EXIT_CODES)
def cancel(
    url: Url,
    task: TaskId,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    binding: BindingChoice = None,
    dialect: DialectChoice = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a task. The exit code is 0 if it is canceled.

    \b
    Example:
      parley tasks cancel http://127.0.0.1:8080 4f2c
    """
    how = calling(url, token, header, trust, tls_of(ca, cert, key), binding, dialect, allow_private, timeout)
    run(_cancel(how, task, as_json=as_json), as_json=as_json)


async def _cancel(how: Calling, task_id: str, *, as_json: bool) -> int:
    async with how.client() as client:
        task = (await client.cancel(task_id)).task
    assert task is not None
    if as_json:
        say_json(DIALECT.encode_result(ops.GET_TASK, task))
    else:
        _show_facts(task, console())
    return DONE if task.status.state is TaskState.CANCELED else REFUSED
