"""One run of CrewAI, in a thread with an event loop of its own: CrewAI blocks, and its model calls are plain functions.

CrewAI's events come in the threads of the run and become pieces. Finished model calls, tool calls, crew tasks and flow
methods are states; a run that begins again takes their results from there. A question ends the run; when it is
answered, the run begins again and gets the answer. A run that is stopped raises `RunStopped` where it emits an event.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from functools import wraps
from threading import Event, Thread, current_thread, get_ident
from typing import Any, TypeAlias

import msgspec
from crewai.core.providers.human_input import set_provider
from crewai.events.base_events import BaseEvent
from crewai.events.stream_context import add_stream_sink
from crewai.events.types import llm_events, tool_usage_events
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.execution import begin_execution
from crewai.llms.base_llm import BaseLLM

from parley.adapters import adapter as a
from parley.adapters.crewai.questions import DraftReview, asking
from parley.adapters.crewai.records import call_key, decode_answer, digest, encode_answer, tool_key
from parley.adapters.crewai.speech import FINAL_ANSWER, FinalAnswer
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import RawPart

Kickoff: TypeAlias = Callable[[], Awaitable[Any]]
"""What a run calls; its result is the run's."""

_current: ContextVar[CrewRun | None] = ContextVar("parley_crew_run", default=None)


class RunStopped(BaseException):
    """The task was cancelled, or waits for an answer. CrewAI must not take it for an error, and try again."""


def send_file(data: bytes, name: str, media_type: str | None = None) -> None:
    """For tools: send a file to the caller, as an artifact of this name. Outside of a served run it does nothing."""
    if (run := _current.get()) is not None:
        run.put(a.Output((RawPart(data, media_type, name),), artifact=name))


