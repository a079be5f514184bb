"""Whether an agent takes what somebody wants to log in with, found out by a call that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from parley.cli.login.choice import Wish
from parley.cli.options.client import Calling
from parley.client.credentials.token_store import Login, MemoryLogins
from parley.client.errors import CredentialsError
from parley.protocol.errors import ParleyError, PermissionDeniedError, TaskNotFoundError, UnauthenticatedError
from parley.protocol.requests import GetTaskRequest

if TYPE_CHECKING:
    from parley.client.client import Client

SECONDS = 15.0
"""How long the agent is waited for: somebody sits there."""


async def why_untried(wish: Wish, logins: Sequence[Login]) -> ParleyError | None:
    """None if the agent takes these logins; otherwise the reason why nobody can tell.

    Raises:
        CredentialsError: it refuses them.
    """
    from parley.client.client import Client
    from parley.client.credentials.credentials import Credentials

    how = Calling(url=wish.url, tls=wish.tls, allow_private=wish.allow_private, timeout=SECONDS)
    store = MemoryLogins()
    for login in logins:
        store.put(login)
    client = Client(
        wish.url,
        credentials=Credentials(store=store),
        bindings=how.bindings,
        timeouts=how.timeouts(),
        guard=how.guard(),
        tls=wish.tls,
    )
    try:
        async with client:
            await _ask(client)
    except UnauthenticatedError as error:
        raise CredentialsError(f"The agent refuses it, and nothing is kept: {error}") from error
    except (PermissionDeniedError, TaskNotFoundError):
        return None  # it knows who asks
    except ParleyError as error:
        return error
    return None


async def _ask(client: Client) -> None:
    """Ask what only whoever is let in gets an answer to."""
    if client.card.capabilities.extended_card:
        await client.get_extended_card()
    else:
        await client.get_task(GetTaskRequest(str(uuid4())))
