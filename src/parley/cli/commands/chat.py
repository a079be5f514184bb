"""`parley chat`: a conversation with an agent in a terminal.

Ctrl+C cancels the current task, and the chat goes on. The terminal is read between calls, in the main thread, so that
Ctrl+C always applies to what the user sees: the line being typed, or the task being run.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shlex
import sys
import threading
import webbrowser
from collections.abc import Coroutine
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from parley.cli.input.forms import fill_in
from parley.cli.input.message import read_file
from parley.cli.login.credentials import read_secret
from parley.cli.options.client import ClientOptions, WithClientOptions, non_empty_id
from parley.cli.options.groups import with_option_groups
from parley.cli.options.skill import SkillChoice, UnknownSkillError, check_skill
from parley.cli.options.webhooks import WebhookUrl
from parley.cli.output.authorization_text import is_safe_to_open
from parley.cli.output.downloads import Downloads
from parley.cli.output.exit_codes import (
    DONE,
    INTERRUPTED,
    abandon_output,
    code_of,
    code_of_state,
    error_text,
    flush_output,
    report_error,
)
from parley.cli.output.transcript import Transcript, console, final_status
from parley.client.errors import UnreachableError
from parley.forms.fields import form_in
from parley.protocol.authorization import (
    AnswerWay,
    GivenCredential,
    RequestedAuthorization,
    decode_authorization,
    encode_credential,
)
from parley.protocol.errors import ParleyError, PushNotificationNotSupportedError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.tasks import Task
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from parley.cli.serving.local_webhook import PushInbox
    from parley.client.client import Client
    from parley.client.streams.streamed_task import StreamedTask

R = TypeVar("R")

FILES = Path("parley-files")
"""The default directory for files, which keeps them apart from those of the current directory."""

HELP = """\
/file PATH   send a file with the next message
/new         start a new conversation
/ids         show the ids of the conversation and of the last task
/quit        end the chat, like Ctrl+D
//…          send a text that starts with a slash
Ctrl+C       cancel the current task"""


@with_option_groups
def chat(
    options: WithClientOptions,
    context: Annotated[
        str | None, typer.Option(metavar="ID", callback=non_empty_id, help="The conversation to continue.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", callback=non_empty_id, help="The task to answer.")] = None,
    skill: SkillChoice = None,
    save: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Save files from the agent in this directory, created when needed."),
    ] = FILES,
    push: Annotated[
        bool, typer.Option("--push", help="Get replies by webhook, on a port of this machine, instead of a stream.")
    ] = False,
    webhook_port: Annotated[
        int,
        typer.Option(metavar="PORT", min=0, max=65_535, help="The port of the webhook.", show_default="a free one"),
    ] = 0,
    webhook_url: WebhookUrl = None,
) -> None:
    """Talk to an agent.

    Replies are shown as they arrive, questions and forms are answered in place, and files are saved. Ctrl+C cancels the
    current task; /help lists the commands. Lines can also be piped in; the exit code is then that of the last reply.

    \b
    Examples:
      parley chat http://127.0.0.1:8080
      parley chat https://agents.example.com --skill convert --save downloads
      parley chat http://127.0.0.1:8080 --push
      printf '%s\\n' Rome 3 | parley chat localhost:8080
    """
    with asyncio.Runner() as runner:
        try:
            client = options.client()
            runner.run(client.__aenter__())
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except (ParleyError, OSError) as error:
            raise typer.Exit(report_error(error, as_json=False, options=options)) from None
        inbox: PushInbox | None = None
        try:
            check_skill(client.card, skill)
            if push:
                inbox = _open_inbox(client, runner, webhook_port, webhook_url)
            talk = _Chat(options, client, runner, Downloads(save), context=context, task=task, skill=skill)
            talk.inbox = inbox
            code = talk.run()
            flush_output()
        except BrokenPipeError:
            code = abandon_output()
        # such as output to a file on a full disk
        except (UnknownSkillError, PushNotificationNotSupportedError, OSError) as error:
            code = report_error(error, as_json=False)
        finally:
            if inbox is not None:
                inbox.close()
            runner.run(client.__aexit__(None, None, None))
    raise typer.Exit(code)


def _open_inbox(client: Client, runner: asyncio.Runner, port: int, url: str | None) -> PushInbox:
    """The webhook of a chat. Raises PushNotificationNotSupportedError, or OSError if the port is in use."""
    from parley.cli.serving.local_webhook import PushInbox

    if not client.card.capabilities.push_notifications:
        raise PushNotificationNotSupportedError("The agent does not send push notifications, as its card says")
    return PushInbox(port=port, url=url, loop=runner.get_loop())


class _Chat:
    """One conversation."""

    def __init__(
        self,
        options: ClientOptions,
        client: Client,
        runner: asyncio.Runner,
        downloads: Downloads,
        *,
        context: str | None,
        task: str | None,
        skill: str | None,
    ) -> None:
        self._how = options
        self._client = client
        self._runner = runner
        self._downloads = downloads
        self._context = context
        self._skill = skill
        self._task = task
        """The task that runs or waits for an answer."""
        self._last_task = task
        self._shown: StreamedTask | None = None
        self._metadata: JsonObject | None = None
        """What goes with the next message: a credential."""
        """What the screen shows of the last task."""
        self._files: list[Any] = []
        self._screen = console()
        self._code = DONE
        self.inbox: PushInbox | None = None
        """The webhook to which replies come, instead of a stream."""

    def run(self) -> int:
        """Talk until the user quits; return the exit code."""
        face = self._client.interface
        name = printable_line(self._client.card.name)
        self._print(
            f"Talking to {name} ({printable_line(face.binding)} {printable_line(face.version)}). Type /help for help.",
            "dim",
        )
        if self.inbox is not None:
            self._print(f"Replies come to the webhook {self.inbox.url}.", "dim")
        try:
            self._show_given_task()
            while True:
                line = self._next_line()
                if line.strip() == "/quit":
                    return DONE
                self._handle_line(line)
        except EOFError:
            if not sys.stdin.isatty():
                return self._code
            self._screen.print()  # the shell's prompt starts on a new line
            return DONE

    def _next_line(self) -> str:
        while True:
            try:
                return read_line("answer> " if self._task else "> ", self._screen)
            except KeyboardInterrupt:
                self._screen.print()
                self._handle_interrupt()

    def _show_given_task(self) -> None:
        if self._task is None:
            return
        reply = self._run(self._client.get(self._task))
        if reply is None or reply.task is None:
            self._task = None
            return
        self._context = reply.task.context_id or self._context
        self._transcript().show_status(final_status(reply.task))
        self._exchange(self._form_answer(reply.task))

    def _handle_interrupt(self) -> None:
        if self._task is None:
            self._print("Press Ctrl+D or type /quit to end the chat.", "dim")
        else:
            self._cancel()

    # --- what is typed ------------------------------------------------------------------------------------------------

    def _handle_line(self, line: str) -> None:
        text = line.strip()
        command, _, rest = text.partition(" ")
        match command:
            case "":
                return
            case "/help":
                self._print(HELP)
            case "/new":
                self._context = self._task = None
                self._print("New conversation.", "dim")
            case "/ids":
                self._print(printable_line(f"context {self._context or '–'}, task {self._last_task or '–'}"))
            case "/file":
                self._attach(rest.strip())
            case _ if text.startswith("/") and not text.startswith("//"):
                self._print(f"Unknown command: {printable_line(command)}. Type /help for help.", "red")
            case _:
                self._exchange([text[1:] if text.startswith("//") else line])

    def _attach(self, name: str) -> None:
        if not name:
            self._print("Which file? Write it as /file PATH", "red")
            return
        try:
            self._files.append(read_file(os.path.expanduser(" ".join(shlex.split(name)))))
        except (typer.BadParameter, ValueError) as error:
            self._print(str(error), "red")
        else:
            self._print("The file goes with your next message.", "dim")

    # --- calls to the agent -------------------------------------------------------------------------------------------

    def _exchange(self, contents: list[Any]) -> None:
        """Send a message, show the answer, and fill in forms as long as the agent sends them."""
        while contents:
            contents, self._files = [*contents, *self._files], []
            task = self._run(self._stream(contents))
            contents = self._form_answer(task) if task is not None else []

    def _form_answer(self, task: Task) -> list[Any]:
        """The filled form, if the task asks for one."""
        self._task = task.id if is_interrupted(task.status.state) else None
        asked = decode_authorization(task.status)
        if asked is not None:
            return self._authorization_answer(task, asked)
        said = task.status.message
        schema = form_in(said.parts) if said and self._task else None
        if schema is None:
            return []
        try:
            return [fill_in(schema, partial(read_line, screen=self._screen), partial(self._print, style="red"))]
        except KeyboardInterrupt:
            self._screen.print()
            self._cancel()
            return []

    def _authorization_answer(self, task: Task, asked: RequestedAuthorization) -> list[Any]:
        """What continues a task that waits for an authorization; nothing if it has gone on by itself."""
        if asked.answer is AnswerWay.CALLBACK:
            if asked.url is not None and is_safe_to_open(asked.url) and sys.stdin.isatty():
                threading.Thread(target=webbrowser.open, args=(asked.url,), daemon=True).start()
            later = self._run(self._wait_for_authorization(task))
            return self._form_answer(later) if later is not None else []
        # Piped lines are read as those of the conversation are, but not shown.
        secret = read_secret("The credential") if sys.stdin.isatty() else sys.stdin.readline().strip()
        if not secret:
            return []
        self._metadata = encode_credential(GivenCredential(secret, asked.scheme))
        return ["Authorized."]

    async def _wait_for_authorization(self, task: Task) -> Task | None:
        """Wait until a person has authorized the task elsewhere, and show how it goes on."""
        self._task, transcript = task.id, self._transcript()
        later = await self._client.after_authorization(task)
        shown = self._shown
        assert isinstance(later, Task), "a task stays one"
        for event in shown.new_events_in(later) if shown is not None else [later]:
            transcript.show(event)
        transcript.end_line()
        self._task = task.id if is_interrupted(later.status.state) else None
        self._code = code_of_state(later.status.state)
        return later

    async def _stream(self, contents: list[Any]) -> Task | None:
        if self.inbox is not None:
            return await self._receive(contents, self.inbox)
        transcript, seen = self._transcript(), None
        shown = self._shown if self._shown is not None and self._shown.task_id == self._task else None
        try:
            # A task that goes on keeps its skill.
            skill = None if self._task else self._skill
            metadata, self._metadata = self._metadata, None
            stream = self._client.stream(
                *contents, task=self._task, context=self._context, skill=skill, metadata=metadata
            )
            async with aclosing(stream) as updates:
                async for update in updates:
                    seen = self._shown = update.seen
                    self._track(seen)
                    events = [update.event]
                    if shown is not None and isinstance(update.event, Task):
                        # The stream of an answer begins with the whole task.
                        events, shown = shown.new_events_in(update.event), None
                    for event in events:
                        transcript.show(event)
        finally:
            transcript.end_line()
        return self._ended(seen)

    async def _receive(self, contents: list[Any], inbox: PushInbox) -> Task | None:
        """The same by webhook."""
        transcript, seen, has_warned = self._transcript(), None, False
        shown = self._shown if self._shown is not None and self._shown.task_id == self._task else None
        skill = None if self._task else self._skill
        fields = {"task": self._task, "context": self._context, "skill": skill}
        try:
            async with aclosing(inbox.updates(self._client, contents, shown=shown, **fields)) as updates:
                async for event, seen, was_told in updates:
                    self._shown = seen
                    self._track(seen)
                    if not was_told and not has_warned:
                        has_warned = True
                        transcript.note("The agent has not called the webhook. This is the task as it is:", "yellow")
                    transcript.show(event)
        finally:
            transcript.end_line()
        return self._ended(seen)

    def _ended(self, seen: StreamedTask | None) -> Task | None:
        """The task after an answer."""
        if seen is None or seen.task_id is None:
            self._task, self._code = None, DONE
            return None
        task = seen.task()
        self._code = code_of_state(task.status.state)
        return task

    def _track(self, seen: StreamedTask) -> None:
        reply_context = seen.reply.context_id if seen.reply else None
        self._context = seen.context_id or reply_context or self._context
        if seen.task_id:
            self._task = self._last_task = seen.task_id

    def _run(self, work: Coroutine[Any, Any, R]) -> R | None:
        """The result of the work; if it fails or is interrupted, print why and return None."""
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
            self._print(f"Error: {error_text(error, self._how)}", "red")
            self._task = answered if answered and self._still_needs_input(answered, error) else None
        return None

    def _still_needs_input(self, task: str, error: Exception) -> bool:
        """Whether a question can be answered again after an answer failed."""
        if isinstance(error, UnreachableError):
            return True  # the agent did not get it
        try:
            return self._runner.run(self._client.get(task)).needs_input
        except (ParleyError, KeyboardInterrupt):
            return False

    def _cancel(self) -> None:
        task, self._task = self._task, None
        if task is None:
            self._print("Interrupted before the agent created a task.", "yellow")
            return
        try:
            reply = self._runner.run(self._client.cancel(task))
        except (ParleyError, KeyboardInterrupt, asyncio.CancelledError) as error:
            why = f": {error_text(error, self._how)}" if isinstance(error, ParleyError) else "."
            self._print(f"The task could not be canceled{why}", "red")
        else:
            self._print(f"{reply.state.capitalize()}.", "yellow")

    # --- the screen ---------------------------------------------------------------------------------------------------

    def _transcript(self) -> Transcript:
        return Transcript(self._screen, self._screen, downloads=self._downloads)

    def _print(self, text: str, style: str = "") -> None:
        self._transcript().note(text, style)


def read_line(prompt: str, screen: Console) -> str:
    """Read a line, with editing and history where the terminal supports them.

    Raises:
        EOFError: the input has ended.
    """
    if sys.stdin.isatty():
        if importlib.util.find_spec("readline"):
            importlib.import_module("readline")  # `input` uses it
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    # Show piped lines, so that the output reads as a conversation.
    screen.print(f"{prompt}{printable_line(line)}")
    return line.rstrip("\r\n")
