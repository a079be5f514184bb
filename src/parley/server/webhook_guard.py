"""Which webhooks may be called: no URL that a stranger registers makes this server talk to its own network.

A URL is looked at twice. When it is registered, everything that can be told from its text is refused: schemes, odd
spellings, names and addresses of private networks. When it is called, its name is resolved once, every address is
checked, and the connection goes to a checked address itself, so that a name cannot mean something else a moment later;
the name stays in TLS and in the Host header. Whoever runs the server may allow hosts. Spec: 1.0 section 13.2.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

import httpcore2

from parley.protocol.errors import InvalidParamsError, ParleyError
from parley.protocol.push import PushConfig

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text. Raises OSError if there are none."""

MAX_URL = 2_048
"""Longer URLs are refused by many servers."""

RESOLVER_THREADS = 8
"""Names resolved at a time; a name whose servers do not answer takes half a minute."""

# https://www.iana.org/assignments/iana-ipv4-special-registry, and what is not in it but no less special.
_SPECIAL_4 = [
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers; also the metadata of Alibaba, 100.100.100.200
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host, within a public range
        "169.254.0.0/16",  # link-local, and the metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # also the metadata of Oracle, 192.0.0.192
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
# Of IPv6 only the range given out for the Internet is public, which leaves out what is loopback, link-local, unique
# local, multicast, mapped from IPv4 or translated to it (64:ff9b::/96); and these parts of it are not.
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = [
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocols, among them Teredo, which holds an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which holds an IPv4 address
        "3fff::/20",
    )
]

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_FORBIDDEN = re.compile(r"[^\x21-\x7e]|\\")  # spaces, controls, and what is not ASCII; browsers read \ as /
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "arpa")
MAX_SECRET = 8 * 1024
"""What most servers take in one header."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class WebhookForbiddenError(ParleyError):
    """This webhook may not be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPolicy:
    """Which webhooks whoever runs the server allows.

    By default: https, to any host of the public Internet.
    """

    allow_private: bool = False
    """Whether any address may be called, and without TLS: for development on one machine."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that may be called whatever their addresses, and without TLS; `.example.com` allows all below it."""

    def allows(self, host: str) -> bool:
        """Whether a host is exempt from the checks."""
        host = host.lower()
        return self.allow_private or any(
            host.endswith(allowed) if allowed.startswith(".") else host == allowed
            for allowed in (allowed.lower() for allowed in self.allowed_hosts)
        )


PUBLIC_ONLY = WebhookPolicy()
"""The policy of a server whose owner has not said otherwise."""


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public Internet and to nothing special."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _PUBLIC_6 and not any(address in network for network in _SPECIAL_6)


# --- when a webhook is registered -------------------------------------------------------------------------------------


def check_webhook_url(url: str, policy: WebhookPolicy = PUBLIC_ONLY, *, path: str = "$.url") -> None:
    """Make sure that a webhook's URL may be registered.

    Raises:
        InvalidParamsError: it may not; the message says why, `path` where.
    """
    try:
        _check_url(url, policy)
    except WebhookForbiddenError as error:
        raise InvalidParamsError(error.message, path=path) from None


def check_webhook(config: PushConfig, policy: WebhookPolicy = PUBLIC_ONLY, *, path: str = "$") -> None:
    """Make sure that a webhook can be called as its config wants it. Raises InvalidParamsError."""
    check_webhook_url(config.url, policy, path=f"{path}.url")
    if config.token and not _fits_header(config.token):
        raise InvalidParamsError(f"A token is printable ASCII, up to {MAX_SECRET} characters", path=f"{path}.token")
    authorization = authorization_of(config)
    if authorization and not _fits_header(authorization):
        text = f"Credentials are printable ASCII, up to {MAX_SECRET} characters"
        raise InvalidParamsError(text, path=f"{path}.authentication")


def _fits_header(text: str) -> bool:
    return len(text) <= MAX_SECRET and _HEADER_VALUE.fullmatch(text) is not None


