"""The options for calling an agent, declared once for all commands, and the client that they build."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.ai_catalog.names import is_catalog_name, named_in_catalog, split_catalog_name
from parley.cli.options.groups import OptionGroup
from parley.client.errors import CredentialsError
from parley.network.urls import InvalidUrlError, parse_url, with_scheme
from parley.protocol.cards import Binding
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from parley.client.client import Client
    from parley.client.credentials.credentials import Credentials, Secret
    from parley.client.credentials.token_store import FileLogins
    from parley.client.guard import Guard
    from parley.client.options import Retries, Timeouts
    from parley.client.transports.connections import Tls

INSTALL_GRPC = "pip install 'parley-a2a[grpc]'"

# --- options ----------------------------------------------------------------------------------------------------------


def _variable_option(name: str, **settings: Any) -> Any:
    """An option that is also a variable: PARLEY_ALLOW_PRIVATE for `--allow-private`."""
    variable = f"PARLEY_{name.removeprefix('--').replace('-', '_').upper()}"
    return typer.Option(name, envvar=variable, show_envvar=False, **settings)


def non_empty_id(text: str | None) -> str | None:
    """The id, unless it is empty, as when a variable of the shell is not set.

    Raises:
        BadParameter: it is empty.
    """
    if text is not None and not text.strip():
        raise typer.BadParameter("An id cannot be empty.")
    return text


Url = Annotated[str, typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.")]
UrlOrName = Annotated[
    str,
    typer.Argument(metavar="URL", help="The agent's URL, the URL of its card, or with --catalog the agent's name."),
]
CatalogChoice = Annotated[
    str | None,
    _variable_option("--catalog", metavar="URL", help="The AI Catalog that has the agent's name: of a server, or any."),
]
TaskId = Annotated[str, typer.Argument(metavar="TASK", callback=non_empty_id, help="The task's id.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", envvar="PARLEY_TOKEN", help="A bearer token or an API key, as the card requires."
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="A header to send; repeatable."),
]
TrustedOrigins = Annotated[
    list[str] | None,
    _variable_option("--trust", metavar="ORIGIN", help="Also send the credentials to this origin; repeatable."),
]
Authorities = Annotated[
    Path | None,
    _variable_option(
        "--ca", metavar="FILE", help="Trust these certificate authorities, in PEM.", show_default="the system's"
    ),
]
Certificate = Annotated[
    Path | None, _variable_option("--cert", metavar="FILE", help="Your certificate, in PEM, for mutual TLS.")
]
CertificateKey = Annotated[
    Path | None, _variable_option("--key", metavar="FILE", help="The certificate's key, in PEM.")
]
BindingChoice = Annotated[
    Binding | None,
    _variable_option(
        "--binding",
        metavar="|".join(map(str.lower, Binding)),
        case_sensitive=False,
        help="Use this binding only.",
        show_default="the card's first",
    ),
]
DialectChoice = Annotated[
    Version | None,
    _variable_option(
        "--dialect",
        metavar="|".join(Version),
        help="Use this version of A2A only.",
        show_default="the newest that both support",
    ),
]
AllowPrivate = Annotated[
    bool, _variable_option("--allow-private", help="Let the card point to private addresses and plain http.")
]
TimeoutSeconds = Annotated[
    float | None,
    _variable_option(
        "--timeout", metavar="SECONDS", min=0.001, help="How long to wait for a reply.", show_default="600"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object per line, named as in A2A 1.0.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Which agent to call, and how."""

    url: str
    """The agent's, or `catalog+URL#NAME` for a name in a catalogue."""
    token: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    trusted: Sequence[str] = ()
    """Further origins that get the credentials, besides that of the URL."""
    tls: Tls | None = None
    binding: Binding | None = None
    dialect: Version | None = None
    allow_private: bool = False
    timeout: float | None = None

    @property
    def named_url(self) -> str:
        """The URL that the caller named: the agent's, or that of the catalogue with its name."""
        named = split_catalog_name(self.url)
        return self.url if named is None else named[0]

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The allowed bindings, the preferred first; empty for all, in the card's order."""
        if self.binding is not None:
            return (self.binding,)
        return () if _has_grpc() else (Binding.JSONRPC, Binding.HTTP_JSON)

    @property
    def versions(self) -> tuple[Version, ...]:
        """The allowed versions; empty for all."""
        return (self.dialect,) if self.dialect else ()

    def client(self, credentials: Credentials | None = None) -> Client:
        """A client of the agent, to be opened; it has the credentials of these options unless others are given."""
        from parley.client.client import Client

        return Client(
            self.url,
            credentials=credentials or self.credentials(),
            bindings=self.bindings,
            versions=self.versions,
            timeouts=self.timeouts(),
            retries=self.retries(),
            guard=self.guard(),
            tls=self.tls,
        )

    def guard(self) -> Guard:
        """Which addresses the card may point to."""
        from parley.client.guard import Guard

        return Guard(allow_private=self.allow_private)

    def timeouts(self) -> Timeouts:
        """How long to wait."""
        from parley.client.options import Timeouts

        return Timeouts() if self.timeout is None else Timeouts(reply=self.timeout, card=min(self.timeout, 15.0))

    def retries(self) -> Retries:
        """How long to reconnect after a connection is lost: at most as long as to wait for a reply."""
        from parley.client.options import Retries

        usual = Retries()
        return usual if self.timeout is None else replace(usual, outage=min(self.timeout, usual.outage))

    @property
    def has_credentials(self) -> bool:
        """Whether any were given on the command line."""
        has_certificate = self.tls is not None and self.tls.certificate is not None
        return self.token is not None or bool(self.headers) or has_certificate

    @property
    def has_login(self) -> bool:
        """Whether there is a stored login for the agent."""
        from parley.client.credentials.origins import origin_of

        try:
            return any(login.origin == origin_of(self.named_url) for login in login_store().all())
        except CredentialsError:  # a damaged file, perhaps of another agent
            return False

    def credentials(self, *, with_logins: bool = True) -> Credentials:
        """Those of the command line, else those of `parley login`: for the agent's own origin only."""
        from parley.client.credentials.credentials import Credentials

        secrets: dict[str, Secret] = {"bearer": self.token, "api-key": self.token} if self.token else {}
        if self.tls is not None and self.tls.certificate is not None:
            secrets["mutual-tls"] = self.tls
        store = login_store() if with_logins else None
        return Credentials(secrets, headers=dict(self.headers), store=store, origins=self.trusted)


