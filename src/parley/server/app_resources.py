"""What all agents of an app share: its settings, its budgets, and the objects that observe it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from parley.engine.caller import Caller
from parley.keys.signing_key import SigningKeys
from parley.protocol.cards import AgentCard, AgentExtension, Binding
from parley.protocol.errors import A2AError, UnauthenticatedError
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.streams import StreamMonitor
from parley.server.contracts import CallerAuthenticator, ConversationObserver
from parley.server.limits import ServerLimits
from parley.server.pages.owner_data import DataOperations
from parley.server.security.authentication import was_refused
from parley.server.security.credentials import ANONYMOUS, Identity, PresentedCredentials
from parley.server.security.throttle import Throttle
from parley.server.signing_threads import SigningThreads
from parley.server.telemetry.telemetry import Telemetry
from parley.server.webhooks.authentication import WebhookAuthenticator

V = TypeVar("V")

CheckWebhook: TypeAlias = Callable[[PushConfig, str, Version], None]
"""Raises InvalidParamsError for a webhook that may not be called; the string is the JSON path to it."""

FindExtendedCard: TypeAlias = Callable[[Caller], Awaitable[AgentCard]]
"""Fetches the extended card of a remote agent for a caller."""

CACHED_CARDS = 1_000
"""Cards of all agents, for all URLs that they are reached by: some 5 MB. Callers choose the `Host` header."""

CACHED_PAGES = 64
"""OpenAPI documents and documentation pages: some 10 MB."""


class Cache:
    """The values that were made lately, up to a number of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, object] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of a key, which is made if it is not there."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if len(self._values) > self._size:
                self._values.popitem(last=False)
        return cast(V, value)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values


def _no_locks() -> WeakValueDictionary[Hashable, asyncio.Lock]:
    return WeakValueDictionary()


@dataclass(slots=True, kw_only=True)
class AppResources:
    """One for each app. `find_extended_card` is for a remote agent.

    Only the observer of conversations and the time of the last change of security are ever set again.
    """

    limits: ServerLimits
    security: CallerAuthenticator | None
    throttle: Throttle
    monitor: StreamMonitor
    bodies: BodyBudget
    observer: Telemetry | None
    conversation_observer: ConversationObserver | None
    """Changed by `App.observing` alone; None while nothing observes, which then costs nothing."""
    signer: SigningKeys | None
    may_sign_for: Callable[[str], bool]
    """Whether a card may be signed that names a URL."""
    card_version: Version | None
    extensions: tuple[AgentExtension, ...]
    """The extensions of the server, which it adds to those of every agent."""
    check_webhook: CheckWebhook | None
    """None turns push notifications off."""
    webhook_auth: WebhookAuthenticator | None
    """How this server authenticates to webhooks; None if it is not this server that calls them."""
    grpc_target: Callable[[str], str | None]
    """The `host:port` of the gRPC server for callers who reach the app at a URL, if there is such a server."""
    find_extended_card: FindExtendedCard | None = None
    owner_data: DataOperations | None = None
    """Export and deletion of a caller's data; a proxy has none, and a host has routes of its own."""
    cards: Cache = field(default_factory=lambda: Cache(CACHED_CARDS))
    signing: SigningThreads = field(default_factory=SigningThreads)
    """Threads in which cards are signed."""
    cards_in_signing: WeakValueDictionary[Hashable, asyncio.Lock] = field(default_factory=_no_locks)
    """A lock for each card that is being signed, so that it is signed once for all who ask for it."""
    pages: Cache = field(default_factory=lambda: Cache(CACHED_PAGES))
    security_changed_at: datetime | None = None

    @property
    def card_revision(self) -> Hashable:
        """What else is in a card and can change while the app runs: the key that signs it, and authentication."""
        return (None if self.signer is None else self.signer.current.key_id, self.security_changed_at)

    @property
    def cards_changed_at(self) -> datetime | None:
        """When that changed last, if it has changed."""
        times = (None if self.signer is None else self.signer.current_since, self.security_changed_at)
        return max((time for time in times if time is not None), default=None)

    def security_was_replaced(self) -> None:
        """Make cards and pages again: they show how callers authenticate, and the server to webhooks."""
        self.security_changed_at = datetime.now(UTC)

    async def authenticate(self, credentials: Callable[[], PresentedCredentials], address: str) -> Identity:
        """Identify the caller.

        Raises:
            UnauthenticatedError, PermissionDeniedError: the credentials are missing, invalid or not sufficient.
            RateLimitedError: this address has sent too many invalid credentials.
            UnavailableError: the credentials cannot be checked now.
        """
        if self.security is None:
            return ANONYMOUS
        self.throttle.check_address(address)
        with self.counting_refusals(address):
            return await self.security.authenticate(credentials())

    @contextmanager
    def counting_refusals(self, address: str) -> Generator[None]:
        """Count credentials that are refused against the address that sent them."""
        try:
            yield
        except UnauthenticatedError as error:
            if was_refused(error):
                self.throttle.count_refusal(address)
            raise

    def refused(self, agent_id: str, binding: Binding, error: A2AError) -> None:
        """Report a request that was refused before it was decoded. The id is empty if no agent was found."""
        if self.observer is not None:
            self.observer.refused(agent_id, binding, error)
        if self.conversation_observer is not None:
            self.conversation_observer.refused(binding, error)
