"""The deliveries to the caller's webhooks, on a server of Parley: what failed, sending it again, and resuming.

    async with Client(url) as client:
        for delivery in (await PushDeliveries(client).list()).deliveries:
            print(delivery.task_id, delivery.status, delivery.last_error)

A2A has no such operations: they are HTTP requests beside it, with the client's credentials. Other servers refuse them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from parley.protocol.errors import PeerProtocolError
from parley.protocol.push_deliveries import (
    DELIVERIES_PATH,
    DeliveryList,
    DeliveryStatus,
    DeliveryView,
    RedeliverRequest,
)

if TYPE_CHECKING:  # commands name this module, and few of them call an agent
    from parley.client.client import Client

T = TypeVar("T")


class PushDeliveries:
    """The operations on the deliveries of one agent's tasks. All raise A2AError and ClientError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(
        self, *, task: str | None = None, status: DeliveryStatus | None = None, page_token: str | None = None
    ) -> DeliveryList:
        """One page of the webhooks of a task; or, without one, of all that fail, are paused or have dead letters."""
        asked = {"taskId": task, "status": status, "pageToken": page_token}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return await self._ask("GET", f"{DELIVERIES_PATH}{'?' if query else ''}{query}", DeliveryList)

    async def get(self, task: str, webhook: str) -> DeliveryView:
        """A webhook, with its deliveries. Raises TaskNotFoundError."""
        return await self._ask("GET", _path(task, webhook), DeliveryView)

    async def redeliver(self, task: str, webhook: str, *, after: int | None = None) -> DeliveryView:
        """Send the events after a number again; without one, from the first dead letter on.

        Raises:
            TaskNotFoundError: there is no such webhook.
            InvalidParamsError: the task has no such event.
        """
        body = msgspec.json.encode(RedeliverRequest(after))
        return await self._ask("POST", f"{_path(task, webhook)}/redeliver", DeliveryView, body)

    async def resume(self, task: str, webhook: str) -> DeliveryView:
        """Call a webhook now that is paused or waits for its next attempt. Raises TaskNotFoundError."""
        return await self._ask("POST", f"{_path(task, webhook)}/resume", DeliveryView, b"{}")

    async def _ask(self, verb: str, path: str, kind: type[T], body: bytes = b"") -> T:
        answer = await self._client.beside_a2a(verb, path, body)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise PeerProtocolError(f"The server's answer about its deliveries cannot be read: {error}") from error


def _path(task: str, webhook: str) -> str:
    return f"{DELIVERIES_PATH}/{quote(task, safe='')}/{quote(webhook, safe='')}"
