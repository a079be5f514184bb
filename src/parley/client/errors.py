"""Errors on the client's side of a call. Errors that the agent reports are in `protocol.errors`.

ClientError
├── UnreachableError        no connection, or it broke; `was_sent` says whether the request may have arrived
│   └── TimedOutError
├── StreamTruncatedError    a stream ended before its task did
├── TaskFailedError         of `ask`: the task failed, was rejected or canceled
├── ForbiddenTargetError    a card or a redirect points to a URL that this client must not call
├── FileError               a file of a message cannot be read
│   ├── FileForbiddenError      its URL must not be called
│   ├── FileTooLargeError
│   └── FileUnavailableError    its server does not have it, cannot be reached, or takes too long
├── CredentialsError        credentials are missing, invalid or refused
└── DiscoveryError          no card was found
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

    `was_sent` says whether the request may have arrived. If not, every call can be repeated.
    """

    def __init__(self, message: str | None = None, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class TimedOutError(UnreachableError):
    """The agent did not answer in time."""


class StreamTruncatedError(ClientError):
    """The stream ended before its task did, and could not be resumed. The task may still be running.

    `client.subscribe(error.task_id, after=error.cursor)` continues later; `cursor` is None if the agent has none.
    """

    def __init__(self, message: str | None = None, *, task_id: str | None = None, cursor: str | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.cursor = cursor


class TaskFailedError(ClientError):
    """The task failed, was rejected or canceled; `reply` is the agent's answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"The task is {reply.state}: {reply.reason}" if reply.reason else f"The task is {reply.state}")
        self.reply = reply


class ForbiddenTargetError(ClientError):
    """This URL must not be called."""


class FileError(ClientError):
    """The file cannot be read."""


class FileForbiddenError(FileError):
    """The file is at a URL that must not be called."""


class FileTooLargeError(FileError):
    """The file has more bytes than are wanted."""


class FileUnavailableError(FileError):
    """The file cannot be fetched."""


class CredentialsError(ClientError):
    """The agent demands credentials that were not given."""


class DiscoveryError(ClientError):
    """No agent card was found."""

    max_text = 1_000  # it names every URL that was tried
