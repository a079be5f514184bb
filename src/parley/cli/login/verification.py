"""Tests whether an agent accepts a login, with a call that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from parley.cli.options.client import ClientOptions
from parley.client.credentials.token_store import Login, MemoryLogins
from parley.client.errors import CredentialsError
from parley.protocol.errors import ParleyError, PermissionDeniedError, TaskNotFoundError, UnauthenticatedError
from parley.protocol.requests import GetTaskRequest

if TYPE_CHECKING:
    from parley.client.client import Client

SECONDS = 15.0
"""How long to wait for the agent, while a person waits."""


async def verify_logins(agent: ClientOptions, logins: Sequence[Login]) -> ParleyError | None:
    """None if the agent accepts these logins; otherwise the error because of which it is unknown.

    Raises:
        CredentialsError: the agent refuses them.
    """
    from parley.client.credentials.credentials import Credentials

    store = MemoryLogins()
    for login in logins:
        store.put(login)
    try:
        async with replace(agent, timeout=SECONDS).client(Credentials(store=store)) as client:
            await _ask(client)
    except UnauthenticatedError as error:
        raise CredentialsError(f"The agent refused the login, which is not stored: {error}") from error
    except (PermissionDeniedError, TaskNotFoundError):
        return None  # the caller is authenticated
    except ParleyError as error:
        return error
    return None


async def _ask(client: Client) -> None:
    """Send a request that needs authentication."""
    if client.card.capabilities.extended_card:
        await client.get_extended_card()
    else:
        await client.get_task(GetTaskRequest(str(uuid4())))
