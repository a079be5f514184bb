"""Prints what an agent sends, as text for people or as lines of JSON for programs.

Answers go to standard output, so that they can be piped; notes about the progress go to standard error. Every text of
an agent passes through `printable` before it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import typer
from msgspec import structs
from rich.console import Console
from rich.text import Text

from parley.cli.output.authorization_text import describe_authorization
from parley.cli.output.downloads import Downloads
from parley.cli.output.orchestration import step_of
from parley.dialects.v1_0 import DIALECT
from parley.forms.fields import form_in
from parley.protocol.authorization import decode_authorization, without_description
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import DataPart, Message, Part, RawPart, Role, TextPart, UrlPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.safe_text import printable, printable_json, printable_line

DEFAULT_ARTIFACT = "response"
"""The artifact in which Parley's agents put their answers; its name is not shown."""

COLORS = {
    TaskState.COMPLETED: "green",
    TaskState.FAILED: "red",
    TaskState.REJECTED: "red",
    TaskState.CANCELED: "yellow",
    TaskState.INPUT_REQUIRED: "magenta",
    TaskState.AUTH_REQUIRED: "magenta",
}


def print_json(raw: bytes, *, err: bool = False) -> None:
    """Print a line of JSON, in UTF-8 whatever the terminal's encoding; `err` is for standard error."""
    typer.echo(printable_json(raw).encode(), err=err)


def print_event(event: StreamEvent) -> None:
    """Print an event on one line, as a stream of 1.0 has it."""
    for frame in DIALECT.encode_event(event):
        print_json(frame)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let `exit_codes` end the command. Rich would exit here, with the code of a failure."""
        raise BrokenPipeError


def consoles() -> tuple[Console, Console]:
    """The consoles for answers and for notes."""
    return console(), console(stderr=True)


def console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is, without highlighting, markup and wrapping."""
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def size_of(count: int) -> str:
    """A number of bytes, for people.

    >>> size_of(2_500)
    '2.5 kB'
    """
    size, units = float(count), ["bytes", "kB", "MB", "GB"]
    while size >= 1_000 and len(units) > 1:
        size, units = size / 1_000, units[1:]
    return f"{count} bytes" if units[0] == "bytes" else f"{size:.1f} {units[0]}"


