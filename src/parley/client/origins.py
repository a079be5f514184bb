"""Origins: the scheme, host and port that a secret is bound to.

gRPC has no URLs of its own; `grpc://` counts as http and `grpcs://` as https, and a bare `host:port` is encrypted only
on port 443, as `connecting` has it.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from parley.client.errors import CredentialsError

PORTS = {"http": 80, "https": 443}
_SCHEMES = {"http": "http", "https": "https", "grpc": "http", "grpcs": "https"}


def origin_of(url: str) -> str:
    """The origin of a URL or gRPC target, always with its port: `https://Agents.example/x` → `https://agents.example:443`.

    Raises:
        CredentialsError: it has none.
    """
    is_bare = "://" not in url
    try:
        parts = urlsplit(f"grpc://{url}" if is_bare else url)
        scheme, host, port = _SCHEMES.get(parts.scheme), parts.hostname, parts.port
    except ValueError:
        scheme, host, port = None, None, None
    if scheme is None or not host:
        raise CredentialsError("Secrets cannot be bound to what is no URL of http, https or gRPC")
    if is_bare and port == 443:
        scheme = "https"
    host = host.rstrip(".")
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or PORTS[scheme]}"


def may_carry_secrets(url: str) -> bool:
    """Whether a URL is encrypted or does not leave this machine, and hides no user name or fragment."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host))


def is_this_machine(host: str) -> bool:
    """Whether a host is the loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
