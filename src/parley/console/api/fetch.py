"""The route that fetches a file which an agent has named by URL, through the client's guard, as a download."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from urllib.parse import unquote

from msgspec import Struct

from parley.client.errors import FileError, FileForbiddenError, FileTooLargeError
from parley.client.file_fetcher import FileFetcher
from parley.client.guard import Guard, read_target
from parley.console.agents.connections import RemoteConnections
from parley.console.api.agents import find_entry
from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleCall, ConsoleRoute
from parley.console.tasks.files import attachment_header
from parley.protocol.errors import ParleyError
from parley.server.bindings.failures import Header

MOST_BYTES = 64 * 1024 * 1024
MOST_SECONDS = 120.0
MOST_FETCHES = 16
"""At the same time, of all callers."""
MOST_OF_CALLER = 4
MOST_URL = 8_000

SAFE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"application/octet-stream"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Whatever the file is, the browser saves it and never shows it as a page of the console."""


class FetchQuery(Struct, frozen=True):
    """Which file, and of which agent."""

    agent: str
    url: str


class Fetches:
    """How many files are being fetched, by caller."""

    def __init__(self, _: object) -> None:
        self.active: Counter[str] = Counter()


async def fetch_file(call: ConsoleCall) -> None:
    """Send a file to the browser as it comes. A file that ends early breaks the connection, so that it is noticed."""
    call.backend.require(call.caller, "read")
    query = call.query(FetchQuery)
    if len(query.url) > MOST_URL:
        raise ConsoleError("bad_request", f"A URL may have up to {MOST_URL} characters", path="url")
    guard = await _guard(call, query.agent)
    active, caller = call.console.shared(Fetches).active, call.caller.identity.name or call.session.id
    if active.total() >= MOST_FETCHES or active[caller] >= MOST_OF_CALLER:
        raise ConsoleError("rate_limited", "Too many files are being fetched", headers=((b"retry-after", b"5"),))
    active[caller] += 1
    try:
        await _send(call, query.url, guard)
    finally:
        active[caller] -= 1
        if not active[caller]:
            del active[caller]


async def _guard(call: ConsoleCall, agent_id: str) -> Guard:
    connections = call.console.shared(RemoteConnections)
    own = call.backend.find_agent(call.caller, agent_id)
    if own is not None:
        return connections.policy.file_guard(connections.policy.guard(), call.request.base_url)
    entry = await find_entry(call, agent_id)
    return connections.policy.file_guard(connections.guard(entry), entry.url)


async def _send(call: ConsoleCall, url: str, guard: Guard) -> None:
    chunks = FileFetcher(guard).fetch(url, max_bytes=MOST_BYTES, seconds=MOST_SECONDS)
    async with aclosing(chunks):
        has_begun = False
        try:
            async for chunk in chunks:
                if not has_begun:
                    has_begun = True
                    await call.request.start_reply(200, [(b"content-disposition", disposition(url)), *SAFE_HEADERS])
                await call.request.send_chunk(chunk)
            if not has_begun:
                await call.request.start_reply(200, [(b"content-disposition", disposition(url)), *SAFE_HEADERS])
            await call.request.send_chunk(b"", is_last=True)
        except ParleyError as error:
            if not has_begun:
                raise _translated(error) from error


def _translated(error: ParleyError) -> ConsoleError:
    message = error.message.partition("; `parley serve")[0]  # the advice is for handlers of agents
    match error:
        case FileForbiddenError():
            return ConsoleError("forbidden", message, path="url")
        case FileTooLargeError():
            return ConsoleError("too_large", message, path="url")
        case FileError():
            return ConsoleError("agent_error", message, path="url")
        case _:
            return ConsoleError("bad_request", message, path="url")


def disposition(url: str) -> bytes:
    """The header that makes the browser save the file, with the last part of its URL as the name."""
    return attachment_header(unquote(read_target(url).path.rpartition("/")[2]))


ROUTES = (ConsoleRoute("GET", "/fetch", fetch_file, streams=True),)
