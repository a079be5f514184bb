"""What models say to the caller, as it is said. If several speak at the same time, the first one is heard.

Agents may be told to think aloud before they answer; then only the answer is said. While a model speaks, no checkpoint
comes before that of the work in which it speaks: after a crash, unfinished work says everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar

from crewai.events.types.llm_events import LLMCallStartedEvent, LLMEventBase, LLMStreamChunkEvent

FINAL_ANSWER = "Final Answer:"
"""What agents whose models do not call tools themselves are told to write before their answer."""

_work: ContextVar[object] = ContextVar("parley_crewai_work", default=None)


class FinalAnswer:
    """The answer in what a model says, piece by piece."""

    def __init__(self, *, is_marked: bool = False) -> None:
        """`is_marked` says that the answer begins only where the model says so."""
        self.said = ""
        self._held = ""
        self._is_open = not is_marked

    def feed(self, chunk: str) -> str:
        """The part of the answer that is new. White space is held back until something follows it."""
        self._held += chunk
        if not self.said and FINAL_ANSWER in self._held:
            self._is_open, self._held = True, self._held.partition(FINAL_ANSWER)[2]
        if not self._is_open:
            return ""
        new = (self._held if self.said else self._held.lstrip()).rstrip()
        if new:
            self._held = self._held[len(self._held.rstrip()) :]
            self.said += new
        return new


class Speech:
    """What the models of one run say. `is_heard` decides whose words go to the caller."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.is_heard: Callable[[LLMEventBase], bool] = lambda event: False
        self.separator = ""
        """What stands between a text and the one before it, if no checkpoint separates them."""
        self._say = say
        self._answer = FinalAnswer()
        self._speaker: str | None = None
        self._owner: object = None
        self._end = Future[None]()

    @property
    def said(self) -> str:
        """What the last model that was heard has said."""
        return self._answer.said

    def note_said(self, text: str) -> None:
        """Know that a text was said before the run began again."""
        self._answer = FinalAnswer()
        self._answer.feed(text)

    @contextmanager
    def work(self) -> Iterator[Callable[[], bool]]:
        """Work that a checkpoint ends, such as a model call. The function tells whether something was said in it."""
        work = object()
        before = _work.set(work)
        try:
            yield lambda: self._owner is work and bool(self.said)
        finally:
            _work.reset(before)
            if self._owner is work:
                self._owner = self._speaker = None
                if not self._end.done():
                    self._end.set_result(None)

    @property
    def end_of_others(self) -> Future[None] | None:
        """The end of the work in which a model speaks, if it is not the work that this thread does."""
        return self._end if self._owner not in (None, _work.get()) else None

    def on_call(self, event: LLMCallStartedEvent) -> None:
        """A model is called. It is the one that is heard, until it has ended."""
        work = _work.get()
        if work is not None and self._owner in (None, work) and self._speaker is None and self.is_heard(event):
            if self._owner is None:
                self._owner, self._end = work, Future[None]()
            self._speaker = event.call_id
            self._answer = FinalAnswer(is_marked=FINAL_ANSWER in str(event.messages))

    def on_text(self, event: LLMStreamChunkEvent) -> None:
        """A model says something."""
        is_first = not self.said
        if self._speaker == event.call_id and event.tool_call is None and (new := self._answer.feed(event.chunk)):
            self._say(self.separator + new if is_first else new)
            self.separator = "\n\n"

    def on_end(self, call_id: str) -> None:
        """A model has said all."""
        if self._speaker == call_id:
            self._speaker = None
