"""The processes of one host that share a store: what each must learn of the others, and when.

    replicas = Replicas(store, clock)      # first: everything of the host is kept in replicas.records
    replicas.attach(host)                  # when all parts are there
    await replicas.begin()                 # before anything is loaded
    replicas.start()                       # when the engine runs

`change_follower` follows changes of agents, tenants, stops and tokens; `replica_counts` adds up what counts for quotas.
With a store that one process has to itself, nothing of this happens.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from parley.engine.clock import Clock
from parley.host.change_follower import ChangeFollower
from parley.host.changes_elsewhere import followers_of
from parley.host.data.change_notes import ChangeNotes, NotedRecords
from parley.host.data.keys import APPROVAL_TIMERS, CONVERSATION_HOLDERS, RUN_REQUESTS, SCHEDULES
from parley.host.replica_counts import ReplicaCounts, TenantCounts
from parley.stores.interface import Records, Store

if TYPE_CHECKING:
    from parley.host.host import Host


class Replicas:
    """What this process knows of the others."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.records: Records = store.records
        """What the host keeps. Other processes learn of what is written here."""
        self._clock = clock
        self._process = secrets.token_hex(8)
        self._noted: NotedRecords | None = None
        if store.is_shared:
            self.records = self._noted = NotedRecords(store.records, clock, by=self._process)
        self._host: Host | None = None
        self._follower: ChangeFollower | None = None
        self._counts: ReplicaCounts | None = None
        self._stop_listening: Callable[[], None] | None = None

    def attach(self, host: Host) -> None:
        """Follow changes for a host whose parts are all there."""
        if self._noted is None:
            return
        self._host = host
        notes = ChangeNotes(host.store.records, by=self._process)
        wakers: Mapping[str, Callable[[str], None]] = {
            CONVERSATION_HOLDERS: host.turns.conversations.wake,
            RUN_REQUESTS: lambda _: host.run_requests.wake(),
            APPROVAL_TIMERS: lambda _: host.approval_expiry.wake(),
            SCHEDULES: lambda _: host.schedules.ticker.wake(),
        }
        self._follower = ChangeFollower(notes, self._noted, self._clock, followers=followers_of(host), wakers=wakers)
        self._counts = ReplicaCounts(
            host.store.records, host.engine, own=self._own_counts, on_taken=self._taken_elsewhere
        )

    async def begin(self) -> None:
        """Remember which changes there are, before anything is loaded. Raises StoreError."""
        if self._follower is not None and self._host is not None:
            if self._host.engine.hints is not None:
                self._stop_listening = self._follower.listen(self._host.engine.hints)
            await self._follower.begin()

    async def start(self) -> None:
        """Learn what has changed since the start, and follow the other processes from now on."""
        if self._follower is None or self._counts is None or self._host is None:
            return
        await self._follower.look_for_missing()
        self._host.engine.keep_running(self._follower.keep_looking)
        self._host.engine.keep_running(self._counts.keep_counting)
        self._host.engine.keep_running(self._host.run_requests.keep_handling)

    def close(self) -> None:
        """Follow no more hints."""
        if self._stop_listening is not None:
            self._stop_listening()

    async def look_for_missing(self) -> bool:
        """Learn of changes, because something is not known here. Returns whether another process may have made it."""
        if self._follower is None:
            return False
        await self._follower.look_for_missing()
        return True

    # --- counts -------------------------------------------------------------------------------------------------------

    def active_requests(self, tenant_id: str) -> int:
        """How many requests of a tenant other processes work on or have waiting."""
        return 0 if self._counts is None else self._counts.active(tenant_id)

    def waiting(self, tenant_id: str) -> int:
        """How many runs of a tenant wait in other processes."""
        return 0 if self._counts is None else self._counts.waiting(tenant_id)

    def running(self, tenant_id: str) -> int:
        """How many runs of a tenant are at work in other processes."""
        return 0 if self._counts is None else self._counts.running(tenant_id)

    def tenants(self) -> frozenset[str]:
        """The tenants that have work in other processes."""
        return frozenset() if self._counts is None else self._counts.tenants()

    def _own_counts(self) -> Mapping[str, TenantCounts]:
        host = self._host
        assert host is not None
        taken, turns = host.quotas.taken(), host.turns
        tenants = taken.keys() | {run.key.owner.tenant for run in host.engine.runs.all}
        return {
            tenant: TenantCounts(
                active=host.own_active_requests(tenant),
                waiting=len(turns.queue(tenant)),
                running=len(turns.at_work(tenant)),
                taken=taken.get(tenant, 0),
            )
            for tenant in sorted(tenants)
        }

    def _taken_elsewhere(self, tenant_id: str, number: int) -> None:
        tenant = None if self._host is None else self._host.tenant(tenant_id)
        if tenant is not None and self._host is not None:
            self._host.quotas.count_elsewhere(tenant, number)
