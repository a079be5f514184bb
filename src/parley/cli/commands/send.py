"""`parley send`: one message to an agent, and what comes of it.

The answer goes to standard output and nothing else does, so it can be piped.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import aclosing
from typing import Annotated, Any

import typer

from parley.cli.input.forms import form_of
from parley.cli.input.message import read_contents
from parley.cli.options.client import AsJson, Calling, HowToCall, named
from parley.cli.options.groups import unfolded
from parley.cli.options.skill import SkillChoice, check_skill
from parley.cli.output.downloads import SaveDirectory, downloads_in
from parley.cli.output.exit_codes import DONE, code_of_state, run
from parley.cli.output.transcript import Transcript, consoles, say_event
from parley.client.errors import StreamTruncatedError
from parley.client.streams.streamed_task import StreamedTask
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.tasks import Task, TaskStatus
from parley.safe_text import printable_line


@unfolded
def send(
    how: HowToCall,
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What to say; - reads it.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="PATH|URL", help="A file to send; repeatable.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", "-d", metavar="JSON|@FILE", help="Data to send; repeatable.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="ID", callback=named, help="The conversation that this belongs to.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="ID", callback=named, help="The task that this is an answer for.")
    ] = None,
    skill: SkillChoice = None,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Show the answer as it comes.")] = True,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the work.")] = True,
    save: SaveDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Send an agent a message and show what comes of it.

    The answer goes to standard output; how the work goes is told on standard error.

    \b
    Examples:
      parley send http://127.0.0.1:8080 "3 days in Lisbon"
      parley send localhost:8080 Describe this --file photo.jpg --save .
      git diff | parley send https://agents.example.com/review -
      parley send localhost:8080 --data '{"amount": 12}' --task $TASK --json
    """
    contents = read_contents(text or [], file or [], data or [])
    options = {"task": task, "context": context, "skill": skill}
    transcript = Transcript(*consoles(), downloads=downloads_in(save, as_json=as_json))
    sending = _Sending(how, transcript, as_json)
    if stream and wait:
        run(sending.stream(contents, options), as_json=as_json, how=how)
    run(sending.send(contents, {**options, "wait": wait}), as_json=as_json, how=how)


class _Sending:
    """One message, and what comes of it."""

    def __init__(self, how: Calling, transcript: Transcript, as_json: bool) -> None:
        self._how = how
        self._transcript = transcript
        self._as_json = as_json

    async def stream(self, contents: list[Any], options: dict[str, Any]) -> int:
        seen: StreamedTask | None = None
        async with self._how.client() as client:
            check_skill(client.card, options["skill"])
            try:
                async with aclosing(client.stream(*contents, **options)) as updates:
                    async for update in updates:
                        seen = update.seen
                        self._show(update.event)
            except asyncio.CancelledError:
                if sys.stdin.isatty() and not self._as_json:
                    self._transcript.note("")  # after the ^C that the terminal shows
                self._say_how_to_watch("The task goes on", seen)
                raise
            except StreamTruncatedError:
                self._say_how_to_watch("The task may go on", seen)
                raise
            finally:
                self._transcript.end_line()
        return self._end(_task(seen))

    async def send(self, contents: list[Any], options: dict[str, Any]) -> int:
        async with self._how.client() as client:
            check_skill(client.card, options["skill"])
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
            self._transcript.note(how_to_answer(self._how.url, task.id, task.status))
        elif not self._as_json and not is_terminal(state):
            self._transcript.note(f"Task {printable_line(task.id)} is {state}. See: {self._watch(task)}")
        return code_of_state(state)

    def _say_how_to_watch(self, why: str, seen: StreamedTask | None) -> None:
        task = _task(seen)
        if task is not None and not self._as_json:
            self._transcript.note(f"{why}. See: {self._watch(task)}")

    def _watch(self, task: Task) -> str:
        return f"parley tasks watch {shlex.quote(self._how.url)} {_word(task.id)}"


def how_to_answer(url: str, task_id: str, status: TaskStatus) -> str:
    """What to type when a task waits."""
    what = "TEXT" if form_of(status.message) is None else "--data JSON"
    return f"It waits. Answer with: parley send {shlex.quote(url)} {what} --task {_word(task_id)}"


def _task(seen: StreamedTask | None) -> Task | None:
    return seen.task() if seen is not None and seen.task_id else None


def _word(text: str) -> str:
    """What an agent named, as one word of a command that can be pasted into a shell."""
    return shlex.quote(printable_line(text))
