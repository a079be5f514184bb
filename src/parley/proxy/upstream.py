"""The agent behind a proxy: calls to it, its numbered streams, and errors of the connection as errors of A2A."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from parley.client.client import Client
from parley.client.errors import ClientError, CredentialsError
from parley.client.streams.resuming import ResumableStream
from parley.engine.reading.following import Numbered
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
from parley.proxy.forwarding import challenges_for, current_request

logger = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS = 60.0
"""Between two log messages about refused credentials; each call would cause one."""


class OwnCredentialsError(UnavailableError):
    """The agent refuses the proxy's own credentials. Only the operator of the proxy can change that."""


@dataclass(slots=True)
class ForwardedRequests:
    """The number of requests that are being forwarded. None are queued: the agent has the queue."""

    agent: str = ""
    working: int = 0
    waiting: int = 0

    def by_agent(self) -> dict[str, tuple[int, int]]:
        """Both numbers, for the only agent."""
        return {self.agent: (self.working, self.waiting)}


class Upstream:
    """The agent, called with an open `client`, which has the proxy's credentials or forwards those of callers."""

    def __init__(self, client: Client, *, has_own_credentials: bool = False) -> None:
        self.client = client
        self.traffic = ForwardedRequests()
        self.has_cursors = client.calls.declares(CURSOR)
        self.is_draining = False
        self._has_own_credentials = has_own_credentials
        self._next_log = 0.0
        self._challenges = challenges_for(client.card)

    @property
    def version(self) -> Version:
        """The version of A2A in which the agent is called."""
        return self.client.calls.transport.version

    @contextmanager
    def working(self) -> Generator[None]:
        """Count a request. Errors of the connection become errors of A2A."""
        if self.is_draining:
            raise UnavailableError("The proxy is shutting down")
        self.traffic.working += 1
        try:
            with _translated_errors(has_own_credentials=self._has_own_credentials, challenges=self._challenges):
                yield
        except OwnCredentialsError as error:
            self._log(error)
            raise
        finally:
            self.traffic.working -= 1

    def _log(self, error: OwnCredentialsError) -> None:
        now = time.monotonic()
        if now >= self._next_log:
            self._next_log = now + LOG_INTERVAL_SECONDS
            logger.error("%s; callers get status 503 until this is fixed: %s", error, error.__cause__)

    async def read(self, task_id: str, tenant: str | None) -> Task:
        """Read a task at the agent."""
        return await self.client.get_task(r.GetTaskRequest(task_id, tenant=tenant))

    async def follow(
        self,
        request: r.SendMessageRequest | r.SubscribeToTaskRequest,
        after: int | None,
        stream: ResumableStream | None = None,
    ) -> AsyncGenerator[Numbered]:
        """The agent's events with their numbers, or 0 if the agent does not number them."""
        stream = stream or ResumableStream(self.client.calls, tenant=request.tenant)
        cursor = str(after) if after is not None else None
        async with aclosing(stream.events(request, after=cursor)) as events:
            async for event in events:
                yield _number(stream.cursor) if self.has_cursors else 0, event


@contextmanager
def _translated_errors(*, has_own_credentials: bool, challenges: tuple[str, ...]) -> Generator[None]:
    """Translate errors of the connection to errors of A2A; errors of the agent stay as they are.

    `challenges` are those of the agent's card; see `challenges_of`.
    """
    try:
        yield
    except UnauthenticatedError as error:
        if has_own_credentials:
            raise OwnCredentialsError("The agent refuses the proxy's own credentials") from error
        request = current_request()
        vars(error).update(refused=bool(request.headers or request.query), challenges=challenges)  # see `was_refused`
        raise
    except A2AError:
        raise
    except CredentialsError as error:
        if has_own_credentials:
            raise OwnCredentialsError("The proxy lacks the credentials that the agent requires") from error
        raise UnauthenticatedError(str(error)) from error
    except ClientError as error:
        raise UnavailableError(f"The agent behind the proxy: {error}") from error
    except PeerProtocolError as error:
        raise InvalidAgentResponseError(f"The agent behind the proxy does not speak A2A: {error}") from error
    except LocalProtocolError as error:
        raise InvalidParamsError(f"The agent's version of A2A cannot express this: {error}") from error


def _number(cursor: str | None) -> int:
    """The number in a cursor, or 0 if it is not a number: callers can resume at numbers only."""
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) <= 15 else 0
