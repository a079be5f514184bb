"""Facts about a running host, for `parley doctor` and for operators: its version, process, store and models."""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import Struct

from parley import __version__
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth
from parley.host.models.model import ModelError
from parley.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from parley.host.host import Host

LOOP_SECONDS = 0.05
"""How long the event loop is watched."""

EXTRAS = {"grpc": "grpc", "models": "pydantic_ai", "mcp": "mcp"}
"""The extras of Parley, each with a package that it brings."""


class StoreFacts(Struct, frozen=True):
    """The store of a host. Sizes are those of a file, and None for stores without one."""

    kind: str
    is_shared: bool
    bytes: int | None = None
    free_bytes: int | None = None


class ModelFacts(Struct, frozen=True):
    """The default model, and why it cannot be used; empty if it can."""

    name: str
    problem: str


class HostFacts(Struct, frozen=True, kw_only=True):
    """What is known of a running host. Times are seconds since 1970."""

    version: str
    python: str
    now: float
    extras: Sequence[str]
    """The extras that are installed."""
    store: StoreFacts
    default_model: ModelFacts
    memory_bytes: int | None
    """The most memory that the process has used; None where the system does not tell it."""
    loop_delay_seconds: float
    """How late the event loop is now: more than a few hundredths mean that the process has too much to do."""
    tenants: int
    runs: int
    public_url: str | None
    has_open_admin: bool


async def show_facts(call: ApiCall[None]) -> Answer:
    """The facts."""
    host, loop = call.host, asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(LOOP_SECONDS)
    delay = max(0.0, loop.time() - began - LOOP_SECONDS)
    return Answer(
        HostFacts(
            version=__version__,
            python=platform.python_version(),
            now=host.clock.now().timestamp(),
            extras=[extra for extra, package in EXTRAS.items() if find_spec(package) is not None],
            store=_store_facts(host),
            default_model=_model_facts(host),
            memory_bytes=_peak_memory(),
            loop_delay_seconds=round(delay, 4),
            tenants=len(host.tenants.list()),
            runs=sum(1 for _ in host.engine.runs.all),
            public_url=host.settings.public_url,
            has_open_admin=bool(host.settings.admin_token),
        )
    )


def _peak_memory() -> int | None:
    if sys.platform == "win32":
        return None
    import resource  # there is no such module on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _store_facts(host: Host) -> StoreFacts:
    store = host.store
    if not isinstance(store, SqliteStore):
        return StoreFacts(type(store).__name__.removesuffix("Store").lower(), store.is_shared)
    files = [store.path, store.path.with_name(f"{store.path.name}-wal")]
    size = sum(file.stat().st_size for file in files if file.exists())
    return StoreFacts("sqlite", store.is_shared, size, shutil.disk_usage(store.path.parent).free)


def _model_facts(host: Host) -> ModelFacts:
    name = host.models.default_model()
    try:
        host.models.model(name)
    except ModelError as error:
        return ModelFacts(name, error.message)
    return ModelFacts(name, "")


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/admin/facts",
        handler=show_facts,
        auth=Auth.ADMIN,
        summary="Read facts about the running host",
        replies=[ApiReply(HostFacts)],
    ),
)
