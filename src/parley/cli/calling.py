"""What all commands that call an agent share: the options that say how, the client they make, and the exit codes.

Everything that can go wrong ends here in a sentence on standard error, or with `--json` in an object of one line, and
in an exit code; `EXIT_CODES` is the part of each command's help that says what the codes mean.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.parse import urlsplit

import msgspec
import typer

from parley.cli.harmless import harmless, harmless_json
from parley.cli.logins import login_store
from parley.client.errors import (
    ClientError,
    CredentialsError,
    DiscoveryError,
    ForbiddenTargetError,
    StreamTruncatedError,
    UnreachableError,
)
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    LocalProtocolError,
    ParleyError,
    UnauthenticatedError,
    UnknownRemoteError,
)
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from parley.client.client import Client
    from parley.client.connecting import Tls
    from parley.client.credentials import Credentials, Secret
    from parley.client.guard import Guard
    from parley.client.options import Timeouts

DONE = 0
REFUSED = 1
USAGE = 2
UNREACHABLE = 3
ASKED = 4
INTERRUPTED = 130

EXIT_CODES = """\b
Exit codes:
  0    it is done
  1    the agent failed, refused, was canceled, or does not speak A2A
  2    the command was asked wrongly
  3    no answer: unreachable, no card, connection lost, address forbidden
  4    the agent waits for input or for an authorisation
  130  interrupted by Ctrl+C
"""

INSTALL_GRPC = "pip install 'parley-a2a[grpc]'"
CREDENTIALS_HINT = (
    "Give credentials with --token or --header, or get them with parley login; --trust lets another origin see them."
)

# --- options ----------------------------------------------------------------------------------------------------------

Url = Annotated[str, typer.Argument(metavar="URL", help="The agent's URL, or the URL of its card.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", envvar="PARLEY_TOKEN", help="A bearer token or an API key, as the card demands."
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="A header to send along; repeatable."),
]
TrustedOrigins = Annotated[
    list[str] | None,
    typer.Option("--trust", metavar="ORIGIN", help="Another origin that may see the credentials; repeatable."),
]
Authorities = Annotated[
    Path | None,
    typer.Option("--ca", metavar="FILE", help="Trust these authorities, in PEM.", show_default="the machine's"),
]
Certificate = Annotated[
    Path | None, typer.Option("--cert", metavar="FILE", help="Your certificate, in PEM, for mutual TLS.")
]
CertificateKey = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The certificate's key, in PEM.")]
BindingChoice = Annotated[
    Binding | None,
    typer.Option("--binding", case_sensitive=False, help="Use this binding only.", show_default="the card's first"),
]
DialectChoice = Annotated[
    Version | None,
    typer.Option("--dialect", help="Speak this version of A2A only.", show_default="the newest that both know"),
]
AllowPrivate = Annotated[
    bool, typer.Option("--allow-private", help="Let the card point to private addresses and plain http.")
]
TimeoutSeconds = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long to wait for a reply.", show_default="600"),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object per line, named as in A2A 1.0.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """Whom to call, and how."""

    url: str
    token: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    trusted: Sequence[str] = ()
    """Origins that may see the credentials, beside the one of the URL."""
    tls: Tls | None = None
    binding: Binding | None = None
    dialect: Version | None = None
    allow_private: bool = False
    timeout: float | None = None

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The bindings that may be used, the preferred first; empty for all, in the card's order."""
        if self.binding is not None:
            return (self.binding,)
        return () if _has_grpc() else (Binding.JSONRPC, Binding.HTTP_JSON)

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions that may be spoken; empty for all."""
        return (self.dialect,) if self.dialect else ()

    def client(self) -> Client:
        """A client of the agent, to be opened."""
        from parley.client.client import Client

        return Client(
            self.url,
            credentials=self._credentials(),
            bindings=self.bindings,
            versions=self.versions,
            timeouts=self.timeouts(),
            guard=self.guard(),
            tls=self.tls,
        )

    def guard(self) -> Guard:
        """Where the card may lead."""
        from parley.client.guard import Guard

        return Guard(allow_private=self.allow_private)

    def timeouts(self) -> Timeouts:
        """How long to wait."""
        from parley.client.options import Timeouts

        return Timeouts() if self.timeout is None else Timeouts(reply=self.timeout, card=min(self.timeout, 15.0))

    def _credentials(self) -> Credentials:
        """What was given on the command line, else what was logged in with: for the agent's own origin only."""
        from parley.client.credentials import Credentials

        secrets: dict[str, Secret] = {"bearer": self.token, "api-key": self.token} if self.token else {}
        if self.tls is not None and self.tls.certificate is not None:
            secrets["mutual-tls"] = self.tls
        return Credentials(secrets, headers=dict(self.headers), store=login_store(), origins=self.trusted)


