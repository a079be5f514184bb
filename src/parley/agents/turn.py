"""What a handler is given: the message, the conversation, and methods for everything an agent may do.

A handler begins again from the top after every answer and after a restart. `ask` and `step` then return at once what is
in the log, and what was emitted before is not emitted again, so a plain sequential handler works across restarts.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from random import random as random_number
from typing import NoReturn, ParamSpec, TypeVar, overload

from msgspec import structs

from parley.agents.authorization import Authorized, OAuthCode, WantedAuthorization, require_authorization
from parley.agents.delegation.delegated_task import DelegateRequest
from parley.agents.delegation.delegation import Delegation, Delegations
from parley.agents.delegation.peers import OtherAgent
from parley.agents.durations import Duration, parse_duration
from parley.agents.forms import ask_form, form_of
from parley.agents.received_message import ReceivedMessage as ReceivedMessage
from parley.agents.replies import end_with, reply_with
from parley.agents.retries import RetryPolicy
from parley.agents.steps import RetryingSteps, checked, key_for, take_step
from parley.agents.streams import Source, Stream, StreamedContent, UnusedContents
from parley.agents.threads import is_running_here
from parley.agents.timers import recorded_now, recorded_random, recorded_uuid, wake_time
from parley.contents import Content, parts_of, require_json
from parley.engine.caller import Caller
from parley.engine.runs.contexts import Context
from parley.engine.runs.run import Run
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import SKILL_KEY, Message, TextPart
from parley.protocol.negotiation import accepts
from parley.protocol.tasks import Artifact, TaskState

P = ParamSpec("P")
T = TypeVar("T")

RESPONSE = "response"
"""The artifact into which a handler's own results go."""


class ArtifactWriter:
    """One artifact that grows as it is written to: `await report.write("…")`."""

    def __init__(self, run: Run, name: str, description: str | None, metadata: JsonObject) -> None:
        self._run = run
        self._name = name
        self._description = description
        self._metadata = metadata

    async def write(self, *contents: Content | StreamedContent, last: bool = False) -> None:
        """Add text, data, files or streams to the artifact; `last` says that it is complete."""
        described = Artifact(self._name, (), self._name, self._description, self._metadata)
        if any(isinstance(content, StreamedContent) for content in contents):
            for content in contents:
                if isinstance(content, StreamedContent):
                    await content.write_to(described)
                else:
                    await self.write(content)
            contents = ("",) if last else ()
        parts = parts_of(contents)
        if not parts:
            return
        is_begun = self._run.journal.number_emitted(self._name) > 0
        chunk = Artifact(self._name, parts) if is_begun else structs.replace(described, parts=parts)
        await self._run.emissions.emit_chunk(chunk, last=last)


