"""Exit codes and error messages of commands that call an agent.

An error message goes to standard error, with `--json` as a JSON object on one line. `EXIT_CODES` is the part of each
command's help that explains the codes.
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

from parley.cli.output.transcript import console, print_json
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
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.cli.options.client import ClientOptions

DONE = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
INPUT_NEEDED = 4
INTERRUPTED = 130
BROKEN_PIPE = 141
"""The code that shells use for a command that wrote into a closed pipe."""

EXIT_CODES = """\b
Exit codes:
  0    success
  1    the task failed, was refused or canceled, or the answer is not A2A
  2    invalid arguments
  3    no answer: unreachable, no card, connection lost, address forbidden
  4    the agent waits for input or authentication
  130  interrupted by Ctrl+C
  141  the output was closed
"""

CREDENTIALS_HINT = "Give credentials with --token or --header, a certificate with --cert, or log in with parley login."

_OPTION_HINTS = (
    (r"(is at (\S+))\. If that is right, add it to origins", r"\1. If that is right: --trust \2"),
    (r"allow it: Guard\(allowed_hosts=…\)", "allow it: --allow-private"),
    (r"say so with issuer='(.+)'", r"say so with --issuer \1"),
    (r"need a client_secret", "need the client's secret, in PARLEY_CLIENT_SECRET or on standard input"),
    (r"(is not a public host|has an address that is not public)$", r"\1; if that is right, allow it: --allow-private"),
)
"""Advice for Python programs in the client's errors, and the same for the command line."""


def run(work: Coroutine[Any, Any, int], *, as_json: bool, options: ClientOptions | None = None) -> NoReturn:
    """Do the work, and end the command with the exit code that it returns or that its error means."""
    try:
        code = asyncio.run(work)
        flush_output()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = abandon_output()
    except (ParleyError, OSError) as error:
        code = report_error(error, as_json=as_json, options=options)
    raise typer.Exit(code)


def fail(message: str, *, code: int = 1) -> NoReturn:
    """End the command with an error message."""
    typer.secho(f"Error: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(code)


def flush_output() -> None:
    """Flush standard output, so that a failure can still be reported. Raises OSError, after dropping the rest."""
    try:
        print(end="", flush=True)  # handles a closed output too
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python tries again at exit
        raise


def abandon_output() -> int:
    """Drop the rest of the output, because its reader has closed it (`parley … | head -1`); return the exit code."""
    with suppress(OSError):
        flush_output()
    return BROKEN_PIPE


def report_error(error: Exception, *, as_json: bool, options: ClientOptions | None = None) -> int:
    """Print what went wrong, and return the exit code; see `error_text`."""
    with suppress(OSError):  # it may be the error itself
        flush_output()
    if as_json:
        print_json(msgspec.json.encode({"error": error_json(error)}), err=True)
    else:
        console(stderr=True).print(f"Error: {error_text(error, options)}", style="red")
    return code_of(error)


def error_text(error: Exception, options: ClientOptions | None = None) -> str:
    """What went wrong and what to do about it, on one line without control characters.

    `options` is how the agent was called: credentials that were refused are not suggested again.
    """
    text = printable_line(_text(error)).rstrip(".")
    facts = ", ".join(f"{name} {fact}" for name, fact in getattr(error, "details", {}).items())
    text = f"{text} ({printable_line(facts)})." if facts else f"{text}."
    return f"{text} {_credentials_hint(error, options)}".rstrip()


def _credentials_hint(error: Exception, options: ClientOptions | None) -> str:
    match error:
        case UnauthenticatedError() if options is not None and options.has_credentials:
            return "The agent refused the credentials."
        case UnauthenticatedError() if options is not None and options.has_login:
            return f"The agent refused the stored login; log in again: parley login {shlex.quote(options.url)}"
        case UnauthenticatedError():
            return CREDENTIALS_HINT
        case CredentialsError() if str(error).startswith(("The agent demands", "The agent requires")):
            return CREDENTIALS_HINT
        case _:
            return ""


def _text(error: Exception) -> str:
    match error:
        case PeerProtocolError(path=str()):
            return f"The agent's answer is not valid A2A: {error}"
        case OSError(strerror=str() as why):
            return f"{error.filename}: {why}" if error.filename else why
        case ClientError():
            text = str(error)
            for advice, option in _OPTION_HINTS:
                text = re.sub(advice, option, text)
            return text
        case _:
            return str(error)


def error_json(error: Exception) -> dict[str, Any]:
    """The error as a JSON object: its code and reason from A2A 1.0, or a reason of our own."""
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
            return USAGE  # the request cannot be expressed in this version of A2A
        case ClientError() | ParleyError():
            return FAILED
        case _:
            return USAGE  # a file that cannot be read or written


def code_of_state(state: TaskState) -> int:
    """The exit code of a command that leaves its task in this state."""
    if is_interrupted(state):
        return INPUT_NEEDED
    return FAILED if state in (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED) else DONE