def calling(
    url: str,
    token: str | None,
    header: Sequence[str] | None,
    trust: Sequence[str] | None,
    tls: Tls | None,
    binding: Binding | None,
    dialect: Version | None,
    allow_private: bool,
    timeout: float | None,
) -> Calling:
    """What the options say.

    Raises:
        BadParameter: one of them says nothing.
    """
    if binding is Binding.GRPC and not _has_grpc():
        raise typer.BadParameter(f"gRPC is not installed. {INSTALL_GRPC}", param_hint="--binding")
    return Calling(
        url=parse_url(url),
        token=token,
        headers=tuple(map(parse_header, header or ())),
        trusted=tuple(map(parse_origin, trust or ())),
        tls=tls,
        binding=binding,
        dialect=dialect,
        allow_private=allow_private,
        timeout=timeout,
    )


def tls_of(authorities: Path | None, certificate: Path | None, key: Path | None) -> Tls | None:
    """Whom to trust and who the caller is, or None for the machine's settings and nobody.

    Raises:
        BadParameter: a file cannot be used, or a key has no certificate.
    """
    if key is not None and certificate is None:
        raise typer.BadParameter("A key needs its certificate: --cert", param_hint="--key")
    if authorities is None and certificate is None:
        return None
    from parley.client.connecting import Tls

    tls = Tls(authorities=authorities, certificate=certificate, key=key)
    try:
        tls.context()
    except OSError as error:  # so is SSLError
        raise typer.BadParameter(f"They cannot be used: {error}", param_hint="--ca, --cert and --key") from error
    return tls


def _has_grpc() -> bool:
    return importlib.util.find_spec("grpc") is not None


def parse_url(text: str) -> str:
    """The URL that was meant: without a scheme, https, or http on this machine.

    >>> parse_url("localhost:8080")
    'http://localhost:8080'

    Raises:
        BadParameter: it is no URL of an agent.
    """
    url = text if "://" in text else f"{_scheme_for(text)}://{text}"
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError:
        found = None
    if found is None or found.scheme not in ("http", "https") or not found.hostname or re.search(r"\s", text):
        raise typer.BadParameter(f"{text!r} is no URL. Write it as https://agents.example.com", param_hint="URL")
    return url


def parse_origin(text: str) -> str:
    """An origin that `--trust` names: a URL, or host and port for gRPC.

    Raises:
        BadParameter: it is none.
    """
    from parley.client.origins import origin_of

    try:
        return origin_of(text)
    except CredentialsError as error:
        raise typer.BadParameter(
            f"{text!r} is no origin, such as https://a.example:8443", param_hint="--trust"
        ) from error


def _scheme_for(text: str) -> str:
    return "http" if re.match(r"(localhost|127\.[\d.]+|\[::1\])(?=$|[:/?])", text) else "https"


def parse_header(text: str) -> tuple[str, str]:
    """The name and the value of `Name: value`.

    Raises:
        BadParameter: it is no header.
    """
    found = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff]*)", text)
    if found is None:
        # What was typed may be a secret, and is not repeated.
        raise typer.BadParameter("That is no header. Write it as 'X-API-Key: …'", param_hint="--header")
    return found[1].lower(), found[2].strip()


# --- the end ----------------------------------------------------------------------------------------------------------


def run(work: Coroutine[Any, Any, int], *, as_json: bool) -> NoReturn:
    """Do the work and end the command with the code that it gives, or that its error means."""
    try:
        code = asyncio.run(work)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (ParleyError, OSError) as error:
        code = tell(error, as_json=as_json)
    raise typer.Exit(code)


def tell(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong, and give the exit code that it means."""
    if as_json:
        line = harmless_json(msgspec.json.encode({"error": described(error)}))
        typer.echo(line, err=True)
    else:
        typer.secho(f"Error: {sentence(error)}", err=True, fg=typer.colors.RED)
    return code_of(error)


def sentence(error: Exception) -> str:
    """What went wrong, and the cure where there is one, with nothing in it that a terminal would obey."""
    text = harmless(str(error)).rstrip(".")
    facts = ", ".join(f"{name} {fact}" for name, fact in getattr(error, "details", {}).items())
    text = f"{text} ({harmless(facts)})." if facts else f"{text}."
    return f"{text} {CREDENTIALS_HINT}" if isinstance(error, UnauthenticatedError | CredentialsError) else text


def described(error: Exception) -> dict[str, Any]:
    """The error as members of a JSON object: its code and reason as A2A 1.0 has them, or a reason of our own."""
    if isinstance(error, A2AError):
        code = error.code if isinstance(error, UnknownRemoteError) else error.row.code
        return {"code": code, "message": str(error), "reason": error.row.reason, "details": error.details}
    name = type(error).__name__.removesuffix("Error")
    return {"message": str(error), "reason": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()}


def code_of(error: Exception) -> int:
    """The exit code that an error means."""
    match error:
        case UnreachableError() | DiscoveryError() | StreamTruncatedError() | ForbiddenTargetError():
            return UNREACHABLE
        case LocalProtocolError():
            return USAGE  # what was asked cannot be said in A2A, or not in this version of it
        case ClientError() | ParleyError():
            return REFUSED
        case _:
            return USAGE  # a file that cannot be read or written


def code_of_state(state: TaskState) -> int:
    """The exit code of a command that leaves its task in this state."""
    if is_interrupted(state):
        return ASKED
    return REFUSED if state in (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED) else DONE


def read_stdin() -> str:
    """All of standard input, where `-` stands for it."""
    return sys.stdin.read()
