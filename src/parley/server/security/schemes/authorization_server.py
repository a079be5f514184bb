"""Asks an authorization server over HTTP: its metadata, its keys, and what it knows of a token.

Whatever goes wrong is UnavailableError: a server that does not answer says nothing about the caller. Answers are JSON
objects of bounded size, redirects are not followed, and plain http is for this machine only, because keys and secrets
travel here.
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

MAX_ANSWER = 512 * 1024
"""Longest answer. Key sets of the largest issuers have some tens of kilobytes."""
TIMEOUT_SECONDS = 5.0
"""For a whole exchange: a request waits for it, so it cannot be long, and an issuer in trouble takes no longer."""

_log = logging.getLogger(__name__)


def check_url(setting: str, url: str) -> str:
    """The URL as it is, if secrets may travel there.

    Raises:
        SettingError: it is not https, nor http on this machine.
    """
    try:
        parsed = parse_url(url)
    except InvalidUrlError as error:
        raise SettingError(setting, error.message) from None
    if parsed.fragment:
        raise SettingError(setting, "it has a fragment")
    if parsed.scheme == "http" and not is_loopback(parsed.host):
        raise SettingError(setting, "it must be https; http is for this machine only")
    return url


class AuthorizationServer:
    """A connection to one authorization server."""

    def __init__(self) -> None:
        self._http: httpx2.AsyncClient | None = None

    async def get(self, url: str) -> JsonObject:
        """The JSON object at a URL.

        Raises:
            UnavailableError: there is none to be had.
        """
        return await self._ask("GET", url, {}, None)

    async def post(self, url: str, form: Mapping[str, str], *, client_id: str, client_secret: str) -> JsonObject:
        """The JSON object that answers a form, with the client's credentials as RFC 6749 section 2.3.1 sends them.

        Raises:
            UnavailableError: there is none to be had.
        """
        client = httpx2.BasicAuth(quote(client_id, safe=""), quote(client_secret, safe=""))
        return await self._ask("POST", url, form, client)

    async def close(self) -> None:
        """Close the connections."""
        if self._http:
            await self._http.aclose()
            self._http = None

    async def _ask(self, method: str, url: str, form: Mapping[str, str], auth: httpx2.Auth | None) -> JsonObject:
        if self._http is None:
            self._http = httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, headers={"accept": "application/json"})
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):  # httpx's own is for each step, and a trickle has many steps
                return await self._exchange(self._http, method, url, form, auth)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, _BadAnswer) as exc:
            # The text of the exception names the URL and the trouble; what was sent is not in it.
            _log.warning("The authorization server at %s cannot be asked: %s", url, str(exc) or type(exc).__name__)
            raise UnavailableError("The credentials cannot be checked now; try again later") from exc

    async def _exchange(
        self, http: httpx2.AsyncClient, method: str, url: str, form: Mapping[str, str], auth: httpx2.Auth | None
    ) -> JsonObject:
        async with http.stream(method, url, data=dict(form) or None, auth=auth) as response:
            if response.status_code != 200:
                raise _BadAnswer(f"it answered with status {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise _BadAnswer(f"its answer is longer than {MAX_ANSWER} bytes")
        try:
            return msgspec.json.decode(body, type=JsonObject)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _BadAnswer("its answer is no JSON object") from None


class _BadAnswer(Exception):
    """The server answered, but not with what was asked for."""
