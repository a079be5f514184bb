"""`parley push listen`: a webhook on this machine that shows what agents send, for development."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.commands.send import how_to_answer
from parley.cli.options.client import AsJson, ClientOptions, WithOptionalClient, non_empty_id
from parley.cli.options.webhooks import WebhookAuth, WebhookToken, WebhookUrl, webhook_authentication
from parley.cli.output.exit_codes import DONE, code_of_state
from parley.protocol.errors import LocalProtocolError, ParleyError
from parley.protocol.lifecycle import ends_stream, is_interrupted
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, DeletePushConfigRequest
from parley.protocol.tasks import TaskStatus

if TYPE_CHECKING:
    from parley.cli.output.notifications import NotificationTranscript
    from parley.cli.serving.local_webhook import LocalWebhook
    from parley.client.webhooks.notification import Handler, PushNotification
    from parley.client.webhooks.receiver import WebhookReceiver

CONFIG_ID = "parley-push-listen"
"""The id of the webhook that `--task` registers: a second listener replaces the first."""


async def listen(
    options: WithOptionalClient,
    port: Annotated[
        int,
        typer.Option(metavar="PORT", min=0, max=65_535, help="The port on this machine.", show_default="a free one"),
    ] = 0,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="ID", callback=non_empty_id, help="Register the webhook for this task, and show it to its end."
        ),
    ] = None,
    webhook_url: WebhookUrl = None,
    webhook_token: WebhookToken = None,
    webhook_auth: WebhookAuth = None,
    issuer: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Demand tokens that this agent signs, with its keys at /.well-known/jwks.json."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Receive notifications and show them, for development.

    The webhook listens on this machine only. The agent must present its secret, which is random unless it is given.
    With URL and --task, the webhook is registered for the task with the strongest proof that the agent offers, and
    deleted at the end. A Parley server on this machine calls it if it was started with --webhooks any.

    \b
    Examples:
      parley push listen
      parley push listen http://127.0.0.1:8080 --task $TASK
      parley push listen --port 9000 --webhook-auth "HMAC $SECRET" --json | jq -c .statusUpdate.status
    """
    from parley.cli.output.notifications import NotificationTranscript
    from parley.cli.serving.local_webhook import LocalWebhook

    if (options is None) != (task is None):
        raise typer.BadParameter("A task needs its agent, and an agent a task: URL and --task", param_hint="--task")
    transcript = NotificationTranscript(as_json=as_json)
    watched = _Watched(transcript, task)
    make = partial(_receiver, watched.handle, webhook_token, webhook_auth, issuer)
    try:
        webhook = LocalWebhook(make, port=port, url=webhook_url)
    except LocalProtocolError as error:
        raise typer.BadParameter(error.message, param_hint="--webhook-auth") from None
    with _showing_refusals(transcript):
        await webhook.start()
        try:
            if options is None or task is None:
                _announce(webhook, transcript)
                await asyncio.Event().wait()
                return DONE
            async with _registered(options, task, webhook):
                transcript.note(f"Listening at {webhook.url} for task {task}. Press Ctrl+C to stop.")
                status = await watched.ended
        finally:
            await webhook.close()
            transcript.end_line()
    if not as_json and is_interrupted(status.state):
        transcript.note(how_to_answer(options.url, task, status))
    return code_of_state(status.state)


class _Watched:
    """Shows notifications, and waits for the end of a task."""

    def __init__(self, transcript: NotificationTranscript, task: str | None) -> None:
        self._transcript = transcript
        self._task = task
        self.ended: asyncio.Future[TaskStatus] = asyncio.get_running_loop().create_future()

    async def handle(self, notification: PushNotification) -> None:
        status = self._transcript.show(notification)
        is_over = status is not None and ends_stream(status.state) and notification.task_id == self._task
        if status is not None and is_over and not self.ended.done():
            self.ended.set_result(status)


def _receiver(handle: Handler, token: str | None, auth: str | None, issuer: str | None, url: str) -> WebhookReceiver:
    from parley.client.webhooks.receiver import WebhookReceiver

    if issuer is not None:
        return WebhookReceiver.jwt(url, handle, issuer=issuer.rstrip("/"), token=token)
    if token is None and auth is None:
        return WebhookReceiver(url, handle)
    return WebhookReceiver(PushConfig(url, token=token, authentication=webhook_authentication(auth)), handle)


def _announce(webhook: LocalWebhook, transcript: NotificationTranscript) -> None:
    config = webhook.receiver.config
    words = ["parley", "push", "set", "URL", "TASK", webhook.url]
    if config.token:
        words += ["--webhook-token", config.token]
    if config.authentication is not None:
        proof = config.authentication
        words += ["--webhook-auth", " ".join(filter(None, (proof.schemes[0], proof.credentials)))]
    transcript.note(f"Listening at {webhook.url}. Press Ctrl+C to stop.")
    transcript.note(f"Register it with: {shlex.join(words)}")


@asynccontextmanager
async def _registered(options: ClientOptions, task: str, webhook: LocalWebhook) -> AsyncGenerator[None]:
    """The webhook of a task, as long as it listens."""
    from msgspec import structs

    from parley.cli.serving.local_webhook import refusal_of

    async with options.client() as client:
        config = structs.replace(client.webhook_config(webhook.receiver), task_id=task, id=CONFIG_ID)
        try:
            made = await client.create_push_config(CreatePushConfigRequest(task, config))
        except ParleyError as error:
            refusal = refusal_of(error, webhook.url)
            raise error if refusal is None else refusal from None
        try:
            yield
        finally:
            with suppress(ParleyError, OSError):  # some versions cannot delete one
                await client.delete_push_config(DeletePushConfigRequest(task, made.id or CONFIG_ID))


@contextmanager
def _showing_refusals(transcript: NotificationTranscript) -> Generator[None]:
    """Show why requests are refused: the receiver writes it to its log."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            transcript.note(record.getMessage(), "yellow")

    log, notes = logging.getLogger("parley.client.webhooks.receiver"), Notes()
    level, propagate = log.level, log.propagate
    log.addHandler(notes)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(notes)
        log.setLevel(level)
        log.propagate = propagate
