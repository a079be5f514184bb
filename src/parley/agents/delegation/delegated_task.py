"""One delegated task, from the first message to its result, over any number of runs.

The log keeps the other agent's task as soon as it is known. Every later run reads that task as it is now and goes on
from there: its events, its question, or its end. A question of the other agent is asked of our caller, which ends the
run; the run that has the answer sends it, unless the other agent has it already. If the author does not want questions,
one is a failure. While an agent of this server waits for an answer from elsewhere, our task waits as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from parley.agents.delegation.mirror import Mirror
from parley.agents.delegation.peers import OtherAgent, Peer, name_of
from parley.agents.delegation.result import DelegateFailedError, DelegateResult
from parley.agents.elsewhere import ask_elsewhere, asked_elsewhere
from parley.client.errors import ClientError, UnreachableError
from parley.client.questions import INTERRUPT, question_of
from parley.client.streams.streamed_task import StreamedTask
from parley.engine.reading.sizes import size_of
from parley.engine.runs.contexts import Context
from parley.protocol.authorization import (
    AnswerWay,
    decode_authorization,
    describing,
    encode_credential,
    refusal_in,
    stored_credential,
    without_description,
)
from parley.protocol.errors import A2AError, LocalProtocolError, ParleyError, PeerProtocolError, UnavailableError
from parley.protocol.events import ArtifactUpdate, StreamEvent
from parley.protocol.extensions import AUTHORIZATION_REQUEST, DELEGATION
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.messages import Message, Part, Role, TextPart, text_of
from parley.protocol.tasks import Task, TaskState, TaskStatus

if TYPE_CHECKING:
    from parley.agents.delegation.delegation import Delegations
    from parley.engine.runs.steps import StepInProgress

MOST_QUESTIONS = 100
"""Questions of one delegated task: more than any form has fields. An agent that asks for ever is stopped there."""

OUTAGE_SECONDS = 60.0
"""How long a delegation that began in an earlier run waits for the other agent: both may have been restarted."""

LONGEST_PAUSE_SECONDS = 5.0
"""Between two attempts during an outage; the first pause is a tenth of a second."""


class DelegateRequest(Struct, frozen=True):
    """What another agent is asked to do."""

    agent: OtherAgent
    parts: tuple[Part, ...]
    metadata: JsonObject
    reveals_task: bool = True
    """Whether the other agent is told the id of the task that delegates."""
    asks: bool = True
    """Whether its questions are asked of our caller; if not, a question fails the delegation."""


class DelegateProgress(Struct, omit_defaults=True):
    """How far a delegation has come, as the log keeps it."""

    agent: str
    context: str | None = None
    task: str | None = None
    """The other agent's task, as soon as it is known."""
    asked: int = 0
    """How many questions the other agent has asked."""
    question: str = ""
    """The id of the last one."""


class OpenTask(Struct, frozen=True):
    """A task of another agent that may be at work: its id, or the message that has perhaps begun it."""

    agent: OtherAgent
    task_id: str | None = None
    message_id: str = ""
    context_id: str | None = None
    message: Message | None = None
    """The message itself, if this run has sent it."""
    sent_at: float = 0.0
    """When that was, on the clock's monotonic scale."""


def first_message_id(idempotency_key: str, step_name: str, step_number: int) -> str:
    """The id of the message that begins another agent's task. What a log holds of a delegation suffices to make it."""
    return _message_id(idempotency_key, step_name, step_number, "")


def _message_id(idempotency_key: str, step_name: str, step_number: int, question: str) -> str:
    """The same in every run, so that a repeat is known as one."""
    named = f"{idempotency_key} {step_name} {step_number} {question}"
    return hashlib.blake2b(named.encode(), digest_size=16).hexdigest()


class _PeerError(Exception):
    """An error of the other agent, or of the connection to it."""

    def __init__(self, error: ParleyError) -> None:
        self.error = error


