"""How a command that calls an agent ends: with an exit code, and if something went wrong with a sentence about it.

The sentence goes to standard error, with `--json` as an object of one line. `EXIT_CODES` is the part of each command's
help that says what the codes mean.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import typer

from parley.cli.output.transcript import console
from parley.client.errors import (
    ClientError,
    CredentialsError,
    DiscoveryError,
    ForbiddenTargetError,
    StreamTruncatedError,
    UnreachableError,
)
from parley.protocol.errors import (
    A2AError,
    LocalProtocolError,
    ParleyError,
    PeerProtocolError,
    UnauthenticatedError,
    UnknownRemoteError,
)
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.tasks import TaskState
from parley.safe_text import printable_json, printable_line

if TYPE_CHECKING:
    from parley.cli.options.client import Calling

DONE = 0
REFUSED = 1
USAGE = 2
UNREACHABLE = 3
ASKED = 4
INTERRUPTED = 130
UNREAD = 141
"""What shells have for a command that wrote into a closed pipe."""

EXIT_CODES = """\b
Exit codes:
  0    it is done
  1    the agent failed, refused, was canceled, or does not speak A2A
  2    the command was asked wrongly
  3    no answer: unreachable, no card, connection lost, address forbidden
  4    the agent waits for input or for an authorisation
  130  interrupted by Ctrl+C
  141  nobody reads the output any more
"""

CREDENTIALS_HINT = (
    "Give credentials with --token or --header, a certificate with --cert, or get what it demands with parley login."
)

_CURES = (
    (r"(sent to (\S+))\. If that is right, add it to origins", r"\1. If that is right: --trust \2"),
    (r"allow it: Guard\(allowed_hosts=…\)", "allow it: --allow-private"),
    (r"say so with issuer='(.+)'", r"say so with --issuer \1"),
    (r"need a client_secret", "need the client's secret, in PARLEY_CLIENT_SECRET or on standard input"),
    (r"(is not a public name|has an address that is not public)$", r"\1; if that is right, allow it: --allow-private"),
)
"""What the client advises who writes Python, and what that is on a command line."""


def run(work: Coroutine[Any, Any, int], *, as_json: bool, how: Calling | None = None) -> NoReturn:
    """Do the work and end the command with the code that it gives, or that its error means; see `sentence`."""
    try:
        code = asyncio.run(work)
        finish_writing()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = stop_writing()
    except (ParleyError, OSError) as error:
        code = tell(error, as_json=as_json, how=how)
    raise typer.Exit(code)


def finish_writing() -> None:
    """Write what Python still keeps, while an error can be told; what cannot be written is dropped. Raises OSError."""
    try:
        print(end="", flush=True)  # which also knows a closed output
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries again when it ends
        raise


def stop_writing() -> int:
    """End without a word, because whoever read the output has gone, as in `parley … | head -1`; gives the exit code."""
    with suppress(OSError):
        finish_writing()
    return UNREAD


def tell(error: Exception, *, as_json: bool, how: Calling | None = None) -> int:
    """Say what went wrong, and give the exit code that it means; see `sentence`."""
    with suppress(OSError):  # if this is what went wrong
        finish_writing()
    if as_json:
        line = printable_json(msgspec.json.encode({"error": described(error)}))
        typer.echo(line.encode(), err=True)  # in UTF-8, whatever the terminal speaks
    else:
        console(stderr=True).print(f"Error: {sentence(error, how)}", style="red")
    return code_of(error)


def sentence(error: Exception, how: Calling | None = None) -> str:
    """What went wrong, and the cure where there is one: one line, with nothing in it that a terminal would obey.

    `how` is how the agent was called: what was given and refused is not advised again.
    """
    text = printable_line(_text(error)).rstrip(".")
    facts = ", ".join(f"{name} {fact}" for name, fact in getattr(error, "details", {}).items())
    text = f"{text} ({printable_line(facts)})." if facts else f"{text}."
    return f"{text} {_credentials_hint(error, how)}".rstrip()


def _credentials_hint(error: Exception, how: Calling | None) -> str:
    match error:
        case UnauthenticatedError() if how is not None and how.has_credentials:
            return "The agent has refused the credentials that were given."
        case UnauthenticatedError() if how is not None and how.has_login:
            return f"The agent has refused the login that is kept; get another: parley login {shlex.quote(how.url)}"
        case UnauthenticatedError():
            return CREDENTIALS_HINT
        case CredentialsError() if str(error).startswith("The agent demands"):
            return CREDENTIALS_HINT
        case _:
            return ""


def _text(error: Exception) -> str:
    match error:
        case PeerProtocolError(path=str()):
            return f"The agent does not keep to A2A: {error}"
        case OSError(strerror=str() as why):
            return f"{error.filename}: {why}" if error.filename else why
        case ClientError():
            text = str(error)
            for advice, option in _CURES:
                text = re.sub(advice, option, text)
            return text
        case _:
            return str(error)


def described(error: Exception) -> dict[str, Any]:
    """The error as members of a JSON object: its code and reason as A2A 1.0 has them, or a reason of our own."""
    if isinstance(error, A2AError):
        code = error.code if isinstance(error, UnknownRemoteError) else error.row.code
        return {"code": code, "message": str(error), "reason": error.row.reason, "details": error.details}
    if isinstance(error, OSError):
        return {"message": _text(error), "reason": errno.errorcode.get(error.errno or 0, "OS_ERROR")}
    name = type(error).__name__.removesuffix("Error")
    return {"message": _text(error), "reason": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()}


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
