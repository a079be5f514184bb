"""The connection of `parley admin` to a host: its URL, a token, and the tenant that an operator acts for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from parley.cli.options.groups import OptionGroup
from parley.client.errors import UnreachableError
from parley.protocol.errors import ParleyError
from parley.safe_text import printable_line

if TYPE_CHECKING:
    import httpx2

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_SECONDS = 60.0
MAX_ERROR = 2_000


class HostRefusedError(ParleyError):
    """The host refused the request."""


class NotAHostError(HostRefusedError):
    """The reply is not that of a Parley host; something else answers at this URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConnection:
    """How to call a host."""

    url: str
    token: str
    tenant: str | None = None
    timeout: float = TIMEOUT_SECONDS

    def client(self) -> httpx2.AsyncClient:
        """A client of the host."""
        import httpx2  # which takes a tenth of a second that other commands need not wait

        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.tenant is not None:
            headers["Parley-Tenant"] = self.tenant
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=self.timeout)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The reply of the host.

        Raises:
            UnreachableError: there is none.
            HostRefusedError: it says no, and why.
        """
        import httpx2

        content = None if body is None else msgspec.json.encode(body)
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if content is not None else {})}
        async with self.client() as client:
            try:
                reply = await client.request(method, path, content=content, params=dict(query or {}), headers=sent)
            except httpx2.HTTPError as error:
                raise UnreachableError(f"No host answers at {self.url}: {error or type(error).__name__}") from error
        if not reply.is_success:
            raise HostRefusedError(refusal_text(reply))
        return reply


def value_of(reply: httpx2.Response) -> dict[str, Any]:
    """The JSON object in a reply. Raises NotAHostError."""
    try:
        return msgspec.json.decode(reply.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NotAHostError from None


def refusal_text(reply: httpx2.Response) -> str:
    """Why a host refused something, on one line, and what to do about it."""
    try:
        value = msgspec.json.decode(reply.content)
        text = str(value["error"])
        more = {name: member for name, member in value.items() if name not in ("error", "hint")}
    except (msgspec.DecodeError, KeyError, TypeError):
        text, more = reply.text or reply.reason_phrase, {}
    hint = f" {_token_hint(reply.request)}" if reply.status_code == 401 else ""
    facts = f" Details: {msgspec.json.encode(more).decode()}"[:MAX_ERROR] if more else ""
    return printable_line(f"{text.removesuffix('.')} (HTTP {reply.status_code}).{hint}{facts}")


def _token_hint(request: httpx2.Request) -> str:
    if "Authorization" not in request.headers:
        return "Give a token with --token-file, or in PARLEY_ADMIN_TOKEN."
    if request.url.path.startswith("/v1/admin/"):
        return "This needs the admin token: it is in the file that parley up names as admin."
    if "Parley-Tenant" not in request.headers:
        return "With the admin token, name the tenant as well: --tenant ID, or PARLEY_TENANT."
    return "A tenant can be named with the admin token only, or with a login that has grants in it."


def host_connection(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="URL",
            envvar="PARLEY_HOST_URL",  # PARLEY_HOST is the address that `parley up` listens on
            help="The host.",
            show_envvar=False,
            show_default=f"PARLEY_HOST_URL, or {DEFAULT_URL}",
        ),
    ] = DEFAULT_URL,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="A file with the token.",
            show_default="the token in PARLEY_ADMIN_TOKEN",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            metavar="ID",
            envvar="PARLEY_TENANT",
            help="The tenant, if the token is the admin's.",
            show_envvar=False,
            show_default="PARLEY_TENANT",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.001, help="How long to wait for a reply.", show_default="60"
        ),
    ] = TIMEOUT_SECONDS,
) -> HostConnection:
    """Build the value from the options. Raises BadParameter if there is no token, or the URL is not valid."""
    if not host.startswith(("http://", "https://")):
        raise typer.BadParameter(f"Invalid URL: {host!r}. It must start with http:// or https://.", param_hint="--host")
    token = _token(token_file)
    if not _is_header_value(token):
        raise typer.BadParameter("The token is not one: it holds odd characters.", param_hint="--token-file")
    if not _is_header_value(tenant or ""):
        raise typer.BadParameter(f"Invalid id: {tenant!r}.", param_hint="--tenant")
    return HostConnection(url=host.rstrip("/"), token=token, tenant=tenant, timeout=timeout)


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _token(file: Path | None) -> str:
    if file is None:
        return os.environ.get("PARLEY_ADMIN_TOKEN", "").strip()
    try:
        return file.expanduser().read_text("utf-8", "replace").strip()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--token-file") from error


WithHostConnection = Annotated[HostConnection, OptionGroup(host_connection)]
