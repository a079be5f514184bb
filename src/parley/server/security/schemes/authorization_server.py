"""Calls an authorization server over HTTP, for its metadata, its keys and token introspection.

All errors are UnavailableError, because they say nothing about the caller's credentials. Replies are JSON objects of
bounded size, redirects are not followed, and http is allowed on loopback only, because keys and secrets are sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import quote

import httpx2
import msgspec

from parley.network.addresses import is_loopback
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import UnavailableError
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.schemes.scheme import SettingError

MAX_REPLY = 512 * 1024
"""The longest reply. Key sets of the largest issuers have some tens of kilobytes."""
TIMEOUT_SECONDS = 5.0
"""For a whole call. The caller's request waits for it, so it must be short."""

_log = logging.getLogger(__name__)


def check_url(setting: str, url: str) -> str:
    """Check that secrets may be sent to a URL, and return it.

    Raises:
        SettingError: it is neither https nor http on loopback.
    """
    try:
        parsed = parse_url(url)
    except InvalidUrlError as error:
        raise SettingError(setting, error.message) from None
    if parsed.fragment:
        raise SettingError(setting, "the URL must not have a fragment")
    if parsed.scheme == "http" and not is_loopback(parsed.host):
        raise SettingError(setting, "the URL must be https; http is allowed on loopback only")
    return url


class AuthorizationServerClient:
    """The HTTP client for one authorization server."""

    def __init__(self) -> None:
        self._http: httpx2.AsyncClient | None = None

    async def get(self, url: str) -> JsonObject:
        """Get the JSON object at a URL.

        Raises:
            UnavailableError: the server did not return one.
        """
        return await self._call("GET", url, {}, None)

    async def post(self, url: str, form: Mapping[str, str], *, client_id: str, client_secret: str) -> JsonObject:
        """Post a form with the client credentials of RFC 6749 section 2.3.1, and return the JSON object in the reply.

        Raises:
            UnavailableError: the server did not return one.
        """
        client = httpx2.BasicAuth(quote(client_id, safe=""), quote(client_secret, safe=""))
        return await self._call("POST", url, form, client)

    async def close(self) -> None:
        """Close the connections."""
        if self._http:
            await self._http.aclose()
            self._http = None

    async def _call(self, method: str, url: str, form: Mapping[str, str], auth: httpx2.Auth | None) -> JsonObject:
        if self._http is None:
            self._http = httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, headers={"accept": "application/json"})
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):  # that of httpx is for each read, and a reply has many
                return await self._read(self._http, method, url, form, auth)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, _InvalidReply) as exc:
            # The text of the exception contains nothing that was sent, except for the URL.
            _log.warning("The call to the authorization server at %s failed: %s", url, str(exc) or type(exc).__name__)
            raise UnavailableError("The credentials cannot be checked now; try again later") from exc

    async def _read(
        self, http: httpx2.AsyncClient, method: str, url: str, form: Mapping[str, str], auth: httpx2.Auth | None
    ) -> JsonObject:
        async with http.stream(method, url, data=dict(form) or None, auth=auth) as response:
            if response.status_code != 200:
                raise _InvalidReply(f"it answered with status {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_REPLY:
                    raise _InvalidReply(f"its reply is longer than {MAX_REPLY} bytes")
        try:
            return msgspec.json.decode(body, type=JsonObject)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _InvalidReply("its reply is not a JSON object") from None


class _InvalidReply(Exception):
    """The server returned something else than a JSON object."""
