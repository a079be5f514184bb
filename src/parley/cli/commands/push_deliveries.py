"""`parley push deliveries|show|redeliver|resume`: what became of a webhook's events, and sending them again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, get_args

import msgspec
import typer
from rich.console import Console

from parley.cli.options.client import AsJson, TaskId, WithClientOptions, non_empty_id
from parley.cli.options.groups import with_option_groups
from parley.cli.output.exit_codes import DONE, EXIT_CODES
from parley.cli.output.help_text import ParleyCommand
from parley.cli.output.transcript import console, print_json, show_rows
from parley.client.push_deliveries import PushDeliveries
from parley.protocol.errors import PeerProtocolError
from parley.protocol.push_deliveries import DeliveryStatus, DeliveryView

MAX_PAGES = 10_000
"""Of webhooks: a malicious server could send pages for ever."""

WebhookId = Annotated[
    str, typer.Argument(metavar="ID", callback=non_empty_id, help="The webhook's id; `default` if it was set without.")
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `parley push`."""
    for name, command in (("deliveries", deliveries), ("show", show), ("redeliver", redeliver), ("resume", resume)):
        app.command(name, cls=ParleyCommand, epilog=EXIT_CODES)(command)


@with_option_groups
async def deliveries(
    options: WithClientOptions,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", callback=non_empty_id, help="All webhooks of this task.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="|".join(get_args(DeliveryStatus)), help="Only webhooks with this status."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List your webhooks that fail, are paused or missed events.

    This works on servers of Parley.

    \b
    Examples:
      parley push deliveries http://127.0.0.1:8080
      parley push deliveries localhost:8080 --status paused
      parley push deliveries localhost:8080 --task $TASK --json | jq .status
    """
    if status is not None and status not in get_args(DeliveryStatus):
        raise typer.BadParameter(f"Choose one of: {', '.join(get_args(DeliveryStatus))}", param_hint="--status")
    to, count = console(), 0
    async with options.client() as client:
        page_token: str | None = None
        for _ in range(MAX_PAGES):
            page = await PushDeliveries(client).list(
                task=task, status=msgspec.convert(status, DeliveryStatus | None), page_token=page_token
            )
            for delivery in page.deliveries:
                if count and not as_json:
                    to.print()
                _show(delivery, to, as_json=as_json)
                count += 1
            page_token = page.next_page_token
            if not page_token:
                break
        else:
            raise PeerProtocolError("The server's list of webhooks does not end")
    if not count and not as_json:
        console(stderr=True).print("There are none.")
    return DONE


@with_option_groups
async def show(options: WithClientOptions, task: TaskId, webhook: WebhookId, as_json: AsJson = False) -> int:
    """Show how the deliveries to a webhook go.

    These are the attempts, the last error, and which events were given up.

    \b
    Example:
      parley push show http://127.0.0.1:8080 $TASK ci
    """
    async with options.client() as client:
        _show(await PushDeliveries(client).get(task, webhook), console(), as_json=as_json)
    return DONE


@with_option_groups
async def redeliver(
    options: WithClientOptions,
    task: TaskId,
    webhook: WebhookId,
    after: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The events after this number.", show_default="those given up"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Send events to a webhook again.

    They are sent in order, with the ids that they had. Without --after, these are all events from the first one that
    was given up.

    \b
    Examples:
      parley push redeliver http://127.0.0.1:8080 $TASK ci
      parley push redeliver localhost:8080 $TASK ci --after 0
    """
    async with options.client() as client:
        _show(await PushDeliveries(client).redeliver(task, webhook, after=after), console(), as_json=as_json)
    return DONE


@with_option_groups
async def resume(options: WithClientOptions, task: TaskId, webhook: WebhookId, as_json: AsJson = False) -> int:
    """Resume a paused webhook: it is called at once.

    A webhook that waits for its next attempt is called at once, too.

    \b
    Example:
      parley push resume http://127.0.0.1:8080 $TASK ci
    """
    async with options.client() as client:
        _show(await PushDeliveries(client).resume(task, webhook), console(), as_json=as_json)
    return DONE


def _show(delivery: DeliveryView, to: Console, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.json.encode(delivery))
        return
    rows = [
        ("task", delivery.task_id),
        ("id", delivery.config_id or "–"),
        ("calls", delivery.url),
        ("status", delivery.status.replace("_", " ")),
        ("delivered", f"{delivery.delivered} of {delivery.last} events"),
    ]
    if delivery.attempts or delivery.last_error:
        rows.append(("attempts", str(delivery.attempts)))
        rows.append(("last error", delivery.last_error or "–"))
    moments = (("paused", delivery.paused_since), ("next", delivery.next_attempt_at))
    rows += [(name, _moment(at)) for name, at in moments if at is not None]
    for letter in delivery.dead_letters:
        events = f"{letter.first_event} to {letter.last_event}"
        rows.append(("given up", f"events {events}, {_moment(letter.at)}: {letter.reason}"))
    show_rows(to, rows)


def _moment(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
