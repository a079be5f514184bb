"""Whether a host is an address or a name, and whether it is public, judged by its text alone.

Text that only some parsers read as an address is rejected. Nothing is resolved here. Errors hold a reason such as
"address has a zone"; callers say whose address it is.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# https://www.iana.org/assignments/iana-ipv4-special-registry, and others that are not public either.
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
# In IPv6 only the range assigned for the Internet is public: not loopback, link-local, unique local, multicast and
# addresses mapped from IPv4; and not these parts of that range.
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = [
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocols, among them Teredo, which embeds an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which embeds an IPv4 address
        "3fff::/20",
    )
]

# NAT64: how IPv6-only machines see IPv4 addresses; RFC 6052. Only name servers return such addresses.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_ANY_ADDRESS = ipaddress.IPv4Address("0.0.0.0")

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private", "arpa")


class AmbiguousHostError(ValueError):
    """Parsers disagree about whether the host is an address or a name. The text is the reason."""


def is_public(address: Address) -> bool:
    """Whether an address written in a URL belongs to the public Internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _PUBLIC_6 and not any(address in network for network in _SPECIAL_6)


def is_public_resolved(address: Address) -> bool:
    """Whether an address that a name resolves to is public. A NAT64 address is if the address inside it is."""
    if address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return is_public(address)


def read_address(host: str) -> Address | None:
    """The host as an address, or None if it is a name.

    Raises:
        AmbiguousHostError: only some parsers read it as an address.
    """
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise AmbiguousHostError("address is invalid") from None
        if address.scope_id is not None:
            raise AmbiguousHostError("address must not have a zone")
        return address
    last = host.removesuffix(".").rpartition(".")[2]
    if not _NUMBER.fullmatch(last):
        return None
    try:
        return ipaddress.IPv4Address(host)  # only four decimal numbers without leading zeros
    except ValueError:
        raise AmbiguousHostError("address must be four decimal numbers") from None


def address_or_none(host: str) -> Address | None:
    """The host as an address, or None if it is a name or ambiguous."""
    try:
        return read_address(host)
    except AmbiguousHostError:
        return None


def check_host(host: str) -> None:
    """Check that a host in lower case is an address or a valid name. Raises AmbiguousHostError."""
    is_name = read_address(host) is None
    if is_name and (len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split("."))):
        raise AmbiguousHostError("host name must consist of letters, digits and hyphens")


def is_public_host(host: str) -> bool:
    """Whether a host is a public address, or a name that may be public."""
    address = address_or_none(host)
    return not is_local_name(host.lower()) if address is None else is_public(address)


def is_local_name(host: str) -> bool:
    """Whether a name in lower case has a meaning only inside one network."""
    labels = host.split(".")
    return len(labels) == 1 or labels[-1] in _LOCAL_NAMES


def is_loopback(host: str) -> bool:
    """Whether a host is this machine. Servers that listen on all addresses call themselves 0.0.0.0."""
    address = address_or_none(host)
    return host.lower() == "localhost" if address is None else address.is_loopback or address == _ANY_ADDRESS


def is_listed(host: str, hosts: tuple[str, ...]) -> bool:
    """Whether a host is in a list, where `.example.com` means all its subdomains."""
    host = host.lower()
    return any(
        host.endswith(listed) if listed.startswith(".") else host == listed
        for listed in (listed.lower() for listed in hosts)
    )
