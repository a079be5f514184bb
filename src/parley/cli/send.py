"""`parley send`: one message to an agent, and what comes of it.

The answer goes to standard output and nothing else does, so it can be piped.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from parley.cli.calling import (
    DONE,
    AllowPrivate,
    AsJson,
    Authorities,
    BindingChoice,
    Calling,
    Certificate,
    CertificateKey,
    DialectChoice,
    Headers,
    TimeoutSeconds,
    Token,
    TrustedOrigins,
    Url,
    calling,
    code_of_state,
    read_stdin,
    run,
    tls_of,
)
from parley.cli.downloads import Downloads
from parley.cli.forms import form_of
from parley.cli.harmless import harmless_line
from parley.cli.transcript import Transcript, consoles, say_event
from parley.client.growing import GrowingTask
from parley.contents import File
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import DataPart
from parley.protocol.tasks import Task

SaveDirectory = Annotated[
    Path | None, typer.Option("--save", metavar="DIR", help="Where files go that the agent sends.")
]


def send(
    url: Url,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What to say; - reads it.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="PATH|URL", help="A file to send; repeatable.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", "-d", metavar="JSON|@FILE", help="Data to send; repeatable.")
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="ID", help="The conversation that this belongs to.")] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", help="The task that this is an answer for.")] = None,
    skill: Annotated[str | None, typer.Option(metavar="ID", help="The skill to use, with agents of Parley.")] = None,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Show the answer as it comes.")] = True,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the work.")] = True,
    save: SaveDirectory = None,
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
    as_json: AsJson = False,
) -> None:
    """Send an agent a message and show what comes of it.

    The answer goes to standard output; how the work goes is told on standard error.

    \b
    Examples:
      parley send http://127.0.0.1:8080 "3 days in Lisbon"
      parley send localhost:8080 Describe this --file photo.jpg --save .
      git diff | parley send https://agents.example.com/review -
      parley send localhost:8080 --data '{"amount": 12}' --task 4f2c --json
    """
    how = calling(url, token, header, trust, tls_of(ca, cert, key), binding, dialect, allow_private, timeout)
    contents = read_contents(text or [], file or [], data or [])
    options = {"task": task, "context": context, "skill": skill}
    transcript = Transcript(*consoles(), downloads=Downloads(save) if save else None)
    sending = _Sending(how, transcript, as_json)
    if stream and wait:
        run(sending.stream(contents, options), as_json=as_json)
    run(sending.send(contents, {**options, "wait": wait}), as_json=as_json)


# --- what to say ------------------------------------------------------------------------------------------------------


def read_contents(words: list[str], files: list[str], data: list[str]) -> list[Any]:
    """What the arguments stand for, in their order: text, then files, then data.

    Raises:
        BadParameter: a file cannot be read, data is no JSON, or there is nothing.
    """
    text = read_stdin() if words == ["-"] else " ".join(words)
    contents: list[Any] = [text] if text else []
    contents += map(read_file, files)
    contents += map(_read_data, data)
    if not contents:
        raise typer.BadParameter("There is nothing to send. Give a text, --file or --data.", param_hint="TEXT")
    return contents


def read_file(name: str) -> Any:
    """The part that carries a file, or that tells where it is.

    Raises:
        BadParameter: it cannot be read.
    """
    if name.startswith(("https://", "http://")):
        return File(name, name.rstrip("/").rsplit("/", 1)[-1]).part()
    try:
        return File(Path(name)).part()
    except OSError as error:
        raise typer.BadParameter(f"{name} cannot be read: {error.strerror}", param_hint="--file") from error


def _read_data(text: str) -> DataPart:
    try:
        raw = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        return DataPart(msgspec.json.decode(raw))
    except OSError as error:
        raise typer.BadParameter(f"{text[1:]} cannot be read: {error.strerror}", param_hint="--data") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise typer.BadParameter(f"That is no JSON: {error}", param_hint="--data") from error


# --- saying it --------------------------------------------------------------------------------------------------------


class _Sending:
    """One message, and what comes of it."""

    def __init__(self, how: Calling, transcript: Transcript, as_json: bool) -> None:
        self._how = how
        self._transcript = transcript
        self._as_json = as_json

    async def stream(self, contents: list[Any], options: dict[str, Any]) -> int:
        seen: GrowingTask | None = None
        async with self._how.client() as client:
            try:
                async with aclosing(client.stream(*contents, **options)) as updates:
                    async for update in updates:
                        seen = update.seen
                        self._show(update.event)
            except asyncio.CancelledError:
                self._say_that_it_goes_on(_task(seen))
                raise
            finally:
                self._transcript.end_line()
        return self._end(_task(seen))

    async def send(self, contents: list[Any], options: dict[str, Any]) -> int:
        async with self._how.client() as client:
            reply = await client.send(*contents, **options)
        self._show(reply.content)
        self._transcript.end_line()
        return self._end(reply.task)

    def _show(self, event: Any) -> None:
        if self._as_json:
            say_event(event)
        else:
            self._transcript.show(event)

    def _end(self, task: Task | None) -> int:
        """The exit code, with what can be done next where something can."""
        if task is None:
            return DONE
        state = task.status.state
        if not self._as_json and is_interrupted(state):
            is_form = form_of(task.status.message) is not None
            what = "--data JSON" if is_form else "TEXT"
            self._transcript.note(f"It waits. Answer with: {self._command('send')} {what} --task {_word(task.id)}")
        elif not self._as_json and not is_terminal(state):
            self._transcript.note(f"Task {harmless_line(task.id)} is {state}. See: {self._watch(task)}")
        return code_of_state(state)

    def _say_that_it_goes_on(self, task: Task | None) -> None:
        if task is not None and not self._as_json:
            self._transcript.note(f"The task goes on. See: {self._watch(task)}")

    def _watch(self, task: Task) -> str:
        return f"{self._command('tasks watch')} {_word(task.id)}"

    def _command(self, name: str) -> str:
        return f"parley {name} {shlex.quote(self._how.url)}"


def _task(seen: GrowingTask | None) -> Task | None:
    return seen.task() if seen is not None and seen.task_id else None


def _word(text: str) -> str:
    """What an agent named, as one word of a command that can be pasted into a shell."""
    return shlex.quote(harmless_line(text))
