"""The caller's own credentials for this server, taken from its request, for what the console asks the server itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from parley.client.transports.transport import CallOptions
from parley.console.api.route import ConsoleCall

TENANT_HEADER = "parley-tenant"
"""The tenant that an operator of a host acts for."""


@dataclass(frozen=True, slots=True)
class OwnCredentials:
    """Headers and query parameters that authenticate the caller at this server."""

    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    query: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    async def apply(self, options: CallOptions) -> CallOptions:
        """A request with these credentials."""
        headers = {**options.headers, **self.headers}
        return replace(options, headers=headers, query={**options.query, **self.query})


def own_credentials(call: ConsoleCall) -> OwnCredentials:
    """The credentials of a call's caller, which were put into the request if they are a session's."""
    presented = call.request.credentials()
    headers, query = presented.to_repeat(call.backend.schemes.values(), names=("authorization", TENANT_HEADER))
    return OwnCredentials(headers, query)
