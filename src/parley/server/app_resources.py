"""What all agents of an app share: its settings, its budgets, and the objects that observe it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, cast

from parley.engine.caller import Caller
from parley.protocol.cards import AgentCard, AgentExtension, Binding
from parley.protocol.errors import A2AError, UnauthenticatedError
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.streams import StreamMonitor
from parley.server.contracts import CallerAuthenticator, ConversationObserver
from parley.server.limits import ServerLimits
from parley.server.pages.signer import Signer
from parley.server.security.authentication import was_refused
from parley.server.security.credentials import ANONYMOUS, Identity, PresentedCredentials
from parley.server.security.throttle import Throttle
from parley.server.telemetry.telemetry import Telemetry

V = TypeVar("V")

CheckWebhook: TypeAlias = Callable[[PushConfig, str], None]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AppResources:
    """One for each app. `find_extended_card` is for a remote agent."""

    limits: ServerLimits
    security: CallerAuthenticator | None
    throttle: Throttle
    monitor: StreamMonitor
    bodies: BodyBudget
    observer: Telemetry | None
    conversation_observer: ConversationObserver | None
    signer: Signer | None
    card_version: Version | None
    extensions: tuple[AgentExtension, ...]
    """The extensions of the server, which it adds to those of every agent."""
    check_webhook: CheckWebhook | None
    """None turns push notifications off."""
    grpc_target: Callable[[str], str | None]
    """The `host:port` of the gRPC server for callers who reach the app at a URL, if there is such a server."""
    find_extended_card: FindExtendedCard | None = None
    cards: Cache = field(default_factory=lambda: Cache(CACHED_CARDS))
    pages: Cache = field(default_factory=lambda: Cache(CACHED_PAGES))

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