class Transcript:
    """Prints events as they arrive: text is appended, and everything else is on lines of its own."""

    def __init__(self, answers: Console, notes: Console, *, downloads: Downloads | None = None) -> None:
        self._answers = answers
        self._notes = notes
        self._downloads = downloads
        self._is_line_open = False
        self._artifact: str | None = None
        self._shown: dict[str, list[str]] = {}
        """The texts of each artifact that was shown, in pieces."""

    # --- events -------------------------------------------------------------------------------------------------------

    def show(self, event: StreamEvent) -> None:
        """Show one event."""
        match event:
            case Message():
                self.show_parts(event.parts)
                self.end_line()
            case Task():
                for artifact in event.artifacts:
                    self.show_artifact(artifact)
                self.show_status(final_status(event))
            case StatusUpdate():
                self.show_status(event.status)
            case ArtifactUpdate():
                self.show_artifact(event.artifact, is_more=event.append)

    def show_status(self, status: TaskStatus) -> None:
        """Show the progress, or how the task ended and the message of its status."""
        said = without_description(status.message) if status.message else ()
        if not ends_stream(status.state):
            data = [printable_json(msgspec.json.encode(part.data)) for part in said if isinstance(part, DataPart)]
            words = " ".join(filter(None, [_text(said), *data]))
            if words:
                self.note(f"· {_indented(words)}", "dim")
            self.show_parts(part for part in said if isinstance(part, RawPart | UrlPart))
            return
        self.end_line()
        match status.state:
            case TaskState.COMPLETED:
                if not self._is_shown(said):
                    self.show_parts(said)
            case TaskState.INPUT_REQUIRED | TaskState.AUTH_REQUIRED:
                if status.state is TaskState.AUTH_REQUIRED:
                    self.note(describe_authorization(decode_authorization(status)), "magenta")
                # A form is filled in field by field; its schema is for programs.
                schema = form_in(said)
                self.show_parts(part for part in said if schema is None or getattr(part, "data", None) is not schema)
            case _:
                words = f"{status.state}: {_indented(_text(said))}" if _text(said) else f"{status.state}."
                self.note(words[:1].upper() + words[1:], COLORS.get(status.state, ""))
                self.show_parts(part for part in said if not isinstance(part, TextPart))
        self.end_line()

    def show_artifact(self, artifact: Artifact, *, is_more: bool = False) -> None:
        """Show an artifact, or what was added to it."""
        if (step := step_of(artifact)) is not None:
            self.note(f"· {_indented(step)}", "dim")
            return
        name = artifact.artifact_id
        is_again = name in self._shown and not is_more
        if name != self._artifact or is_again:
            self.end_line()
            title = printable_line(artifact.name or "")
            if is_again:
                self.note(f"— {title or 'again'}, replaced", "bold")
            elif name not in self._shown and title not in ("", DEFAULT_ARTIFACT, _only_file(artifact.parts)):
                self.note(f"— {title}", "bold")
        self._artifact = name
        if is_again:
            del self._shown[name]
        self._shown.setdefault(name, []).extend(part.text for part in artifact.parts if isinstance(part, TextPart))
        self.show_parts(artifact.parts)

    def _is_shown(self, said: Sequence[Part]) -> bool:
        """Whether a message repeats the text of an artifact, as those of arbiter and Parley's host do."""
        texts = [part.text for part in said if isinstance(part, TextPart)]
        whole = "".join(texts).strip()
        is_text = bool(whole) and len(texts) == len(said)
        return is_text and any(whole == "".join(shown).strip() for shown in self._shown.values())

    # --- lines --------------------------------------------------------------------------------------------------------

    def show_parts(self, parts: Iterable[Part]) -> None:
        """Show text, data and files."""
        for part in parts:
            match part:
                case TextPart():
                    self._write(printable(part.text))
                case DataPart():
                    self.end_line()
                    self._write(printable_json(msgspec.json.format(msgspec.json.encode(part.data), indent=2)) + "\n")
                case RawPart():
                    self._show_file(part)
                case UrlPart():
                    self.end_line()
                    name = f"{printable_line(part.filename)}: " if part.filename else ""
                    self._write(f"{name}{printable_line(part.url)}\n")

    def _show_file(self, part: RawPart) -> None:
        kind = printable_line(part.media_type or "application/octet-stream")
        about = f"{kind}, {size_of(len(part.raw))}"
        if self._downloads is None:
            name = printable_line(part.filename or "without a name")
            self.note(f"File {name} ({about}). --save DIR keeps it.")
            return
        try:
            path = self._downloads.save(part)
        except OSError as error:
            self.note(f"The file cannot be saved: {error.strerror or error}", "red")
            return
        self.note(f"Saved {printable_line(str(path))} ({about})")

    def note(self, text: str, style: str = "") -> None:
        """Print a line that is not part of the answer."""
        if self._answers.file is self._notes.file or self._answers.is_terminal:
            self.end_line()
        self._notes.print(Text(printable(text), style))

    def _write(self, text: str) -> None:
        if text:
            self._answers.file.write(text)  # not with rich, which turns tabs into spaces
            self._answers.file.flush()
            self._is_line_open = not text.endswith("\n")

    def end_line(self) -> None:
        """End the current line of text, if there is one."""
        if self._is_line_open:
            self._answers.print()
            self._is_line_open = False


def final_status(task: Task) -> TaskStatus:
    """A task's status, with the agent's last message from the history if it has none. A canceled task gets none."""
    said = task.history[-1] if task.history else None
    if task.status.message or task.artifacts or said is None or said.role is not Role.AGENT:
        return task.status
    if task.status.state is TaskState.CANCELED:
        return task.status
    return structs.replace(task.status, message=said)


def _only_file(parts: Sequence[Part]) -> str | None:
    """The name of the file that is all of an artifact; the line about the file has it already."""
    match parts:
        case (RawPart(filename=str() as name),):
            return printable_line(name)
        case _:
            return None


def _indented(text: str) -> str:
    """Indent all lines but the first, so that none looks like a line of this command."""
    return text.replace("\n", "\n  ")


def state_text(state: TaskState) -> Text:
    """A state in its color."""
    return Text(state.value, COLORS.get(state, "cyan"))


def time_text(status: TaskStatus) -> str:
    """The time of a status, or a dash."""
    return f"{status.timestamp:%Y-%m-%d %H:%M:%S} UTC" if status.timestamp else "–"


def _text(parts: Iterable[Part]) -> str:
    return printable(" ".join(part.text for part in parts if isinstance(part, TextPart)).strip())


def show_rows(to: Console, rows: Iterable[tuple[str, Any]], *, width: int = 12) -> None:
    """Print labels and values, one pair per line."""
    for label, value in rows:
        shown = value if isinstance(value, Text) else Text(printable_line(str(value)))
        to.print(Text.assemble("  ", (f"{label:<{width}}", "dim"), shown))
