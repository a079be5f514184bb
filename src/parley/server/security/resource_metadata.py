"""Protected resource metadata: which authorization servers issue the tokens that a server accepts.

A 401 points to the document, so that a client without any other knowledge finds out where to get a token. The URL of
the document has the well-known path between the host and the path of the resource: that of `https://a.example/agents/x`
is `https://a.example/.well-known/oauth-protected-resource/agents/x`. Spec: RFC 9728 sections 2, 3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"


class ResourceMetadata(Struct, frozen=True, omit_defaults=False):
    """Protected resource metadata (RFC 9728)."""

    resource: str
    authorization_servers: Sequence[str]
    bearer_methods_supported: Sequence[str] = ("header",)
    scopes_supported: Sequence[str] = ()


@runtime_checkable
class IssuedTokens(Protocol):
    """What accepts tokens of issuers: a scheme, or the schemes of a server together."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """The URLs of the issuers, as their metadata names them."""
        ...


def issuers_of(source: object) -> tuple[str, ...]:
    """The issuers whose tokens a scheme or an authenticator accepts; none if it does not say."""
    return source.issuers if isinstance(source, IssuedTokens) else ()


def metadata_url(app_url: str, resource: str) -> str:
    """The URL of the metadata of a resource of an app, which the app serves itself, also below the path of a mount."""
    base = app_url.rstrip("/")
    return base + RESOURCE_METADATA_PATH + resource.removeprefix(base).rstrip("/")


def pointed_to(challenge: str, url: str) -> str:
    """A challenge with a pointer to the metadata, if it is one of Bearer tokens (RFC 9728 section 5.1)."""
    if challenge.partition(" ")[0].lower() != "bearer":
        return challenge
    quoted = url.replace("\\", "%5C").replace('"', "%22")
    return f'{challenge}{"," if " " in challenge else ""} resource_metadata="{quoted}"'
