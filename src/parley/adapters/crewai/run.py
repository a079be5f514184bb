"""One run of CrewAI: its events become pieces, and what earlier runs of the task have finished is not repeated.

Finished model calls, tool calls, crew tasks and flow methods are checkpoints; a run that begins again takes their
results from there. A question ends the run; when it is answered, the run begins again and gets the answer.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from threading import get_ident
from typing import Any, TypeAlias

import msgspec
from crewai.core.providers.human_input import set_provider
from crewai.events.base_events import BaseEvent
from crewai.events.stream_context import add_stream_sink
from crewai.events.types import llm_events, tool_usage_events
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.execution import begin_execution

from parley.adapters import adapter as a
from parley.adapters.crewai.questions import DraftReview, asking
from parley.adapters.crewai.records import FinishedWork, digest, tool_key
from parley.adapters.crewai.run_thread import RunStopped, RunThread
from parley.adapters.crewai.speech import Speech
from parley.adapters.crewai.usage import RunUsage
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import RawPart

Kickoff: TypeAlias = Callable[[], Awaitable[Any]]
"""What a run calls; its result is the run's."""

_current: ContextVar[CrewRun | None] = ContextVar("parley_crew_run", default=None)


def send_file(data: bytes, name: str, media_type: str | None = None) -> None:
    """For tools: send a file to the caller, as an artifact of this name. Outside of a served run it does nothing."""
    if (run := _current.get()) is not None:
        run.thread.put(a.Output((RawPart(data, media_type, name),), artifact=name))


class CrewRun:
    """What a run has done before, and the pieces that it makes now."""

    def __init__(self, start: a.Start) -> None:
        self.result: Any = None
        self.state: JsonObject = {}
        states: Any = start.states
        self.thread = RunThread()
        self.finished = FinishedWork(states)
        self.usage = RunUsage(states)
        self.speech = Speech(self.thread.put)
        self.on_event: Callable[[Any, BaseEvent], None] = lambda source, event: None
        self.answers: JsonObject = {}
        for state in states:
            self.answers |= state.get("answers", {})
        self.answers |= start.answers
        self._asked: dict[str, int] = defaultdict(int)

    def pieces(self, kickoff: Kickoff, *, tracing: bool | None, verbose: bool) -> AsyncIterator[a.Piece]:
        """The pieces of a kickoff, whose result is then in `result`. Raises what CrewAI raises."""

        async def work() -> None:
            _current.set(self)
            add_stream_sink(self._on_event)
            asking.set(self.ask)
            set_provider(DraftReview(self.ask))
            set_suppress_console_output(not verbose)
            # Unless it is told otherwise, CrewAI asks on the terminal whether it may send a trace of the first run.
            is_unsaid = tracing is None and "CREWAI_TRACING_ENABLED" not in os.environ
            begin_execution(tracing=False if is_unsaid else tracing)
            self.result = await kickoff()

        return self.thread.pieces_of(work)

    def checkpoint(self, state: JsonObject) -> None:
        """Record what is done, and wait until it is durable. Other work in which a model speaks is recorded first."""
        if (end := self.speech.end_of_others) is not None:
            self.thread.wait_for(lambda: end)
        self.speech.separator = ""
        self.thread.put_and_wait(a.Checkpoint({**state, **self.usage.take_new()}))

    def ask(self, text: str) -> str:
        """The answer to a question. If there is none, the run is over."""
        name = digest(text)
        self._asked[name] += 1
        question = f"{name}-{self._asked[name]}"
        if question not in self.answers:
            self.thread.put(a.Pause((a.Question(question, text),), self.usage.take_new()))
            raise RunStopped
        answer = self.answers[question]
        return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()

    def _on_event(self, source: Any, event: BaseEvent) -> None:
        self.thread.check()
        match event:
            case llm_events.LLMStreamChunkEvent():
                self.speech.on_text(event)
            case llm_events.LLMCallStartedEvent():
                self.thread.calls.begin(event.call_id)
                self.speech.on_call(event)
            case llm_events.LLMCallCompletedEvent() | llm_events.LLMCallFailedEvent():
                self.thread.calls.end(event.call_id)
                self.speech.on_end(event.call_id)
                if isinstance(event, llm_events.LLMCallCompletedEvent):
                    self.usage.add(event.usage or {})
            case tool_usage_events.ToolUsageStartedEvent():
                self.thread.calls.begin(get_ident())
                if not self.finished.has(tool_key(event.tool_name, event.tool_args)):
                    self.thread.put(a.tool_call(event.tool_name, event.tool_args))
            case tool_usage_events.ToolUsageFinishedEvent() | tool_usage_events.ToolUsageErrorEvent():
                self.thread.calls.end(get_ident())
            case _:
                self.on_event(source, event)
