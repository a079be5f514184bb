"""`parley push`: sets, lists and deletes the webhooks of a task, shows and repeats what was sent, and receives it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from parley.cli.commands.push_deliveries import add_commands
from parley.cli.commands.push_listen import listen
from parley.cli.options.client import AsJson, TaskId, WithClientOptions, non_empty_id
from parley.cli.options.groups import with_option_groups
from parley.cli.options.webhooks import WebhookAuth, WebhookToken, webhook_authentication
from parley.cli.output.exit_codes import DONE, EXIT_CODES
from parley.cli.output.help_text import ParleyCommand, ParleyGroup
from parley.cli.output.transcript import console, print_json, show_rows
from parley.dialects.v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.errors import PeerProtocolError
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, DeletePushConfigRequest, ListPushConfigsRequest

MAX_PAGES = 1_000
"""Of a task's webhooks: a malicious agent could send pages for ever."""

app = typer.Typer(
    cls=ParleyGroup,
    help="Set, list and delete webhooks, see and repeat what was sent to them, and receive it.",
    rich_markup_mode=None,
)


@app.command("set", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def set_webhook(
    options: WithClientOptions,
    task: TaskId,
    webhook: Annotated[str, typer.Argument(metavar="WEBHOOK", help="The URL that the agent calls.")],
    config_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", callback=non_empty_id, help="The webhook's id; the same id replaces it."),
    ] = None,
    webhook_token: WebhookToken = None,
    webhook_auth: WebhookAuth = None,
    as_json: AsJson = False,
) -> int:
    """Make the agent call a webhook whenever a task changes.

    \b
    Examples:
      parley push set http://127.0.0.1:8080 $TASK https://me.example.com/hook
      parley push set localhost:8080 $TASK https://me.example.com/hook \\
        --id ci --webhook-auth "Bearer $HOOK_TOKEN"
    """
    config = PushConfig(webhook, task, config_id, webhook_token, webhook_authentication(webhook_auth))
    async with options.client() as client:
        made = await client.create_push_config(CreatePushConfigRequest(task, config))
    _show(made, console(), as_json=as_json)
    return DONE


def _show(config: PushConfig, to: Console, *, as_json: bool) -> None:
    if as_json:
        print_json(DIALECT.encode_result(ops.GET_PUSH_CONFIG, config))
        return
    rows = [("id", config.id or "–"), ("calls", config.url)]
    if config.token:
        rows.append(("token", "set"))
    if config.authentication:
        rows.append(("auth", ", ".join(config.authentication.schemes)))
    show_rows(to, rows)


@app.command("list", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def list_webhooks(
    options: WithClientOptions,
    task: TaskId,
    as_json: AsJson = False,
) -> int:
    """List a task's webhooks. Their secrets are not shown, except with --json, if the agent returns them.

    \b
    Example:
      parley push list http://127.0.0.1:8080 $TASK
    """
    to, count = console(), 0
    async with options.client() as client:
        page_token: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.list_push_configs(ListPushConfigsRequest(task, page_token=page_token))
            for config in page.configs:
                if count and not as_json:
                    to.print()
                _show(config, to, as_json=as_json)
                count += 1
            page_token = page.next_page_token
            if not page_token:
                break
        else:
            raise PeerProtocolError("The agent's list of webhooks does not end")
    if not count and not as_json:
        console(stderr=True).print("The task has no webhooks.")
    return DONE


@app.command("delete", cls=ParleyCommand, epilog=EXIT_CODES)
@with_option_groups
async def delete(
    options: WithClientOptions,
    task: TaskId,
    config_id: Annotated[str, typer.Argument(metavar="ID", callback=non_empty_id, help="The webhook's id.")],
    as_json: AsJson = False,
) -> int:
    """Delete a webhook of a task.

    \b
    Example:
      parley push delete http://127.0.0.1:8080 $TASK ci
    """
    async with options.client() as client:
        await client.delete_push_config(DeletePushConfigRequest(task, config_id))
    if as_json:
        print_json(b"{}")
    else:
        console(stderr=True).print("Deleted.")
    return DONE


app.command("listen", cls=ParleyCommand, epilog=EXIT_CODES)(with_option_groups(listen))
add_commands(app)
