"""Secrets as callers see them: that there is one, and not which. They are in webhooks, and in answers of callers.

A caller that reads a webhook, changes it and registers it again sends masks back. A mask keeps the secret that is
stored, but only for the same URL: a caller that may not read a secret could otherwise have it sent to a server of its
own. Credentials are kept for the same schemes only: those of one are not valid in another, which may even send in plain
what the first never sends. A reader of 1.0 sees the first of several names, and may send it back alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import structs

from parley.protocol.errors import InvalidParamsError
from parley.protocol.messages import Message
from parley.protocol.push import PushAuthentication, PushConfig

T = TypeVar("T")

MASK = "********"
"""Stands for a secret that is stored."""

SEALED_MESSAGE = "urn:parley:sealed-message:1"
"""The name in a message's metadata under which the log, and nothing else, has the encrypted message."""


def without_sealed_message(message: Message) -> Message:
    """A message without what only the log may hold: readers have no use for it, and no caller may send it."""
    if SEALED_MESSAGE not in message.metadata:
        return message
    metadata = {name: value for name, value in message.metadata.items() if name != SEALED_MESSAGE}
    return structs.replace(message, metadata=metadata)


def masked(config: PushConfig) -> PushConfig:
    """A webhook without its secrets: each that is set is the mask."""
    given = config.authentication
    if config.token is None and given is None:
        return config
    authentication = given and structs.replace(
        given,
        credentials=_masked(given.credentials),
        extra=dict.fromkeys(given.extra, MASK),
    )
    return structs.replace(config, token=_masked(config.token), authentication=authentication)


def has_mask(config: PushConfig) -> bool:
    """Whether a secret of a webhook is the mask."""
    given = config.authentication
    return config.token == MASK or (given is not None and (given.credentials == MASK or MASK in given.extra.values()))


def with_kept_secrets(config: PushConfig, stored: PushConfig | None) -> PushConfig:
    """A webhook with the secrets of the stored one in place of masks.

    Raises:
        InvalidParamsError: a secret is the mask, and none is stored for the same URL and scheme.
    """
    if not has_mask(config):
        return config
    known = stored if stored is not None and stored.url == config.url else PushConfig(config.url)
    given = config.authentication
    return structs.replace(
        config,
        token=_kept("token", config.token, known.token),
        authentication=given and _with_kept(given, known.authentication or PushAuthentication(())),
    )


def _with_kept(given: PushAuthentication, known: PushAuthentication) -> PushAuthentication:
    names, known_names = _lower(given.schemes), _lower(known.schemes)
    if names != known_names and not (names and known_names[: len(names)] == names):
        known = PushAuthentication(())
    extra = {name: _kept(name, value, known.extra.get(name)) for name, value in given.extra.items()}
    return structs.replace(given, credentials=_kept("credentials", given.credentials, known.credentials), extra=extra)


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _masked(secret: str | None) -> str | None:
    return MASK if secret else secret


def _kept(name: str, value: T, known: T | None) -> T:
    if value != MASK:
        return value
    if known is None:
        raise InvalidParamsError(
            f"The webhook's {name} is {MASK}, which keeps a stored one, and there is none for this URL and scheme. "
            "Send the secret"
        )
    return known
