"""`parley send`: sends one message to an agent and prints the answer.

Only the answer goes to standard output, so it can be piped.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import aclosing
from typing import Annotated, Any

import typer

from parley.cli.input.forms import describe, sample
from parley.cli.input.message import read_contents
from parley.cli.login.credentials import read_secret
from parley.cli.options.client import AsJson, ClientOptions, WithClientOptions, non_empty_id
from parley.cli.options.groups import with_option_groups
from parley.cli.options.skill import SkillChoice, check_skill
from parley.cli.output.downloads import SaveDirectory, downloads_in
from parley.cli.output.exit_codes import DONE, code_of_state, run
from parley.cli.output.transcript import Transcript, consoles, print_event
from parley.client.errors import StreamTruncatedError
from parley.client.streams.streamed_task import StreamedTask
from parley.forms.fields import form_in
from parley.protocol.authorization import AnswerWay, GivenCredential, decode_authorization, encode_credential
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.tasks import Task, TaskStatus
from parley.safe_text import printable_line


@with_option_groups
def send(
    options: WithClientOptions,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The text to send; - for standard input.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="PATH|URL", help="A file to send; repeatable.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", "-d", metavar="JSON|@FILE", help="Data to send; repeatable.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="ID", callback=non_empty_id, help="The conversation to continue.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", callback=non_empty_id, help="The task to answer.")] = None,
    credential: Annotated[
        bool, typer.Option("--credential", help="Give the task a credential, from a prompt or standard input.")
    ] = False,
    skill: SkillChoice = None,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Print the answer as it arrives.")] = True,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the task ends.")] = True,
    save: SaveDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to an agent and print the answer.

    The answer goes to standard output, and notes about the progress to standard error.

    \b
    Examples:
      parley send http://127.0.0.1:8080 "3 days in Lisbon"
      parley send localhost:8080 Describe this --file photo.jpg --save .
      git diff | parley send https://agents.example.com/review -
      parley send localhost:8080 --data '{"amount": 12}' --task $TASK --json
    """
    given = _read_credential(task) if credential else {}
    if credential and not (text or file or data):
        text = ["Authorized."]
    contents = read_contents(text or [], file or [], data or [])
    fields: dict[str, Any] = {"task": task, "context": context, "skill": skill, **given}
    transcript = Transcript(*consoles(), downloads=downloads_in(save, as_json=as_json))
    sending = _Send(options, transcript, as_json)
    if stream and wait:
        run(sending.stream(contents, fields), as_json=as_json, options=options)
    run(sending.send(contents, {**fields, "wait": wait}), as_json=as_json, options=options)


class _Send:
    """One message and its answer."""

    def __init__(self, options: ClientOptions, transcript: Transcript, as_json: bool) -> None:
        self._how = options
        self._transcript = transcript
        self._as_json = as_json

    async def stream(self, contents: list[Any], fields: dict[str, Any]) -> int:
        seen: StreamedTask | None = None
        async with self._how.client() as client:
            check_skill(client.card, fields["skill"])
            try:
                async with aclosing(client.stream(*contents, **fields)) as updates:
                    async for update in updates:
                        seen = update.seen
                        self._show(update.event)
            except asyncio.CancelledError:
                if sys.stdin.isatty() and not self._as_json:
                    self._transcript.note("")  # after the ^C that the terminal shows
                self._print_watch_command("The task goes on", seen)
                raise
            except StreamTruncatedError:
                self._print_watch_command("The task may go on", seen)
                raise
            finally:
                self._transcript.end_line()
        return self._end(_task(seen))

    async def send(self, contents: list[Any], fields: dict[str, Any]) -> int:
        async with self._how.client() as client:
            check_skill(client.card, fields["skill"])
            reply = await client.send(*contents, **fields)
        self._show(reply.content)
        self._transcript.end_line()
        return self._end(reply.task)

    def _show(self, event: Any) -> None:
        if self._as_json:
            print_event(event)
        else:
            self._transcript.show(event)

    def _end(self, task: Task | None) -> int:
        """Print what can be done next, if anything, and return the exit code."""
        if task is None:
            return DONE
        state = task.status.state
        if not self._as_json and is_interrupted(state):
            self._transcript.note(how_to_answer(self._how.url, task.id, task.status))
        elif not self._as_json and not is_terminal(state):
            self._transcript.note(f"Task {printable_line(task.id)} is {state}. See: {self._watch(task)}")
        return code_of_state(state)

    def _print_watch_command(self, why: str, seen: StreamedTask | None) -> None:
        task = _task(seen)
        if task is not None and not self._as_json:
            self._transcript.note(f"{why}. See: {self._watch(task)}")

    def _watch(self, task: Task) -> str:
        return f"parley tasks watch {shlex.quote(self._how.url)} {_shell_word(task.id)}"


def _read_credential(task: str | None) -> dict[str, Any]:
    """The metadata of a message that gives a task a credential, which is entered without echo."""
    if task is None:
        raise typer.BadParameter("Give the task that waits for it: --task ID.", param_hint="--credential")
    secret = read_secret("The credential")
    if not secret:
        raise typer.BadParameter("The credential is empty.", param_hint="--credential")
    return {"metadata": encode_credential(GivenCredential(secret))}


def how_to_answer(url: str, task_id: str, status: TaskStatus) -> str:
    """The command that answers a waiting task, after the fields of its form if it has one."""
    asked = decode_authorization(status)
    if asked is not None and asked.answer is AnswerWay.CALLBACK:
        return f"See how it goes on with: parley tasks watch {shlex.quote(url)} {_shell_word(task_id)}"
    if asked is not None:
        return f"Give it with: parley send {shlex.quote(url)} --credential --task {_shell_word(task_id)}"
    schema = form_in(status.message.parts) if status.message else None
    waits, what = "The task waits for input. ", "TEXT"
    if schema is not None:
        waits, what = f"The task waits for a form:\n{describe(schema)}\n", f"--data {_shell_word(sample(schema))}"
    return f"{waits}Answer with: parley send {shlex.quote(url)} {what} --task {_shell_word(task_id)}"


def _task(seen: StreamedTask | None) -> Task | None:
    return seen.task() if seen is not None and seen.task_id else None


def _shell_word(text: str) -> str:
    """A text from an agent, as one word of a shell command."""
    return shlex.quote(printable_line(text))