class DelegatedTask:
    """The other agent's task, as one run goes on with it."""

    def __init__(
        self, delegations: Delegations, step: StepInProgress, request: DelegateRequest, mirror: Mirror | None
    ) -> None:
        self._delegations = delegations
        self._run = delegations.run
        self._step = step
        self._request = request
        self._mirror = mirror
        self._is_resumed = step.progress is not None
        if self._is_resumed:
            self._progress = msgspec.convert(step.progress, DelegateProgress)
        else:
            self._progress = DelegateProgress(name_of(request.agent))
        self._has_sent = False
        """Whether the newest events are those after a message of this run, and not those of an older task."""
        self._is_local = False
        """Whether the other agent is on this server, whose word on who answers is taken."""
        self._seen = StreamedTask()
        self._sizes: dict[str, int] = {}

    async def result(self) -> Task | Message:
        """The other agent's completed task, or its message.

        Raises:
            DelegateFailedError: there is none, or the other agent asks something that our caller is not to be asked.
            Stopped: the other agent asks something, and our task waits for the answer.
        """
        await self._step.prepare()
        if self._mirror is not None:
            self._mirror.resume()
        answer: Message | None = None
        clock, failing_since, pause = self._run.engine.clock, None, 0.1
        while True:
            try:
                await self._exchange(answer)
            except _PeerError as failed:
                error, now = failed.error, clock.monotonic()
                failing_since = now if failing_since is None else failing_since
                is_temporary = isinstance(error, UnreachableError | UnavailableError)
                if not (is_temporary and self._is_resumed) or now - failing_since > OUTAGE_SECONDS:
                    raise self._failed(str(error)) from error
                await clock.sleep(pause)
                answer, pause = None, min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            if not is_interrupted(self._seen.state):
                return await self._finish()
            if await self._has_waited_with_it():
                answer, failing_since, pause = None, None, 0.1
                continue
            if not self._request.asks:
                raise self._unanswered()
            answer, failing_since, pause = await self._ask(), None, 0.1

    async def _exchange(self, answer: Message | None) -> None:
        """Send the next message, or read the task that is known; return when it has ended or waits."""
        peer, progress = await self._find_peer(), self._progress
        self._has_sent, self._is_local = answer is not None, peer.is_local
        if answer is not None:
            await self._read(peer.send(answer))
        elif progress.task is not None:
            await self._read(peer.follow(progress.task), is_subscription=True)
        else:
            if not self._is_resumed:
                progress.context = await self._context_for(peer)
                await self._note()  # a repeat must have the same context, to be the same message
            message = self._message(self._request.parts, "")
            self._delegations.note(self._step, self._begun_by(message))
            await self._read(peer.send(message))
            if progress.context is not None and not peer.is_local:
                await Context(self._run).keep_remote(progress.agent, progress.context)

    async def _find_peer(self) -> Peer:
        try:
            return await self._delegations.peers.find(self._request.agent, self._run.caller)
        except LocalProtocolError as error:
            if not self._is_resumed:
                raise
            # An agent of this server that was there before: servers may add agents while they run.
            raise _PeerError(UnavailableError(error.message)) from error
        except (ClientError, A2AError, PeerProtocolError) as error:
            raise _PeerError(error) from error

    async def _read(self, source: AsyncGenerator[StreamEvent], *, is_subscription: bool = False) -> None:
        """Read a stream to its end; of a subscription to a task that waits already, only the task."""
        async with aclosing(_events_of(source)) as events:
            async for event in events:
                self._seen.add(event)
                self._check_size(event)
                if self._progress.task is None and self._seen.task_id is not None:
                    await self._keep_task()
                if self._mirror is not None:
                    await self._mirror.show(event, self._seen)
                if is_subscription and isinstance(event, Task) and is_interrupted(event.status.state):
                    return

    async def _keep_task(self) -> None:
        """Keep the other agent's task and context, now that they are known."""
        progress, seen = self._progress, self._seen
        progress.task, progress.context = seen.task_id, seen.context_id or progress.context
        await self._note()
        self._is_resumed = True

    async def _context_for(self, peer: Peer) -> str | None:
        """The context in which this conversation continues at the other agent."""
        return self._run.context_id if peer.is_local else await Context(self._run).remote(self._progress.agent)

    async def _note(self) -> None:
        await self._step.note(msgspec.to_builtins(self._progress))
        if self._progress.task is not None:
            self._delegations.note(self._step, OpenTask(self._request.agent, self._progress.task))

    def _begun_by(self, message: Message) -> OpenTask:
        sent_at = self._run.engine.clock.monotonic()
        return OpenTask(self._request.agent, None, message.message_id, message.context_id, message, sent_at)

    def _message(self, parts: tuple[Part, ...], question: str, given: JsonObject | None = None) -> Message:
        """A message to the other agent: the first, or the answer to a question."""
        run, progress = self._run, self._progress
        message_id = _message_id(run.idempotency_key, self._step.name, self._step.number, question)
        task: JsonObject = {"taskId": run.key.task_id} if self._request.reveals_task else {}
        origin: JsonObject = {**task, "depth": self._delegations.depth + 1}
        metadata: JsonObject = {**self._request.metadata, **(given or {}), DELEGATION: origin}
        return Message(message_id, Role.USER, parts, progress.context, progress.task, metadata)

    async def _has_waited_with_it(self) -> bool:
        """Wait with the other agent for an answer that our caller does not give; False if it asks our caller.

        Raises:
            Stopped: our task waits. Another run continues it when the answer is there.
        """
        task = self._seen.task()
        asked = asked_elsewhere(task.status) if self._is_local else None
        if asked is None:
            return False
        id, task_id = asked
        await ask_elsewhere(self._run, id, _question_of(task), task_id=task_id)
        return True

    async def _ask(self) -> Message:
        """The next message to the other agent: the answer of our caller to its question."""
        progress, task = self._progress, self._seen.task()
        question = _id_of_question(task.status)
        if progress.asked == 0 or question != progress.question or self._has_sent:
            progress.asked, progress.question = progress.asked + 1, question
            if progress.asked > MOST_QUESTIONS:
                raise self._failed(f"It asks more than {MOST_QUESTIONS} questions")
            await self._note()
        name, parts = f"{self._step.name} {self._step.number} {progress.asked}", _question_of(task)
        wanted = decode_authorization(task.status)
        if wanted is None or wanted.answer is not AnswerWay.CREDENTIAL:  # a callback is nothing that our caller answers
            answer = await self._run.ask(task.status.state, parts, name=name)
        else:
            described = describing(self._run.agent_message(parts), wanted)
            answer = await self._run.ask(TaskState.AUTH_REQUIRED, described.parts, name=name, message=described)
        return self._message(answer.parts, str(progress.asked), await self._authorization_in(answer))

    async def _authorization_in(self, answer: Message) -> JsonObject | None:
        """The credential that our caller has given, which is passed on once, or why there is none."""
        id, refusal = stored_credential(answer), refusal_in(answer)
        if refusal is not None:
            return {AUTHORIZATION_REQUEST: {"error": refusal}}
        if id is None:
            return None
        given = await self._run.engine.credentials.take(self._run.key, id)
        # Without it, the member says that the text, which may be a mask, is not the credential either.
        return {AUTHORIZATION_REQUEST: {}} if given is None else encode_credential(given)

    async def _finish(self) -> Task | Message:
        """What the other agent has answered, if its task is completed."""
        seen, state = self._seen, self._seen.state
        if seen.task_id is None and seen.reply is not None:
            content: Task | Message = seen.reply
        else:
            content = structs.replace(seen.task(), history=())
            if not is_terminal(state):
                raise self._failed(f"It ended its stream while its task is {state}")
            if state is not TaskState.COMPLETED:
                message = content.status.message
                reason = text_of(message.parts) if message is not None else ""
                raise DelegateFailedError(name_of(self._request.agent), reason, state=state, task=content)
        if self._mirror is not None:
            await self._mirror.match(DelegateResult(content).parts)
        return content

    def _unanswered(self) -> DelegateFailedError:
        task = structs.replace(self._seen.task(), history=())
        question = question_of(task.status, task.artifacts) or text_of(_question_of(task))
        return DelegateFailedError(name_of(self._request.agent), question, state=task.status.state, task=task)

    def _failed(self, reason: str) -> DelegateFailedError:
        task = structs.replace(self._seen.task(), history=()) if self._seen.task_id is not None else None
        return DelegateFailedError(name_of(self._request.agent), reason, task=task)

    def _check_size(self, event: StreamEvent) -> None:
        match event:
            case ArtifactUpdate():
                name, size = event.artifact.artifact_id, size_of(event.artifact.parts)
                self._sizes[name] = size + (self._sizes.get(name, 0) if event.append else 0)
            case Task():
                self._sizes = {artifact.artifact_id: size_of(artifact.parts) for artifact in event.artifacts}
            case Message():
                self._sizes = {"": size_of(event.parts)}
            case _:
                return
        most = self._run.engine.limits.artifact_bytes
        if sum(self._sizes.values()) > most:
            self._seen = StreamedTask()  # the error must not hold what is too large
            raise self._failed(f"Its result has more than {most:,} bytes")


async def _events_of(source: AsyncGenerator[StreamEvent]) -> AsyncGenerator[StreamEvent]:
    """The events of the other agent, whose errors can be told from those of our own task."""
    try:
        async with aclosing(source):
            async for event in source:
                yield event
    except (ClientError, A2AError, PeerProtocolError) as error:
        raise _PeerError(error) from error


def _id_of_question(status: TaskStatus) -> str:
    """What tells a question from the one before it."""
    if status.message is not None and status.message.message_id:
        return status.message.message_id
    return status.timestamp.isoformat() if status.timestamp is not None else ""


def _question_of(task: Task) -> tuple[Part, ...]:
    """What the other agent asks."""
    if task.artifacts and task.artifacts[-1].name == INTERRUPT:
        return task.artifacts[-1].parts  # as langgraph-api asks; its status holds something else
    message = task.status.message
    return (without_description(message) if message is not None else ()) or (TextPart("Please answer."),)
