"""Which URLs a card may send this client to: no card can make it call its own network.

The host that the caller names is trusted, wherever it is. Cards are not trusted: a card may name that host again, or a
public host over TLS, and nothing else. A URL is checked twice: its text when an interface is chosen, and its addresses
when it is dialled (see `parley.network.pinned`). Spec: 1.0 sections 7 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parley.client.errors import ForbiddenTargetError
from parley.network.addresses import Address, is_listed, is_loopback, is_public_host, is_public_resolved
from parley.network.urls import AGENT, InvalidUrlError, Url, parse_url


def read_target(url: str) -> Url:
    """The URL of an agent, or a gRPC target. Raises ForbiddenTargetError if it is invalid."""
    try:
        return parse_url(url, AGENT)
    except InvalidUrlError as error:
        raise ForbiddenTargetError(error.message) from None


@dataclass(frozen=True, slots=True)
class Guard:
    """What a card may point to. By default: the host that the caller named, and public hosts over TLS."""

    allow_private: bool = False
    """Whether any address may be called, and without TLS."""
    allow_other_origins: bool = True
    """Whether a card may name another host than the one it comes from."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that may be called whatever their addresses, and without TLS; `.example.com` allows all below it."""
    use_proxy: bool = True
    """Whether hosts are called through the HTTP proxy that the environment names (HTTPS_PROXY, NO_PROXY)."""
    trust_named: bool = True
    """Whether the host that the caller named may have any address. Turn it off if the URL comes from others."""

    def allows(self, host: str) -> bool:
        """Whether a host is exempt from the checks."""
        return self.allow_private or is_listed(host, self.allowed_hosts)

    def check_named(self, url: str) -> None:
        """Check a URL that the caller named. Raises ForbiddenTargetError."""
        target = read_target(url)
        if not self.trust_named and not self.allows(target.host):
            _check_encrypted(target, "The URL leads")
            _check_public(target, "The URL leads")

    def check_interface(self, url: str, *, card_url: str | None, named_by: str = "The card") -> None:
        """Check a URL that a card names. `card_url` is the URL that the caller named, or None if it gave a card.

        `named_by` is what names it instead, for the message of the error.

        Raises:
            ForbiddenTargetError: the card must not name it; the message says why.
        """
        target = read_target(url)
        named = read_target(card_url) if card_url is not None else None
        if is_listed(target.host, self.allowed_hosts):
            return
        is_named = named is not None and is_same_host(named.host, target.host)
        if not is_named and not self.allow_other_origins:
            raise ForbiddenTargetError(f"{named_by} points to another host, {target.origin}{HINT}")
        is_trusted = is_named and self.trust_named
        if self.allow_private or (is_trusted and named is not None and not named.is_encrypted):
            return
        _check_encrypted(
            target, f"{named_by} points"
        )  # also if the caller named it with TLS: a card cannot turn that off
        if not is_trusted:
            _check_public(target, f"{named_by} points")

    def encrypts(self, url: str, *, card_url: str | None) -> bool:
        """Whether a checked URL is called over TLS. If it does not say, TLS is used as it was for the card."""
        target = read_target(url)
        if target.scheme or target.is_encrypted:
            return target.is_encrypted
        if card_url is not None and is_same_host((named := read_target(card_url)).host, target.host):
            return named.is_encrypted
        return not self.allows(target.host)


HINT = "; if that is right, allow it: Guard(allowed_hosts=…)"
"""What to do about a forbidden target, for programs."""


def _check_encrypted(target: Url, leads: str) -> None:
    if target.scheme in ("http", "grpc"):
        raise ForbiddenTargetError(f"{leads} to {target.origin}, which is not encrypted{HINT}")


def _check_public(target: Url, leads: str) -> None:
    if not is_public_host(target.host):
        raise ForbiddenTargetError(f"{leads} to {target.origin}, which is not public{HINT}")


class DialRules:
    """The guard's rules for addresses, with the hosts that the caller named; see `parley.network.pinned`.

    A named host may be private, but a public one must not become private: that is a DNS rebinding attack.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._trusted: set[str] = set()
        self._public: set[str] = set()

    def trust(self, host: str) -> None:
        """Allow a host to have any address."""
        self._trusted.add(host.lower())

    def is_exempt(self, host: str) -> bool:
        """Whether a host may have any address."""
        if self._guard.allows(host):
            return True
        return host.lower() not in self._public and any(is_same_host(trusted, host) for trusted in self._trusted)

    def check_host(self, host: str) -> None:
        """Raises ForbiddenTargetError unless a host is public, as far as its text shows, or exempt."""
        if not is_public_host(host) and not self.is_exempt(host):
            raise ForbiddenTargetError(f"{host} is not a public host")

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """Raises ForbiddenTargetError unless all addresses are public, or the host is exempt."""
        # All of them: a name with public and private addresses looks like an attack.
        if all(map(is_public_resolved, addresses)):
            if addresses and host.lower() in self._trusted:
                self._public.add(host.lower())
        elif not self.is_exempt(host):
            raise ForbiddenTargetError(f"{host} has an address that is not public")


def is_same_host(one: str, other: str) -> bool:
    """Whether two hosts are the same: by name, or because both are this machine."""
    return one.lower() == other.lower() or (is_loopback(one) and is_loopback(other))
