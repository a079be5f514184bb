"""A host on a real port, in the test's own event loop, with two tenants and clients that have their tokens.

    async with running_host(quotas=Quotas(requests_per_minute=3)) as running:
        reply = await running.acme.client.get("/v1/agents")

Settings are those of `HostSettings`. `models` replaces built-in models by their names, `model_settings` are those of
the registry, `store` is a URL or a store, `options` are those of the app. To start again on the same store, give no
`tenants` and use `client(token)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from parley.host.data.tenant import Tenant
from parley.host.host import AppOptions, Host, HostSettings
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.model import Model
from parley.host.models.registry import ModelRegistry, ModelRegistrySettings
from parley.server.run import Bound, Serving, serve
from parley.stores.interface import Store
from parley.wire.sse import Decoder
from tests.deadlines import fail_after
from tests.host.stores import store_of
from tests.services.fixtures import ON_POSTGRES

ADMIN_TOKEN = "adm_secret-of-the-tests"


@dataclass(frozen=True, slots=True)
class HostTenant:
    """A tenant of a running host, with its token and a client that presents it."""

    tenant: Tenant
    token: str
    client: httpx2.AsyncClient

    @property
    def id(self) -> str:
        return self.tenant.id


@dataclass(slots=True)
class RunningHost:
    """A host that is served, and its clients: without a token, with the admin's, and with those of its tenants."""

    host: Host
    url: str
    anonymous: httpx2.AsyncClient
    admin: httpx2.AsyncClient
    admin_token: str
    _stack: AsyncExitStack
    tenants: dict[str, HostTenant] = field(default_factory=dict[str, HostTenant])
    """By their names."""

    @property
    def acme(self) -> HostTenant:
        return self.tenants["acme"]

    @property
    def globex(self) -> HostTenant:
        return self.tenants["globex"]

    async def client(self, token: str | None) -> httpx2.AsyncClient:
        """A client that presents a token."""
        return await self._stack.enter_async_context(_client(self.url, token))

    async def add_tenant(self, name: str, *, with_starters: bool = False) -> HostTenant:
        """One more tenant."""
        tenant, token = await self.host.create_tenant(name, with_starters=with_starters)
        added = self.tenants[name] = HostTenant(tenant, token, await self.client(token))
        return added


@asynccontextmanager
async def running_host(
    *,
    store: str | Store = "memory:",
    models: Mapping[str, Model] | None = None,
    model_settings: ModelRegistrySettings | None = None,
    tenants: Sequence[str] = ("acme", "globex"),
    with_starters: bool = False,
    admin_token: str = ADMIN_TOKEN,
    serving: Serving | None = None,
    options: AppOptions | None = None,
    seconds: float = 20,
    **settings: Any,
) -> AsyncGenerator[RunningHost]:
    """A host that listens on a free port until the block ends; after `seconds`, the test fails."""
    if model_settings is not None:
        settings["models"] = model_settings
    chosen: AppOptions = {"drain_seconds": 0.1, **(options or {})}  # runs that wait for ever hold nothing up
    kept = store_of(store) if isinstance(store, str) else store
    host = Host(HostSettings(admin_token=admin_token, **settings), store=kept, **chosen)
    if models is not None:
        host.models = ModelRegistry(host.settings.models, builtin={**BUILTIN_MODELS, **models})
    ready: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    with fail_after(seconds * (3 if ON_POSTGRES else 1)):
        server = asyncio.create_task(serve(host.app, serving or Serving(port=0), on_ready=ready.set_result, stop=stop))
        try:
            await asyncio.wait({ready, server}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                await server  # raises why it could not start
            async with AsyncExitStack() as stack:
                url = ready.result().url
                running = RunningHost(
                    host=host,
                    url=url,
                    anonymous=await stack.enter_async_context(_client(url, None)),
                    admin=await stack.enter_async_context(_client(url, admin_token)),
                    admin_token=admin_token,
                    _stack=stack,
                )
                for name in tenants:
                    await running.add_tenant(name, with_starters=with_starters)
                yield running
        finally:
            stop.set()
            await server


def _client(url: str, token: str | None) -> httpx2.AsyncClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # There is no TLS here, and reading the certificates of a client takes a tenth of a second.
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=20, verify=False)


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """One event of a native stream; `id` is the last one that the stream has given, with this event or before it."""

    name: str
    payload: dict[str, Any]
    id: str


async def read_events(
    client: httpx2.AsyncClient,
    method: str,
    path: str,
    *,
    until: str | None = None,
    on_begin: Callable[[], object] = lambda: None,
    **request: Any,
) -> list[ReadEvent]:
    """The events of a native stream, to its end or to the first of a name. The reply must be a stream.

    `on_begin` is called when it has begun.
    """
    found: list[ReadEvent] = []
    async with client.stream(method, path, **request) as reply:
        if reply.status_code != 200:
            raise AssertionError(f"{reply.status_code}: {(await reply.aread()).decode()}")
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        on_begin()
        decoder = Decoder()
        async for chunk in reply.aiter_bytes():
            for frame in decoder.feed(chunk):
                found.append(ReadEvent(frame.event, msgspec.json.decode(frame.data), frame.id))
                if frame.event == until:
                    return found
    return found
