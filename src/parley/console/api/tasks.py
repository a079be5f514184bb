"""The routes of tasks: lists, a task at any event, its log, its requests, webhooks, tree and files."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Annotated

from msgspec import Meta, Raw, Struct

from parley.console.api.errors import ConsoleError
from parley.console.api.fetch import SAFE_HEADERS
from parley.console.api.route import ConsoleAnswer, ConsoleCall, ConsoleRoute
from parley.console.tasks.access import TaskAccess
from parley.console.tasks.files import PAGE_CHARACTERS, attachment_header, find_part, read_part
from parley.console.tasks.filters import TaskListQuery
from parley.console.tasks.history import encode_snapshot, task_at
from parley.console.tasks.listing import list_page
from parley.console.tasks.log import LogEvent, LogPage, LogQuery, read_event, read_log, show_event_in_full
from parley.console.tasks.requests import RequestForms, RequestTarget, request_forms
from parley.console.tasks.rows import TaskRow, rows_of
from parley.console.tasks.summaries import Summaries
from parley.console.tasks.tree import build_tree
from parley.console.tasks.webhooks import WebhookView, list_webhooks, send_again
from parley.console.tasks.wire_forms import EventForm, forms_of
from parley.engine.reading.large import run_beside_loop
from parley.protocol.cards import HttpAuthScheme
from parley.protocol.events import MessageAdded
from parley.protocol.lifecycle import ends_stream
from parley.stores.interface import StoredEvent, TaskHead

MAX_FORM_EVENT = 256 * 1024
"""Bytes of an event that is shown in every form; there are eight."""

EVENTS_TO_REQUEST = 2
"""A log begins with the message that began the task, or with the task's creation and then that message."""

LARGE_FILES_AT_ONCE = 2
"""Logs that are being searched for a file at the same time: one event may take as much memory as the file."""


class TaskQuery(Struct, frozen=True):
    """Which task; the path has its id."""

    agent: str = ""
    tenant: str | None = None
    """For operators, where tasks of several tenants have one id."""
    at: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class TaskDetails(Struct, frozen=True):
    """A task with its content."""

    task: TaskRow
    snapshot: Raw
    url: str
    is_live: bool


class FailureDetails(Struct, frozen=True):
    """Why an agent failed at a task."""

    traceback: str | None
    """None: the agent did not raise, it is too long ago, or the caller may not see it."""


class LogEventDetails(Struct, frozen=True):
    """One event in full."""

    event: LogEvent
    forms: list[EventForm]
    request: RequestForms | None


class RequestDetails(Struct, frozen=True):
    """The request that began a task."""

    request: RequestForms | None


class WebhookList(Struct, frozen=True):
    """The webhooks of a task."""

    webhooks: list[WebhookView]


class SendAgain(Struct, frozen=True):
    """From where on events are sent again."""

    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class FileSlots:
    """How many logs are being searched for files."""

    def __init__(self, _: object = None) -> None:
        self.slots = asyncio.Semaphore(LARGE_FILES_AT_ONCE)


def _access(call: ConsoleCall) -> TaskAccess:
    return TaskAccess(call.backend, call.caller)


async def _find(call: ConsoleCall) -> tuple[TaskAccess, TaskHead, TaskQuery]:
    access, query = _access(call), call.query(TaskQuery)
    return access, await access.find(call.path["id"], agent=query.agent, tenant=query.tenant), query


async def list_tasks(call: ConsoleCall) -> ConsoleAnswer:
    """A page of the tasks that the caller may see."""
    wanted = call.query(TaskListQuery)
    return ConsoleAnswer(await list_page(_access(call), call.console.shared(Summaries), wanted))


async def show_task(call: ConsoleCall) -> ConsoleAnswer:
    """A task as it is, or as it was after an event."""
    access, head, query = await _find(call)
    task = await task_at(access, head, query.at)
    (row,) = await rows_of(access, call.console.shared(Summaries), [head])
    agent = access.agent_of(head)
    snapshot = await encode_snapshot(access, head, task, query.at)
    return ConsoleAnswer(TaskDetails(row, snapshot, "" if agent is None else agent.path, not ends_stream(head.state)))


async def show_log(call: ConsoleCall) -> ConsoleAnswer:
    """A page of a task's log."""
    access, query = _access(call), call.query(LogQuery)
    head = await access.find(call.path["id"], agent=query.agent, tenant=query.tenant)
    return ConsoleAnswer(LogPage(await read_log(access, head, query.after, query.limit), head.last_seq))


async def show_event(call: ConsoleCall) -> ConsoleAnswer:
    """One event in full, and in every form."""
    access, head, _ = await _find(call)
    stored = await read_event(access, head, _number(call.path["number"], head))
    event = await show_event_in_full(access, head, stored)
    forms: list[EventForm] = []
    if event.size <= MAX_FORM_EVENT:
        forms = await run_beside_loop(forms_of, stored.event)
    return ConsoleAnswer(LogEventDetails(event, forms, await _request_of(call, access, head, stored)))


