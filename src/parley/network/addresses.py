"""What can be told from a host's text: whether it is an address or a name, and whether either is public.

Nothing is left to anybody's interpretation: what only some would read as an address is refused. Nothing is resolved
here. Errors give a reason that reads after «its …»; the guards put their own words around it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

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
# local, multicast or mapped from IPv4; and these parts of it are not.
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

# How machines that have only IPv6 see all others; RFC 6052. Name servers make such addresses; people do not write them.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "arpa")


class OddHostError(ValueError):
    """The host is neither an address nor a name that everybody reads in the same way. The text is the reason."""


def is_public(address: Address) -> bool:
    """Whether an address that is written in a URL belongs to the public Internet and to nothing special."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _PUBLIC_6 and not any(address in network for network in _SPECIAL_6)


def is_public_answer(address: Address) -> bool:
    """Whether an address that a name resolves to is public: one through NAT64 is if the address within it is."""
    if address in _TRANSLATED:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return is_public(address)


def read_address(host: str) -> Address | None:
    """The address that a host is, or None if it is a name.

    Raises:
        OddHostError: only some would read it as an address.
    """
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise OddHostError("address is not valid") from None
        if address.scope_id is not None:
            raise OddHostError("address has no zone")
        return address
    last = host.removesuffix(".").rpartition(".")[2]
    if not _NUMBER.fullmatch(last):
        return None
    try:
        return ipaddress.IPv4Address(host)  # four decimal numbers without leading zeros, nothing else
    except ValueError:
        raise OddHostError("address is four decimal numbers") from None


def check_name(host: str) -> None:
    """Make sure that a host is a name, in lower case. Raises OddHostError."""
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise OddHostError("host is a name of letters, digits and hyphens")


def is_local_name(host: str) -> bool:
    """Whether a name, in lower case, can only mean something within one network."""
    labels = host.split(".")
    return len(labels) == 1 or labels[-1] in _LOCAL_NAMES


def is_listed(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether a host is in a list, where `.example.com` stands for all below it."""
    host = host.lower()
    return any(
        host.endswith(listed) if listed.startswith(".") else host == listed
        for listed in (listed.lower() for listed in hosts)
    )
