"""The options about webhooks that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from parley.protocol.push import PushAuthentication

# As variables, because every user of the machine can read the arguments of a command. Not PARLEY_WEBHOOK_AUTH, which is
# a setting of servers.
WebhookToken = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", envvar="PARLEY_HOOK_TOKEN", help="A token that the agent sends to the webhook."),
]
WebhookAuth = Annotated[
    str | None,
    typer.Option(
        metavar="'SCHEME CREDENTIALS'",
        envvar="PARLEY_HOOK_AUTH",
        help="How the agent authenticates at the webhook.",
    ),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The URL by which the agent reaches this machine.", show_default="the port on 127.0.0.1"
    ),
]


def webhook_authentication(text: str | None) -> PushAuthentication | None:
    """The scheme and the credentials in a text such as `Bearer …`. Raises BadParameter."""
    if text is None:
        return None
    scheme, _, credentials = text.strip().partition(" ")
    if not scheme:
        raise typer.BadParameter("Write it as 'Bearer …'", param_hint="--webhook-auth")
    return PushAuthentication((scheme,), credentials.strip() or None)
