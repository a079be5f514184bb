"""The agent behind a proxy, as one client reaches it: what is under way there, and its streams with their numbers.

Whatever goes wrong on the way to it becomes an error that the proxy's callers know.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from parley.client.client import Client
from parley.client.errors import ClientError, CredentialsError
from parley.client.streams.resuming import ResumableStream
from parley.engine.following import Numbered
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    InvalidAgentResponseError,
    InvalidParamsError,
    LocalProtocolError,
    PeerProtocolError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.extensions import CURSOR
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.proxy.forwarding import brought, challenges_for

logger = logging.getLogger(__name__)

QUIET_SECONDS = 60.0
"""Between two words to the operator about the same: callers may come many times a second."""


class OwnCredentialsError(UnavailableError):
    """The agent does not let the proxy in. No caller can mend that; whoever runs the proxy can."""


@dataclass(slots=True)
class Traffic:
    """The requests that are being forwarded to an agent. None waits here: the agent has the queue."""

    agent: str = ""
    working: int = 0
    waiting: int = 0

    def by_agent(self) -> dict[str, tuple[int, int]]:
        """Both numbers, for the one agent there is."""
        return {self.agent: (self.working, self.waiting)}


class Upstream:
    """The way to the agent. `client` is open for as long as this is used."""

    def __init__(self, client: Client, *, are_credentials_ours: bool = False) -> None:
        self.client = client
        self.traffic = Traffic()
        self.has_cursors = client.calls.declares(CURSOR)
        self.is_draining = False
        self._are_credentials_ours = are_credentials_ours
        self._quiet_until = 0.0
        self._challenges = challenges_for(client.card)

    @property
    def version(self) -> Version:
        """The dialect of the agent."""
        return self.client.calls.transport.version

    @contextmanager
    def working(self) -> Generator[None]:
        """Something is under way. Raises only what callers know."""
        if self.is_draining:
            raise UnavailableError("The proxy is being stopped")
        self.traffic.working += 1
        try:
            with _translated_errors(are_credentials_ours=self._are_credentials_ours, challenges=self._challenges):
                yield
        except OwnCredentialsError as error:
            self._tell_operator(error)
            raise
        finally:
            self.traffic.working -= 1

    def _tell_operator(self, error: OwnCredentialsError) -> None:
        now = time.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + QUIET_SECONDS
        logger.error("%s; callers get 503 until that is mended: %s", error, error.__cause__)

    async def read(self, task_id: str, tenant: str | None) -> Task:
        """A task as the agent has it."""
        return await self.client.get_task(r.GetTaskRequest(task_id, tenant=tenant))

    def following(self, tenant: str | None) -> ResumableStream:
        """A stream that is to be followed."""
        return ResumableStream(self.client.calls, tenant=tenant)

    async def follow(
        self,
        request: r.SendMessageRequest | r.SubscribeToTaskRequest,
        after: int | None,
        following: ResumableStream | None = None,
    ) -> AsyncGenerator[Numbered]:
        """The agent's events with the numbers that it gives them, and 0 if it gives none."""
        following = following or self.following(request.tenant)
        cursor = str(after) if after is not None else None
        async with aclosing(following.events(request, after=cursor)) as events:
            async for event in events:
                yield _number(following.cursor) if self.has_cursors else 0, event


@contextmanager
def _translated_errors(*, are_credentials_ours: bool, challenges: tuple[str, ...]) -> Generator[None]:
    """What the agent reports passes as it is; what happens on the way to it becomes an error that callers know.

    `challenges` are what its card demands of callers; see `challenges_of`.
    """
    try:
        yield
    except UnauthenticatedError as error:
        if are_credentials_ours:
            raise OwnCredentialsError("The agent does not accept the proxy's own credentials") from error
        has_brought = bool(brought().headers or brought().query)
        vars(error).update(refused=has_brought, challenges=challenges)  # see `was_refused`
        raise
    except A2AError:
        raise
    except CredentialsError as error:
        if are_credentials_ours:
            raise OwnCredentialsError("The proxy lacks the credentials that the agent demands") from error
        raise UnauthenticatedError(str(error)) from error
    except ClientError as error:
        raise UnavailableError(f"The agent behind the proxy: {error}") from error
    except PeerProtocolError as error:
        raise InvalidAgentResponseError(f"The agent behind the proxy speaks no A2A: {error}") from error
    except LocalProtocolError as error:
        raise InvalidParamsError(f"The agent's dialect cannot say this: {error}") from error


def _number(cursor: str | None) -> int:
    """The number that a cursor is; a stream's reader can come back with nothing else."""
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) <= 15 else 0
