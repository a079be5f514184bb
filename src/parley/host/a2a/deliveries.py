"""The deliveries to webhooks of a hosted agent's tasks, for callers whose token allows it."""

from __future__ import annotations

from parley.engine.caller import Caller
from parley.engine.webhooks.delivery_operations import MAX_PAGE, DeliveriesPage, DeliveryOperations
from parley.host.access.principal import require_scope
from parley.host.access.scopes import Scope
from parley.protocol.push_deliveries import DeliveryStatus
from parley.stores.interface import Webhook


class HostedDeliveries:
    """The operations of `DeliveryOperations`: reading needs the scope to read, sending again the scope to call."""

    __slots__ = ("_operations",)

    def __init__(self, operations: DeliveryOperations) -> None:
        self._operations = operations

    async def list(
        self,
        caller: Caller,
        *,
        task_id: str | None = None,
        status: DeliveryStatus | None = None,
        after: tuple[str, str] | None = None,
        limit: int = MAX_PAGE,
    ) -> DeliveriesPage:
        """The webhooks of a task, or those that fail."""
        require_scope(caller, Scope.READ)
        return await self._operations.list(caller, task_id=task_id, status=status, after=after, limit=limit)

    async def get(self, task_id: str, config_id: str, caller: Caller) -> Webhook:
        """A webhook, with its deliveries."""
        require_scope(caller, Scope.READ)
        return await self._operations.get(task_id, config_id, caller)

    async def redeliver(self, task_id: str, config_id: str, caller: Caller, *, after: int | None = None) -> Webhook:
        """Send events again."""
        require_scope(caller, Scope.CALL)
        return await self._operations.redeliver(task_id, config_id, caller, after=after)

    async def resume(self, task_id: str, config_id: str, caller: Caller) -> Webhook:
        """Call a paused webhook now."""
        require_scope(caller, Scope.CALL)
        return await self._operations.resume(task_id, config_id, caller)