def _number(text: str, head: TaskHead) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    raise ConsoleError("not_found", f"The task has {head.last_seq} events; there is none with this number")


async def show_request(call: ConsoleCall) -> ConsoleAnswer:
    """The request that began a task, in every form."""
    access, head, _ = await _find(call)
    for before in range(EVENTS_TO_REQUEST):
        for stored in await access.store.tasks.timed_events(head.key, after=before, limit=1):
            if isinstance(stored.event, MessageAdded):
                return ConsoleAnswer(RequestDetails(await _request_of(call, access, head, stored)))
    return ConsoleAnswer(RequestDetails(None))


async def _request_of(
    call: ConsoleCall, access: TaskAccess, head: TaskHead, stored: StoredEvent
) -> RequestForms | None:
    """The request that sent a message; None for other events, and if the agent is gone."""
    agent = access.agent_of(head)
    if agent is None or not isinstance(stored.event, MessageAdded):
        return None
    origin = call.request.base_url or call.request.origin
    has_bearer = any(isinstance(one, HttpAuthScheme) for one in call.backend.schemes.values())
    grpc = call.backend.app.shared.grpc_target(origin)
    target = RequestTarget(agent, origin, grpc, needs_token=call.backend.needs_login and has_bearer)
    began_task = stored.seq <= EVENTS_TO_REQUEST
    new_id = access.engine.new_id()
    return await run_beside_loop(request_forms, stored.event.message, target, new_id, began_task=began_task)


# --- webhooks, trees and files ----------------------------------------------------------------------------------------


async def show_failure(call: ConsoleCall) -> ConsoleAnswer:
    """The traceback of an agent that failed at a task, for operators and on open servers."""
    _, head, _ = await _find(call)
    may_see = call.caller.is_operator or (call.caller.is_anonymous and call.backend.app.is_unauthenticated)
    found = call.console.failures.find(head.key.task_id) if may_see else None
    return ConsoleAnswer(FailureDetails(found))


async def show_webhooks(call: ConsoleCall) -> ConsoleAnswer:
    """The webhooks of a task, with their deliveries."""
    access, head, _ = await _find(call)
    return ConsoleAnswer(WebhookList(await list_webhooks(access, head)))


async def send_webhook(call: ConsoleCall) -> ConsoleAnswer:
    """Send a webhook its events again."""
    call.backend.require(call.caller, "call")
    access, head, _ = await _find(call)
    wanted = await call.read(SendAgain)
    await send_again(access, head, call.path["webhook"], wanted.after)
    return ConsoleAnswer(WebhookList(await list_webhooks(access, head)))


async def show_tree(call: ConsoleCall) -> ConsoleAnswer:
    """A task with everything that it caused."""
    access, head, _ = await _find(call)
    return ConsoleAnswer(await build_tree(access, head))


async def download_file(call: ConsoleCall) -> None:
    """A part of an artifact, as a download."""
    access, head, query = await _find(call)
    number = call.path["part"]
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise ConsoleError("not_found", "The task has no such file")
    at = head.last_seq if query.at is None else query.at
    if not 1 <= at <= head.last_seq:
        raise ConsoleError("not_found", f"The task has {head.last_seq} events; there is none with number {at}")
    async with call.console.shared(FileSlots).slots:
        part = await find_part(access, head, call.path["artifact"], int(number), at)
    size = () if part.size is None else ((b"content-length", b"%d" % part.size),)
    headers = [(b"content-disposition", attachment_header(part.name)), *size, *SAFE_HEADERS]
    # A file that is one event is in memory while it is sent, however slowly its reader takes it.
    with call.backend.app.shared.bodies.reserved(call.request.address, part.size or PAGE_CHARACTERS):
        await call.request.start_reply(200, headers)
        async with aclosing(read_part(access, head, part)) as chunks:
            async for chunk in chunks:
                await call.request.send_chunk(bytes(chunk))
                del chunk
        await call.request.send_chunk(b"", is_last=True)


ROUTES = (
    ConsoleRoute("GET", "/tasks", list_tasks),
    ConsoleRoute("GET", "/tasks/{id}", show_task),
    ConsoleRoute("GET", "/tasks/{id}/log", show_log),
    ConsoleRoute("GET", "/tasks/{id}/log/{number}", show_event),
    ConsoleRoute("GET", "/tasks/{id}/request", show_request),
    ConsoleRoute("GET", "/tasks/{id}/failure", show_failure),
    ConsoleRoute("GET", "/tasks/{id}/webhooks", show_webhooks),
    ConsoleRoute("POST", "/tasks/{id}/webhooks/{webhook}/send", send_webhook),
    ConsoleRoute("GET", "/tasks/{id}/tree", show_tree),
    ConsoleRoute("GET", "/tasks/{id}/files/{artifact}/{part}", download_file, streams=True),
)
