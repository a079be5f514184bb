"""The connection to the agent: the requests in progress, its streams with event numbers, and its errors.

Errors of the connection become errors of A2A.
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
from parley.proxy.forwarding import challenges_for, forwarded_parts

logger = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS = 60.0
"""Between two log lines about the same problem: there may be many requests a second."""


class OwnCredentialsError(UnavailableError):
    """The agent refuses the proxy's credentials, which only the operator of the proxy can fix."""


@dataclass(slots=True)
class Traffic:
    """The number of requests that are being forwarded. None waits in the proxy."""

    agent: str = ""
    working: int = 0
    waiting: int = 0

    def by_agent(self) -> dict[str, tuple[int, int]]:
        """Both numbers, for the one agent there is."""
        return {self.agent: (self.working, self.waiting)}


class Upstream:
    """The agent behind a proxy. `client` must be open."""

    def __init__(self, client: Client, *, uses_own_credentials: bool = False) -> None:
        self.client = client
        self.traffic = Traffic()
        self.has_cursors = client.calls.declares(CURSOR)
        self.is_draining = False
        self._are_credentials_ours = uses_own_credentials
        self._silent_until = 0.0
        self._challenges = challenges_for(client.card)

    @property
    def version(self) -> Version:
        """The dialect of the agent."""
        return self.client.calls.transport.version

    @contextmanager
    def working(self) -> Generator[None]:
        """Count a request in progress, and translate errors for callers."""
        if self.is_draining:
            raise UnavailableError("The proxy is being stopped")
        self.traffic.working += 1
        try:
            with _translated_errors(uses_own_credentials=self._are_credentials_ours, challenges=self._challenges):
                yield
        except OwnCredentialsError as error:
            self._log_refusal(error)
            raise
        finally:
            self.traffic.working -= 1

    def _log_refusal(self, error: OwnCredentialsError) -> None:
        now = time.monotonic()
        if now < self._silent_until:
            return
        self._silent_until = now + LOG_INTERVAL_SECONDS
        logger.error("%s; callers get 503 until this is fixed: %s", error, error.__cause__)

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
def _translated_errors(*, uses_own_credentials: bool, challenges: tuple[str, ...]) -> Generator[None]:
    """Pass the agent's errors on, and translate those of the connection into errors of A2A.

    `challenges` are those of the agent's card; see `challenges_of`.
    """
    try:
        yield
    except UnauthenticatedError as error:
        if uses_own_credentials:
            raise OwnCredentialsError("The agent does not accept the proxy's own credentials") from error
        has_credentials = bool(forwarded_parts().headers or forwarded_parts().query)
        vars(error).update(refused=has_credentials, challenges=challenges)  # see `was_refused`
        raise
    except A2AError:
        raise
    except CredentialsError as error:
        if uses_own_credentials:
            raise OwnCredentialsError("The proxy lacks the credentials that the agent requires") from error
        raise UnauthenticatedError(str(error)) from error
    except ClientError as error:
        raise UnavailableError(f"The agent behind the proxy: {error}") from error
    except PeerProtocolError as error:
        raise InvalidAgentResponseError(f"The agent behind the proxy does not speak A2A: {error}") from error
    except LocalProtocolError as error:
        raise InvalidParamsError(f"The agent's dialect cannot express this: {error}") from error


def _number(cursor: str | None) -> int:
    """The number in a cursor, or 0: readers can resume only from a number."""
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) <= 15 else 0