class CrewRun:
    """What a run has done before, and the pieces that it makes now."""

    def __init__(self, start: a.Start) -> None:
        self.result: Any = None
        self.state: JsonObject = {}
        self.answers: JsonObject = {}
        self.usage = {"requests": 0, "inputTokens": 0, "outputTokens": 0}
        self.speaks: Callable[[llm_events.LLMStreamChunkEvent], bool] = lambda event: False
        self.on_event: Callable[[Any, BaseEvent], None] = lambda source, event: None
        self._done: dict[str, list[JsonObject]] = defaultdict(list)
        states: Any = start.states
        for state in states:
            self.answers |= state.get("answers", {})
            self.usage = {name: count + state.get("usage", {}).get(name, 0) for name, count in self.usage.items()}
            if "key" in state:
                self._done[state["key"]].append(state)
        self.answers |= start.answers
        self._told_usage = self.usage
        self._asked: dict[str, int] = defaultdict(int)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        self._queue: asyncio.Queue[tuple[a.Piece | BaseException | None, Future[None] | None]] = asyncio.Queue()
        self._cancel: Callable[[], object] = lambda: None
        self._is_stopped = False
        self._busy: set[Thread] = set()
        self._waiting: set[Future[Any]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._text = FinalAnswer()
        self._speaker: tuple[str, int] | None = None
        self._is_silent = Event()
        self._is_silent.set()
        self._has_spoken = False
        self._marked_calls: set[str] = set()

    @property
    def said(self) -> str:
        """What the last model call that was streamed has said."""
        return self._text.said

    @property
    def separator(self) -> str:
        """What stands between a text and the one before it, if no checkpoint separates them."""
        return "\n\n" if self._has_spoken else ""

    # --- in the loop of the server ------------------------------------------------------------------------------------

    async def pieces(self, kickoff: Kickoff, *, tracing: bool | None, verbose: bool) -> AsyncIterator[a.Piece]:
        """The pieces of a kickoff, whose result is then in `result`. Raises what CrewAI raises."""

        async def play() -> None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            self._cancel = lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel)
            _current.set(self)
            add_stream_sink(self._on_event)
            asking.set(self.ask)
            set_provider(DraftReview(self.ask))
            set_suppress_console_output(not verbose)
            # Unless it is told otherwise, CrewAI asks on the terminal whether it may send a trace of the first run.
            begin_execution(
                tracing=False if tracing is None and "CREWAI_TRACING_ENABLED" not in os.environ else tracing
            )
            self.result = await kickoff()

        def run() -> None:
            end: BaseException | None = None
            try:
                asyncio.run(play())
            except BaseException as error:  # it is raised where the pieces are read
                end = error
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._queue.put_nowait, (end, None))

        Thread(target=run, name="parley-crewai", daemon=True).start()
        has_ended = False
        try:
            while True:
                piece, seen = await self._queue.get()
                has_ended = piece is None or isinstance(piece, BaseException)
                if piece is None:
                    break
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
                if isinstance(piece, a.Pause):
                    break
                if seen is not None:
                    seen.set_result(None)
        finally:
            if not has_ended:
                self._stop()

    def _stop(self) -> None:
        self._is_stopped = True
        self._is_silent.set()
        for waiting in (*self._waiting, *self._tasks):
            waiting.cancel()
        for thread in tuple(self._busy):  # in a model call or a tool, which may emit nothing for long
            if thread.is_alive() and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(RunStopped))
        self._cancel()

    # --- in the threads of CrewAI -------------------------------------------------------------------------------------

    def put(self, piece: a.Piece, seen: Future[None] | None = None) -> None:
        """Have a piece yielded. Raises RunStopped if nothing is wanted any more."""
        if self._is_stopped:
            raise RunStopped
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (piece, seen))

    def checkpoint(self, state: JsonObject) -> None:
        """Record what is done, and wait until it is durable. What another thread says is said to its end first."""
        if self._speaker is not None and self._speaker[1] != get_ident():
            self._is_silent.wait()
        self._has_spoken = False
        seen = Future[None]()
        self.put(a.Checkpoint({**state, **self.new_usage()}), seen)
        if get_ident() != self._loop_thread:
            self._wait_for(seen)

    def take(self, key: str) -> JsonObject | None:
        """What was recorded under a key and not taken yet, oldest first."""
        return self._done[key].pop(0) if self._done[key] else None

    def is_streamed(self, text: str) -> bool:
        """Whether the caller has this text already."""
        return bool(text) and text.strip() == self._text.said

    def note_streamed(self, known: JsonObject, text: str) -> None:
        """Know that a text was streamed, if a state says so."""
        if known.get("streamed"):
            self._text = FinalAnswer()
            self._text.feed(text)

    def ask(self, text: str) -> str:
        """The answer to a question. If there is none, the run is over."""
        name = digest(text)
        self._asked[name] += 1
        question = f"{name}-{self._asked[name]}"
        if question not in self.answers:
            self.put(a.Pause((a.Question(question, text),), self.new_usage()))
            raise RunStopped
        answer = self.answers[question]
        return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()

    def new_usage(self) -> JsonObject:
        """The usage that is in no state yet, as a member of a state."""
        new = {name: count - self._told_usage[name] for name, count in self.usage.items()}
        self._told_usage = self.usage
        return {"usage": new} if any(new.values()) else {}

    def record_calls_of(self, llm: object) -> None:
        """Have each call of a model recorded. The model must belong to this run alone."""
        if not isinstance(llm, BaseLLM):
            return
        call = llm.call

        @wraps(call)
        def recorded(messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
            kind = kwargs.get("response_model")
            key = call_key(llm.model, messages, tools, kind)
            if (known := self.take(key)) is not None:
                self.note_streamed(known, str(known["answer"]))
                return decode_answer(known["answer"], kind)
            text = self._text
            try:
                answer = call(messages, tools, *args, **kwargs)
            finally:
                self._busy.discard(current_thread())
                self._end_speech_here()
            if (encoded := encode_answer(answer)) is not None:
                self.checkpoint({"key": key, "answer": encoded, "streamed": self._text is not text})
            return answer

        llm.call = recorded  # type: ignore[method-assign]

    def until_done(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """A coroutine function as a plain one. It runs in the loop of the server, where it can be cancelled."""

        async def tracked(*args: Any, **kwargs: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                if self._is_stopped:
                    raise asyncio.CancelledError
                return await function(*args, **kwargs)
            finally:
                self._tasks.discard(task)

        @wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            return self._wait_for(asyncio.run_coroutine_threadsafe(tracked(*args, **kwargs), self._loop))

        return plain

    def _wait_for(self, future: Future[Any]) -> Any:
        self._waiting.add(future)
        try:
            if self._is_stopped:
                future.cancel()
            return future.result()
        except CancelledError:
            raise RunStopped from None
        finally:
            self._waiting.discard(future)

    def _on_event(self, source: Any, event: BaseEvent) -> None:
        if self._is_stopped:
            raise RunStopped
        match event:
            case llm_events.LLMStreamChunkEvent():
                self._on_text(event)
            case llm_events.LLMCallStartedEvent():
                self._busy.add(current_thread())
                if FINAL_ANSWER in str(event.messages):
                    self._marked_calls.add(event.call_id)
            case llm_events.LLMCallCompletedEvent() | llm_events.LLMCallFailedEvent():
                self._busy.discard(current_thread())
                if self._speaker is not None and self._speaker[0] == event.call_id:
                    self._end_speech_here()
                if isinstance(event, llm_events.LLMCallCompletedEvent):
                    self._add_usage(event.usage or {})
            case tool_usage_events.ToolUsageStartedEvent():
                self._busy.add(current_thread())
                if not self._done[tool_key(event.tool_name, event.tool_args)]:
                    self.put(a.tool_call(event.tool_name, event.tool_args))
            case tool_usage_events.ToolUsageFinishedEvent() | tool_usage_events.ToolUsageErrorEvent():
                self._busy.discard(current_thread())
            case _:
                self.on_event(source, event)

    def _on_text(self, event: llm_events.LLMStreamChunkEvent) -> None:
        """Stream what a model says to the caller. If several speak at the same time, the first one is heard."""
        speaker = (event.call_id, get_ident())
        if event.tool_call is not None or self._speaker not in (None, speaker) or not self.speaks(event):
            return
        if self._speaker is None:
            self._speaker = speaker
            self._is_silent.clear()
            self._text = FinalAnswer(is_marked=event.call_id in self._marked_calls)
        is_first = not self._text.said
        if new := self._text.feed(event.chunk):
            self.put(self.separator + new if is_first else new)
            self._has_spoken = True

    def _end_speech_here(self) -> None:
        if self._speaker is not None and self._speaker[1] == get_ident():
            self._speaker = None
            self._is_silent.set()

    def _add_usage(self, used: dict[str, Any]) -> None:
        tokens = {
            "requests": 1,
            "inputTokens": used.get("prompt_tokens"),
            "outputTokens": used.get("completion_tokens"),
        }
        self.usage = {name: count + (tokens[name] or 0) for name, count in self.usage.items()}