def authorization_of(config: PushConfig) -> str | None:
    """The Authorization header that a webhook wants: its first scheme and its credentials."""
    authentication = config.authentication
    if authentication is None or not authentication.schemes or not authentication.credentials:
        return None
    return f"{authentication.schemes[0]} {authentication.credentials}"


def _check_url(url: str, policy: WebhookPolicy) -> None:
    if len(url) > MAX_URL:
        raise WebhookForbiddenError(f"A webhook's URL has {MAX_URL} characters at most")
    if _FORBIDDEN.search(url):
        raise WebhookForbiddenError("A webhook's URL is printable ASCII, other characters encoded")
    parts, host = _split(url)
    is_allowed = policy.allows(host)
    if parts.scheme == "http" and not is_allowed:
        raise WebhookForbiddenError("A webhook's URL begins with https")
    address = _read_address(host)
    if address is None:
        _check_name(host, is_allowed=is_allowed)
    elif not is_allowed and not is_public(address):
        raise WebhookForbiddenError("A webhook has a public address")


def _split(url: str) -> tuple[SplitResult, str]:
    """A URL and its host, of which nothing is left to anybody's interpretation."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise WebhookForbiddenError("A webhook needs a URL") from None
    if parts.scheme not in ("http", "https"):
        raise WebhookForbiddenError("A webhook's URL begins with https")
    if "@" in parts.netloc:
        raise WebhookForbiddenError("A webhook's URL names no user; use its authentication")
    if not host or port == 0 or parts.netloc.endswith(":"):
        raise WebhookForbiddenError("A webhook's URL names a host, and a port only if it has one")
    return parts, host


def _read_address(host: str) -> Address | None:
    """The address that a host is, or None if it is a name; what only some would read as an address is neither."""
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise WebhookForbiddenError("A webhook's address is not valid") from None
        if address.scope_id is not None:
            raise WebhookForbiddenError("A webhook's address has no zone")
        return address
    last = host.removesuffix(".").rpartition(".")[2]
    if not _NUMBER.fullmatch(last):
        return None
    try:
        return ipaddress.IPv4Address(host)  # four decimal numbers without leading zeros, nothing else
    except ValueError:
        raise WebhookForbiddenError("A webhook's address is four decimal numbers") from None


def _check_name(host: str, *, is_allowed: bool) -> None:
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise WebhookForbiddenError("A webhook's host is a name of letters, digits and hyphens")
    if not is_allowed and (len(labels) == 1 or labels[-1] in _LOCAL_NAMES):
        raise WebhookForbiddenError("A webhook has a public host name")


# --- when a webhook is called -----------------------------------------------------------------------------------------


class NameResolver:
    """The addresses of names, as this machine resolves them."""

    def __init__(self) -> None:
        # Threads of its own: names that take long to resolve must not hold up what else is done in threads.
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="parley-webhook-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, as text. Raises OSError if there are none."""
        question = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, question)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """A network that connects to checked addresses only, and to those themselves."""

    def __init__(
        self,
        policy: WebhookPolicy,
        resolve: Resolve,
        *,
        network: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        """`network` makes the connections; without it, the machine's own does."""
        self._policy = policy
        self._resolve = resolve
        self._network = network or cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to a host, which the caller then tells by its name whom it wants to talk to.

        Raises:
            WebhookForbiddenError: one of its addresses is not to be called.
            httpcore2.ConnectError, httpcore2.ConnectTimeout: nobody answers at any of them.
        """
        failure: Exception = httpcore2.ConnectError("The name has no address")
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("The name was not resolved in time") from error
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        is_allowed = self._policy.allows(host)
        address = _read_address(host)
        if address is not None:
            found = [str(address)]
        else:
            _check_name(host.lower(), is_allowed=is_allowed)
            try:
                found = await self._resolve(host, port)
            except OSError as error:
                raise httpcore2.ConnectError("The name has no address") from error
        # All of them: a name with public and private addresses is an attack, or a mistake that looks like one.
        if not is_allowed and not all(is_public(ipaddress.ip_address(address)) for address in found):
            raise WebhookForbiddenError("The host has an address that is not public")
        return found
