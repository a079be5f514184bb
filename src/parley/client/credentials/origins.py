"""Origins: the scheme, host and port that a secret is bound to.

URLs are parsed as the guard parses them, so that a secret cannot be bound to one host and sent to another. gRPC has no
URLs of its own: `grpc://` counts as http and `grpcs://` as https, and a bare `host:port` is encrypted on port 443 only.
"""

from __future__ import annotations

from parley.client.errors import CredentialsError, ForbiddenTargetError
from parley.client.guard import read_target
from parley.network.addresses import is_loopback
from parley.network.urls import host_and_port


def origin_of(url: str) -> str:
    """The origin of a URL or gRPC target, always with its port: `https://Agents.example/x` → `https://agents.example:443`.

    Raises:
        CredentialsError: the URL has no origin.
    """
    try:
        target = read_target(url)
    except ForbiddenTargetError as error:
        raise CredentialsError("Secrets can be bound to URLs of http, https or gRPC only") from error
    return f"{'https' if target.is_encrypted else 'http'}://{host_and_port(target.host, target.port)}"


def may_carry_secrets(url: str) -> bool:
    """Whether a URL is https, or http on this machine, without a fragment."""
    try:
        target = read_target(url)
    except ForbiddenTargetError:
        return False
    is_safe = target.scheme == "https" or (target.scheme == "http" and is_loopback(target.host))
    return is_safe and not target.fragment
