"""Reads authentication to webhooks from a TOML file.

`[[oauth2]]` tables hold clients of authorization servers and `[[mtls]]` tables client certificates, each for some
hosts; `sign = "always"` has the server sign calls to webhooks that name no authentication. Every error names the
invalid key, and none repeats a secret.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from parley.client.transports.connections import Tls
from parley.server.security.auth_file import AuthFileError, look_up_secret, parse_toml
from parley.server.security.schemes.authorization_server import check_url
from parley.server.security.schemes.scheme import SettingError
from parley.server.webhooks.auth_settings import (
    HostPattern,
    SigningPolicy,
    WebhookAuthSettings,
    WebhookCertificate,
    WebhookOAuthClient,
)

_HOST = re.compile(r"(\.?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?", re.IGNORECASE)


class _OAuth2(Struct, forbid_unknown_fields=True, kw_only=True):
    hosts: list[str]
    token_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None


class _Mtls(Struct, forbid_unknown_fields=True, kw_only=True):
    hosts: list[str]
    certificate: str
    key: str | None = None
    authorities: str | None = None


class _WebhookAuthFile(Struct, forbid_unknown_fields=True):
    sign: SigningPolicy = "when-asked"
    oauth2: list[_OAuth2] = []
    mtls: list[_Mtls] = []


def load_webhook_auth(path: str | Path, *, environ: Mapping[str, str] | None = None) -> WebhookAuthSettings:
    """Read a TOML file; paths in it are relative to its directory.

    Raises:
        AuthFileError: it cannot be read, or a key is missing, invalid or unknown.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except OSError as exc:
        raise AuthFileError("", f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise AuthFileError("", f"{path} cannot be read: it is not UTF-8") from exc
    try:
        return parse_webhook_auth(text, directory=path.parent, environ=environ)
    except AuthFileError as exc:
        exc.args = (f"{path}: {exc}",)
        raise


def parse_webhook_auth(
    text: str, *, directory: Path | None = None, environ: Mapping[str, str] | None = None
) -> WebhookAuthSettings:
    """Read a TOML document; `environ` is where `env:NAME` is looked up.

    Raises:
        AuthFileError: it is not TOML, or a key is missing, invalid or unknown.
    """
    file = parse_toml(text, _WebhookAuthFile)
    environ = os.environ if environ is None else environ
    return WebhookAuthSettings(
        sign=file.sign,
        oauth2=tuple(_read_client(table, f"oauth2[{number}]", environ) for number, table in enumerate(file.oauth2)),
        mtls=tuple(
            _read_certificate(table, f"mtls[{number}]", directory or Path()) for number, table in enumerate(file.mtls)
        ),
    )


def _read_client(table: _OAuth2, at: str, environ: Mapping[str, str]) -> WebhookOAuthClient:
    try:
        check_url("token_url", table.token_url)
    except SettingError as exc:
        raise AuthFileError(f"{at}.{exc.setting}", exc.problem) from None
    settings = msgspec.structs.asdict(table)
    settings["hosts"] = _read_hosts(table.hosts, f"{at}.hosts")
    settings["client_secret"] = look_up_secret(table.client_secret, f"{at}.client_secret", environ)
    return WebhookOAuthClient(**settings)


def _read_certificate(table: _Mtls, at: str, directory: Path) -> WebhookCertificate:
    hosts = _read_hosts(table.hosts, f"{at}.hosts")
    files = {name: directory / text for name in ("certificate", "key", "authorities") if (text := getattr(table, name))}
    for name, path in files.items():
        try:
            path.read_bytes()
        except OSError as exc:
            raise AuthFileError(f"{at}.{name}", f"{path} cannot be read: {exc.strerror}") from exc
    tls = Tls(**files)
    try:
        tls.context()
    except (ssl.SSLError, OSError, ValueError):
        raise AuthFileError(f"{at}.certificate", "it is not a certificate in PEM with its key") from None
    return WebhookCertificate(hosts=hosts, files=tls)


def _read_hosts(texts: Sequence[str], at: str) -> tuple[HostPattern, ...]:
    if not texts:
        raise AuthFileError(at, "it must name a host")
    patterns: list[HostPattern] = []
    for number, text in enumerate(texts):
        found = _HOST.fullmatch(text)
        if found is None or (found[2] and not 0 < int(found[2]) < 65_536):
            advice = "hooks.example.com, .example.com for all names below it, or hooks.example.com:8443"
            raise AuthFileError(f"{at}[{number}]", f"invalid host {text!r}; write it as {advice}")
        patterns.append(HostPattern(found[1].strip("[]").lower(), int(found[2]) if found[2] else None))
    return tuple(patterns)