class Turn(ReceivedMessage):
    """One handler's view of its task."""

    def __init__(self, run: Run, delegations: Delegations, unused: UnusedContents) -> None:
        super().__init__(run.message, run.engine.files)
        self._run = run
        self._unused = unused
        self._delegations = delegations
        self._context: Context | None = None
        self._authorizations = 0

    # --- input --------------------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The conversation around the task."""
        if self._context is None:
            self._context = Context(self._run)
        return self._context

    @property
    def caller(self) -> Caller:
        """The caller that sent the message."""
        return self._run.caller

    @property
    def task_id(self) -> str:
        """The task at hand."""
        return self._run.key.task_id

    @property
    def idempotency_key(self) -> str:
        """A key that is the same whenever this message is worked on: after a restart, and when it was sent again.

        Together with the step's name it tells another system that an effect was asked for before.
        """
        return self._run.idempotency_key

    @property
    def history(self) -> tuple[Message, ...]:
        """What the caller has said in this task, oldest first."""
        return tuple(self._run.journal.messages)

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled or has taken too long; for plain functions, which nothing can interrupt."""
        return self._run.is_cancelled or self._run.is_overdue

    def accepts(self, media_type: str) -> bool:
        """Whether the caller can take results of this type."""
        return accepts(self._run.configuration.accepted_output_modes, media_type)

    # --- output -------------------------------------------------------------------------------------------------------

    async def status(self, *contents: Content, metadata: JsonObject | None = None) -> None:
        """Report progress: `await turn.status("Looking up rates…")`."""
        if metadata:
            require_json(metadata)
        await self._run.emissions.emit_status(parts_of(contents), metadata)

    def annotate(self, metadata: JsonObject) -> None:
        """Add to the metadata of the task, which gets it when it ends: `turn.annotate({"usage": …})`."""
        require_json(metadata)
        self._run.final_metadata = {**self._run.final_metadata, **metadata}

    def artifact(
        self, name: str, *, description: str | None = None, metadata: JsonObject | None = None
    ) -> ArtifactWriter:
        """An artifact to write to, beside others: `report = turn.artifact("report.md")`."""
        if not name:
            raise LocalProtocolError("An artifact needs a name")
        require_json(name, description, metadata)
        return ArtifactWriter(self._run, name, description, metadata or {})

    @overload
    async def ask(self, *contents: Content, form: None = None) -> ReceivedMessage: ...

    @overload
    async def ask(self, *contents: Content, form: type[T]) -> T: ...

    @overload
    async def ask(self, *contents: Content, form: Mapping[str, object]) -> JsonObject: ...

    async def ask(self, *contents: Content, form: type[T] | Mapping[str, object] | None = None) -> object:
        """Ask the caller something and get the answer, however long that takes.

        A form makes it a question with fields: a pydantic model, a msgspec Struct, a dataclass, a TypedDict or a JSON
        Schema. The answer is then an object of that class, or the fields; the caller is asked again until they fit.
        """
        return await self._ask(TaskState.INPUT_REQUIRED, contents, form)

    @overload
    async def require_auth(
        self,
        *contents: Content,
        form: None = None,
        scheme: str | None = None,
        url: str | None = None,
        scopes: Sequence[str] = (),
        oauth: OAuthCode | None = None,
        expires_in: Duration = "10 minutes",
    ) -> Authorized: ...

    @overload
    async def require_auth(self, *contents: Content, form: type[T]) -> T: ...

    @overload
    async def require_auth(self, *contents: Content, form: Mapping[str, object]) -> JsonObject: ...

    async def require_auth(
        self,
        *contents: Content,
        form: type[T] | Mapping[str, object] | None = None,
        scheme: str | None = None,
        url: str | None = None,
        scopes: Sequence[str] = (),
        oauth: OAuthCode | None = None,
        expires_in: Duration = "10 minutes",
    ) -> object:
        """Ask the caller to authorise something, and go on with the credential, or the message that says it is done.

        `scheme`, `url` and `scopes` say to programs what is needed, and the caller continues the task with the
        credential; the scheme is `Bearer` unless it is named, and without any of them there is only the text. With
        `oauth`, the server's own callback endpoint receives it, and the task goes on by itself. The URL is good for
        `expires_in`. A form is for what else the caller brings back, as in `ask`.

        Raises:
            LocalProtocolError: the server has no public URL for the callback, or a form is combined with these.
            CredentialsError: the authorization server cannot be used.
        """
        question = parts_of(contents) or (TextPart("Please authorize this."),)
        if form is not None:
            if oauth is not None or url is not None or scheme is not None or scopes:
                raise LocalProtocolError("A form cannot be combined with `scheme`, `url`, `scopes` or `oauth`")
            return await ask_form(self._run, TaskState.AUTH_REQUIRED, question, form_of(form))
        lifetime = parse_duration(expires_in)
        wanted = WantedAuthorization(scheme=scheme, url=url, scopes=tuple(scopes), oauth=oauth, lifetime=lifetime)
        self._authorizations += 1
        return await require_authorization(self._run, self._authorizations, question, wanted)

    async def _ask(
        self, state: TaskState, contents: tuple[Content, ...], form: type[T] | Mapping[str, object] | None
    ) -> T | JsonObject | ReceivedMessage:
        question = parts_of(contents) or (TextPart("Please answer."),)
        if form is None:
            return ReceivedMessage(await self._run.ask(state, question), self._run.engine.files)
        return await ask_form(self._run, state, question, form_of(form))

    async def complete(self, *contents: Content | Message) -> NoReturn:
        """Complete the task with a message; nothing after this line runs."""
        await end_with(self._run, TaskState.COMPLETED, contents)

    async def reply(self, *contents: Content | Message) -> NoReturn:
        """Answer with a message instead of a task; nothing after this line runs.

        If there is a task already, because the handler has emitted, asked or taken a step, or the caller wants one, it
        is completed with the message.
        """
        await reply_with(self._run, contents)

    async def reject(self, *contents: Content | Message) -> NoReturn:
        """Refuse the task; nothing after this line runs."""
        await end_with(self._run, TaskState.REJECTED, contents)

    async def fail(self, *contents: Content | Message) -> NoReturn:
        """End the task as failed, for a reason that the caller may read; nothing after this line runs."""
        await end_with(self._run, TaskState.FAILED, contents)

    async def end(self, state: TaskState, *contents: Content | Message) -> NoReturn:
        """End the task in a final state that other code has chosen; nothing after this line runs.

        Raises:
            LocalProtocolError: the state is not final.
        """
        if not is_terminal(state):
            raise LocalProtocolError(f"A task cannot end as {state}; use `ask` to wait for its caller")
        await end_with(self._run, state, contents)

    # --- steps --------------------------------------------------------------------------------------------------------

    @overload
    async def step(self, name: str, do: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def step(self, name: str, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, do: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> object:
        """The result of `do(*args)`: called once and recorded, so that no restart calls it again.

        It begins when the task is durable. A plain function runs in a thread. The result is stored as JSON and
        converted back by the return annotation of the function. Several steps may share a name; they are told apart by
        their order.

        Raises:
            LocalProtocolError: the result cannot be stored, or does not fit the return annotation.
        """
        return await take_step(self._run, name, partial(checked("step", name, do), *args, **kwargs))

    def retrying(
        self,
        *,
        attempts: int = 3,
        backoff: Duration = "1s",
        max_backoff: Duration = "1m",
        timeout: Duration | None = None,
        deadline: Duration | None = None,
        on: type[Exception] | tuple[type[Exception], ...] = Exception,
        jitter: Callable[[], float] = random_number,
    ) -> RetryingSteps:
        """Steps that are tried again: `await turn.retrying(attempts=5, timeout="30s").step("charge", charge, order)`.

        The pause after a failure begins with `backoff` and doubles up to `max_backoff`; `jitter` returns a random
        number from 0 to 1, which shortens it by up to half. `timeout` is for each attempt, `deadline` for all of them
        together. Only the exceptions in `on` are tried again, and never a LocalProtocolError.

        Raises:
            LocalProtocolError: a duration or the number of attempts is invalid.
        """
        policy = RetryPolicy(
            attempts=attempts,
            backoff=backoff,
            max_backoff=max_backoff,
            timeout=timeout,
            deadline=deadline,
            on=on,
            jitter=jitter,
        )
        return RetryingSteps(self._run, self._unused, policy)

    def key_for(self, name: str) -> str:
        """A key for an effect, to tell another system that it was asked for before: `turn.key_for("charge")`.

        It is the same whenever this message is worked on, also after a restart and when it was sent again, and
        different for every name. It has 32 hexadecimal digits.
        """
        return key_for(self._run, name)

    def stream(self, name: str, source: Callable[P, Source[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]:
        """What `source(*args)` yields, as a step: `yield turn.stream("answer", model.stream, prompt)`.

        Yielded, returned or written to an artifact, it passes through as it comes. `async for piece in turn.stream(…)`
        gives you the pieces instead, to yield them or not. The source is an async or a plain function that yields, or
        one that returns something to iterate over. One that has ended comes back from the log after a restart; one
        that was cut off runs again, and what it said before is replaced.
        """
        call = partial(checked("stream", name, source), *args, **kwargs)
        return Stream(self._run, self._unused, name, call)

    # --- time and chance ----------------------------------------------------------------------------------------------

    async def sleep(self, until: Duration | datetime, *, name: str = "sleep") -> None:
        """Wait for `"3 days"`, for seconds, for a `timedelta`, or until a moment: `await turn.sleep("3 days")`.

        The task costs nothing meanwhile, and restarts do not matter. Sleeps that are in progress at the same time need
        names.
        """
        run = self._run
        await run.sleeps.until(wake_time(until, run.engine.clock.now()), name)

    def now(self, name: str = "now") -> datetime:
        """The present moment in UTC, recorded: a handler that begins again gets the same one.

        Code that runs side by side gives each value a name, so that each gets its own again.
        """
        return recorded_now(self._run, name)

    def random(self, name: str = "random") -> float:
        """A random number from 0 to 1, recorded as `now` is."""
        return recorded_random(self._run, name)

    def uuid(self, name: str = "uuid") -> str:
        """A random UUID, recorded as `now` is. No step begins before it is durable."""
        return recorded_uuid(self._run, name)

    # --- other agents -------------------------------------------------------------------------------------------------

    def delegate(
        self,
        agent: OtherAgent,
        *contents: Content,
        name: str | None = None,
        into: str | None = None,
        skill: str | None = None,
        metadata: JsonObject | None = None,
        reveals_task: bool = True,
        asks: bool = True,
    ) -> Delegation:
        """Have another agent do something: `result = await turn.delegate("https://…", "100 USD in EUR")`.

        `agent` is a URL, a `Client`, or the name of an agent on this server. Without contents it gets the message of
        this turn. Its questions are asked of our caller. `into` names an artifact into which its result is streamed;
        `yield turn.delegate(…)` streams it into the response. It is a step, named after the agent and the contents
        unless `name` is given.

        The other agent is told the id of our task and how many agents have delegated to one another; with
        `reveals_task=False` only the latter, which stops loops. With `asks=False` our caller is asked nothing: a
        question of the other agent is an error that holds the question, and its task is canceled.

        Raises, when awaited:
            DelegateFailedError: the other agent failed or refused, cannot be reached, or asks against `asks=False`.
        """
        described: JsonObject = {**(metadata or {}), **({SKILL_KEY: skill} if skill else {})}
        request = DelegateRequest(agent, parts_of(contents) or self.parts, described, reveals_task, asks)
        return self._delegations.begin(request, name, into)

    # --- plain functions ----------------------------------------------------------------------------------------------

    def wait(self, work: Awaitable[T]) -> T:
        """For handlers that are plain functions: `answer = turn.wait(turn.ask("Which?"))`."""
        loop = self._run.loop
        if is_running_here(loop):
            if inspect.iscoroutine(work):
                work.close()
            raise LocalProtocolError("`turn.wait` would wait for itself here; use `await`")
        return asyncio.run_coroutine_threadsafe(_result_of(work), loop).result()


def run_of(turn: Turn) -> Run:
    """The run behind a turn, for an adapter whose framework emits events of A2A itself."""
    return turn._run  # pyright: ignore[reportPrivateUsage]


def delegations_of(turn: Turn) -> Delegations:
    """The delegations of a turn, for a program that gives some of them up while it goes on."""
    return turn._delegations  # pyright: ignore[reportPrivateUsage]


async def _result_of(work: Awaitable[T]) -> T:
    return await work
