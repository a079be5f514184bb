"""Pages below an agent's URL that are not A2A, such as `/parley/data`, with the credentials of the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlencode

from parley.client.calls import Calls
from parley.client.transports.http import HttpChannel, http_error
from parley.client.transports.transport import CallOptions
from parley.protocol.cards import AgentInterface, Binding
from parley.protocol.errors import LocalProtocolError, PermissionDeniedError, UnauthenticatedError


class ServerPages:
    """Requests to the pages of one agent's server."""

    def __init__(self, calls: Calls, channel: HttpChannel) -> None:
        self._calls = calls
        self._channel = channel

    async def read(self, verb: str, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Make a request, and read the body of its reply piece by piece.

        Raises:
            A2AError: the server refuses.
            UnreachableError, TimedOutError: there is no answer, or it stops.
            LocalProtocolError: the agent is not served over HTTP.
        """
        interface = self._interface()
        url = f"{interface.url.rstrip('/')}{path}?{urlencode(query)}"
        try:
            async for chunk in self._read(verb, url, interface):
                yield chunk
        except (UnauthenticatedError, PermissionDeniedError) as error:  # before the first chunk
            authenticator = self._calls.authenticator
            if authenticator is None or not await authenticator.renew(error):
                raise
            async for chunk in self._read(verb, url, interface):
                yield chunk

    async def _read(self, verb: str, url: str, interface: AgentInterface) -> AsyncGenerator[bytes]:
        timeouts = self._calls.timeouts
        options = CallOptions({"a2a-version": "1.0"}, {}, timeouts.reply, timeouts.quiet)
        if self._calls.authenticator is not None:
            options = await self._calls.authenticator.apply(options, interface)
        async with self._channel.opened(verb, url, b"", options, within=timeouts.reply) as response:
            if response.status >= 300:
                raise http_error(await self._channel.reply_of(response, within=timeouts.reply))
            loop = asyncio.get_running_loop()
            while chunk := await response.read(loop.time() + timeouts.quiet):
                yield chunk

    def _interface(self) -> AgentInterface:
        """The interface whose URL is the agent's: that of JSON-RPC, or else that of HTTP+JSON."""
        of_http = [interface for interface, _ in self._calls.interfaces if interface.binding != Binding.GRPC]
        jsonrpc = [interface for interface in of_http if interface.binding == Binding.JSONRPC]
        if not of_http:
            raise LocalProtocolError("This needs an agent that is served over HTTP; its card has no such interface")
        return (jsonrpc or of_http)[0]
