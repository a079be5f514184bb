"""`parley chat`: a conversation with an agent in a terminal.

Questions and forms are answered where they are asked. Ctrl+C stops what the agent is at, and the chat goes on. The
terminal is read between the calls, in the main thread, so that Ctrl+C always means what is in front of the user: while
a line is typed it interrupts the typing, while the agent works it interrupts the work.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from parley.cli.input.forms import AnswerError, Field, form_of
from parley.cli.input.message import read_file
from parley.cli.options.client import Calling, HowToCall, named
from parley.cli.options.groups import unfolded
from parley.cli.options.skill import SkillChoice, UnknownSkillError, check_skill
from parley.cli.output.downloads import Downloads
from parley.cli.output.exit_codes import (
    DONE,
    INTERRUPTED,
    code_of,
    code_of_state,
    finish_writing,
    sentence,
    stop_writing,
    tell,
)
from parley.cli.output.transcript import Transcript, console, last_word
from parley.client.errors import UnreachableError
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.tasks import Task
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.client.client import Client
    from parley.client.streams.streamed_task import StreamedTask

R = TypeVar("R")

FILES = Path("parley-files")
"""Where files go unless something else is said: not among what is in the current directory."""

HELP = """\
/file PATH   send a file along with the next message
/new         begin a new conversation
/ids         show the ids of the conversation and of the last task
/quit        end the chat; so does Ctrl+D
//…          say something that begins with a slash
Ctrl+C       stop what the agent is at"""


@unfolded
def chat(
    how: HowToCall,
    context: Annotated[
        str | None, typer.Option(metavar="ID", callback=named, help="A conversation to go on with.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="ID", callback=named, help="A task that waits for an answer.")
    ] = None,
    skill: SkillChoice = None,
    save: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where files go that the agent sends; it is made when the first one comes."),
    ] = FILES,
) -> None:
    """Talk to an agent.

    Replies come as they are made, questions and forms are answered in place, and files are saved. Ctrl+C cancels what
    the agent is at; /help shows what else can be typed. Lines can also be piped in; the exit code is then that of the
    last reply.

    \b
    Examples:
      parley chat http://127.0.0.1:8080
      parley chat https://agents.example.com --skill convert --save downloads
      printf '%s\\n' Rome 3 | parley chat localhost:8080
    """
    with asyncio.Runner() as runner:
        try:
            client = how.client()
            runner.run(client.__aenter__())
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except (ParleyError, OSError) as error:
            raise typer.Exit(tell(error, as_json=False, how=how)) from None
        try:
            check_skill(client.card, skill)
            code = _Chat(how, client, runner, Downloads(save), context=context, task=task, skill=skill).talk()
            finish_writing()
        except BrokenPipeError:
            code = stop_writing()
        except (UnknownSkillError, OSError) as error:  # such as a screen that is a file, and its disk is full
            code = tell(error, as_json=False)
        finally:
            runner.run(client.__aexit__(None, None, None))
    raise typer.Exit(code)


class _Chat:
    """One conversation."""

    def __init__(
        self,
        how: Calling,
        client: Client,
        runner: asyncio.Runner,
        downloads: Downloads,
        *,
        context: str | None,
        task: str | None,
        skill: str | None,
    ) -> None:
        self._how = how
        self._client = client
        self._runner = runner
        self._downloads = downloads
        self._context = context
        self._skill = skill
        self._task = task
        """The task that waits for an answer, or is at work."""
        self._last_task = task
        self._files: list[Any] = []
        self._screen = console()
        self._code = DONE

    def talk(self) -> int:
        """Talk until the user has enough; gives the exit code."""
        face = self._client.interface
        name = printable_line(self._client.card.name)
        self._say(
            f"Talking to {name} ({printable_line(face.binding)} {printable_line(face.version)}). /help helps.", "dim"
        )
        try:
            self._look_at_given_task()
            while True:
                line = self._next_line()
                if line.strip() == "/quit":
                    return DONE
                self._take(line)
        except EOFError:
            if not sys.stdin.isatty():
                return self._code
            self._screen.print()  # what comes next begins a line
            return DONE

    def _next_line(self) -> str:
        while True:
            try:
                return read_line("answer> " if self._task else "> ", self._screen)
            except KeyboardInterrupt:
                self._screen.print()
                self._interrupted_while_typing()

    def _look_at_given_task(self) -> None:
        if self._task is None:
            return
        reply = self._run(self._client.get(self._task))
        if reply is None or reply.task is None:
            self._task = None
            return
        self._context = reply.task.context_id or self._context
        self._transcript().show_status(last_word(reply.task))
        self._exchange(self._after(reply.task))

    def _interrupted_while_typing(self) -> None:
        if self._task is None:
            self._say("Ctrl+D or /quit ends the chat.", "dim")
        else:
            self._cancel()

    # --- what is typed ------------------------------------------------------------------------------------------------

    def _take(self, line: str) -> None:
        text = line.strip()
        command, _, rest = text.partition(" ")
        match command:
            case "":
                return
            case "/help":
                self._say(HELP)
            case "/new":
                self._context = self._task = None
                self._say("A new conversation.", "dim")
            case "/ids":
                self._say(printable_line(f"context {self._context or '–'}, task {self._last_task or '–'}"))
            case "/file":
                self._attach(rest.strip())
            case _ if text.startswith("/") and not text.startswith("//"):
                self._say(f"There is no {printable_line(command)}. /help shows what there is.", "red")
            case _:
                self._exchange([text[1:] if text.startswith("//") else line])

    def _attach(self, name: str) -> None:
        if not name:
            self._say("Which file? Write it as /file PATH", "red")
            return
        try:
            self._files.append(read_file(os.path.expanduser(" ".join(shlex.split(name)))))
        except (typer.BadParameter, ValueError) as error:
            self._say(str(error), "red")
        else:
            self._say("It goes with your next message.", "dim")

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def _exchange(self, contents: list[Any]) -> None:
        """Say something, show what comes, and answer forms until none is asked any more."""
        while contents:
            contents, self._files = [*contents, *self._files], []
            task = self._run(self._stream(contents))
            contents = self._after(task) if task is not None else []

    def _after(self, task: Task) -> list[Any]:
        """The filled form, if the task asks for one."""
        self._task = task.id if is_interrupted(task.status.state) else None
        fields = form_of(task.status.message) if self._task else None
        if not fields:
            return []
        try:
            return [self._fill(fields)]
        except KeyboardInterrupt:
            self._screen.print()
            self._cancel()
            return []

    def _fill(self, fields: list[Field]) -> JsonObject:
        filled: JsonObject = {}
        for field in fields:
            while True:
                text = read_line(f"{printable_line(field.title)} ({printable_line(field.hint)}): ", self._screen)
                try:
                    value = field.parse(text)
                    break
                except AnswerError as error:
                    self._say(printable_line(str(error)), "red")
            if value is not None:
                filled[field.name] = value
        return filled

    async def _stream(self, contents: list[Any]) -> Task | None:
        transcript, seen = self._transcript(), None
        try:
            # What goes on with a task stays with the skill that it was begun for.
            skill = None if self._task else self._skill
            stream = self._client.stream(*contents, task=self._task, context=self._context, skill=skill)
            async with aclosing(stream) as updates:
                async for update in updates:
                    seen = update.seen
                    self._remember(seen)
                    transcript.show(update.event)
        finally:
            transcript.end_line()
        if seen is None or seen.task_id is None:
            self._task, self._code = None, DONE
            return None
        task = seen.task()
        self._code = code_of_state(task.status.state)
        return task

    def _remember(self, seen: StreamedTask) -> None:
        reply_context = seen.reply.context_id if seen.reply else None
        self._context = seen.context_id or reply_context or self._context
        if seen.task_id:
            self._task = self._last_task = seen.task_id

    def _run(self, work: Coroutine[Any, Any, R]) -> R | None:
        """What the work gives; None, and a word about it, if it was interrupted or went wrong."""
        answered = self._task
        try:
            return self._runner.run(work)
        except BrokenPipeError:
            raise
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._code = INTERRUPTED
            if sys.stdin.isatty():
                self._screen.print()  # after the ^C that the terminal shows
            self._cancel()
        except (ParleyError, OSError) as error:
            self._code = code_of(error)
            self._say(f"Error: {sentence(error, self._how)}", "red")
            self._task = answered if answered and self._still_waits(answered, error) else None
        return None

    def _still_waits(self, task: str, error: Exception) -> bool:
        """Whether a question can be answered again, after an answer that went wrong."""
        if isinstance(error, UnreachableError):
            return True  # the agent has not heard it
        try:
            return self._runner.run(self._client.get(task)).needs_input
        except (ParleyError, KeyboardInterrupt):
            return False

    def _cancel(self) -> None:
        task, self._task = self._task, None
        if task is None:
            self._say("Interrupted, before the agent named a task.", "yellow")
            return
        try:
            reply = self._runner.run(self._client.cancel(task))
        except (ParleyError, KeyboardInterrupt, asyncio.CancelledError) as error:
            why = f": {sentence(error, self._how)}" if isinstance(error, ParleyError) else "."
            self._say(f"The task could not be canceled{why}", "red")
        else:
            self._say(f"{reply.state.capitalize()}.", "yellow")

    # --- the screen ---------------------------------------------------------------------------------------------------

    def _transcript(self) -> Transcript:
        return Transcript(self._screen, self._screen, downloads=self._downloads)

    def _say(self, text: str, style: str = "") -> None:
        self._transcript().note(text, style)


def read_line(prompt: str, screen: Console) -> str:
    """A line that was typed, with editing and history where the terminal has them.

    Raises:
        EOFError: there is none any more.
    """
    if sys.stdin.isatty():
        if importlib.util.find_spec("readline"):
            importlib.import_module("readline")  # which changes what `input` does
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    # What is piped in is shown, so that what comes out reads as a conversation.
    screen.print(f"{prompt}{printable_line(line)}")
    return line.rstrip("\r\n")