def login_store() -> FileLogins:
    """The logins of the current user, in the system's directory for settings."""
    from parley.client.credentials.token_store import FileLogins

    return FileLogins(Path(typer.get_app_dir("parley")) / "logins")


def client_options(
    url: UrlOrName,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    binding: BindingChoice = None,
    dialect: DialectChoice = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
    catalog: CatalogChoice = None,
) -> ClientOptions:
    """Build the value from the options.

    Raises:
        BadParameter: one of them is not valid.
    """
    if binding is Binding.GRPC and not _has_grpc():
        raise typer.BadParameter(f"gRPC is not installed. {INSTALL_GRPC}", param_hint="--binding")
    return ClientOptions(
        url=target_of(url, catalog),
        token=token,
        headers=tuple(map(parse_header, header or ())),
        trusted=tuple(map(parse_origin, trust or ())),
        tls=tls_of(ca, cert, key),
        binding=binding,
        dialect=dialect,
        allow_private=allow_private,
        timeout=timeout,
    )


def optional_client_options(
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.", show_default=False),
    ] = None,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    binding: BindingChoice = None,
    dialect: DialectChoice = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
    catalog: CatalogChoice = None,
) -> ClientOptions | None:
    """The same for a command that can do without an agent. Raises BadParameter."""
    if url is None:
        return None
    return client_options(url, token, header, trust, ca, cert, key, binding, dialect, allow_private, timeout, catalog)


WithClientOptions = Annotated[ClientOptions, OptionGroup(client_options)]
"""The options of every command that calls an agent."""

WithOptionalClient = Annotated[ClientOptions | None, OptionGroup(optional_client_options)]
"""The options of a command that calls an agent if it is given one."""


def tls_of(authorities: Path | None, certificate: Path | None, key: Path | None) -> Tls | None:
    """The TLS settings, or None for those of the system without a client certificate.

    Raises:
        BadParameter: a file cannot be used, or a key has no certificate.
    """
    if key is not None and certificate is None:
        raise typer.BadParameter("A key needs its certificate: --cert", param_hint="--key")
    if authorities is None and certificate is None:
        return None
    from parley.client.transports.connections import Tls

    tls = Tls(authorities=authorities, certificate=certificate, key=key)
    try:
        tls.context()
    except OSError as error:  # so is SSLError
        raise typer.BadParameter(f"The files cannot be used: {error}", param_hint="--ca, --cert and --key") from error
    return tls


def _has_grpc() -> bool:
    return importlib.util.find_spec("grpc") is not None


def agent_url(text: str) -> str:
    """The URL of an agent; without a scheme it is https, or http on this machine.

    >>> agent_url("localhost:8080")
    'http://localhost:8080'

    Raises:
        BadParameter: it is invalid.
    """
    try:
        url = with_scheme(text)
        parse_url(url)
    except InvalidUrlError as error:
        hint = " Give credentials with --token or --header." if "@" in text else ""
        raise typer.BadParameter(f"{error.message}{hint}", param_hint="URL") from None
    return url


def target_of(text: str, catalog: str | None) -> str:
    """The URL of an agent, or the name of one in a catalogue, as a client takes it.

    Raises:
        BadParameter: it is invalid.
    """
    named = (catalog, text) if catalog is not None and is_catalog_name(text) else split_catalog_name(text)
    if named is None:
        return agent_url(text)
    from parley.client.discovery.catalog_reader import catalog_url
    from parley.client.errors import ForbiddenTargetError

    try:
        return named_in_catalog(catalog_url(named[0]), named[1])
    except ForbiddenTargetError as error:
        raise typer.BadParameter(error.message, param_hint="--catalog") from None


def parse_origin(text: str) -> str:
    """An origin for `--trust`: a URL, or host and port for gRPC.

    Raises:
        BadParameter: it is not valid.
    """
    from parley.client.credentials.origins import origin_of

    try:
        return origin_of(text)
    except CredentialsError as error:
        raise typer.BadParameter(
            f"Invalid origin: {text!r}. Write it as https://a.example:8443", param_hint="--trust"
        ) from error


def parse_header(text: str) -> tuple[str, str]:
    """The name and the value of `Name: value`.

    Raises:
        BadParameter: it is not valid.
    """
    found = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff]*)", text)
    if found is None:
        # It may contain a secret, so it is not repeated.
        raise typer.BadParameter("Invalid header. Write it as 'X-API-Key: …'", param_hint="--header")
    return found[1].lower(), found[2].strip()
