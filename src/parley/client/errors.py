"""What can go wrong on this side of a call. What the agent reports comes as the errors of `protocol.errors`.

ClientError
├── UnreachableError        no connection, or it broke; `was_sent` says whether the request may have arrived
│   └── TimedOutError
├── StreamTruncatedError    a stream ended before its task did
├── TaskFailedError         `ask` got no answer: the task failed, was rejected or canceled
├── ForbiddenTargetError    a card or a redirect points where this client must not go
├── CredentialsError        the agent demands what the caller has not given
└── DiscoveryError          there is no card
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.client.reply import Reply


class ClientError(ParleyError):
    """The call could not be made."""


class UnreachableError(ClientError):
    """The agent cannot be reached.

    `was_sent` says whether the request may have arrived: if not, anything may be tried again.
    """

    def __init__(self, message: str | None = None, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class TimedOutError(UnreachableError):
    """The agent did not answer in time."""


class StreamTruncatedError(ClientError):
    """The stream ended before its task did, and could not be taken up again. The task may still be at work.

    `client.subscribe(error.task_id, after=error.cursor)` goes on later; `cursor` is None if the agent has none.
    """

    def __init__(self, message: str | None = None, *, task_id: str | None = None, cursor: str | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.cursor = cursor


class TaskFailedError(ClientError):
    """The agent has not done what it was asked; `reply` is what it said."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"The task is {reply.state}: {reply.reason}" if reply.reason else f"The task is {reply.state}")
        self.reply = reply


class ForbiddenTargetError(ClientError):
    """This address must not be called."""


class CredentialsError(ClientError):
    """The agent demands credentials that were not given."""


class DiscoveryError(ClientError):
    """No agent card was found."""

    max_text = 1_000  # it names every place that was looked at
