"""Model and tool calls that are not repeated: their results are recorded, and the same call gets the recorded one."""

from __future__ import annotations

from functools import wraps
from typing import Any

from crewai.agents.cache.cache_handler import CacheHandler
from crewai.llms.base_llm import BaseLLM

from parley.adapters.crewai.records import call_key, decode_answer, encode_answer, is_json, tool_key
from parley.adapters.crewai.run import CrewRun


def record_calls_of(run: CrewRun, llm: object) -> None:
    """Have a model stream, and each call of it recorded. The model must belong to this run alone."""
    if not isinstance(llm, BaseLLM):
        return
    llm.stream = True
    call = llm.call

    @wraps(call)
    def recorded(messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        kind = kwargs.get("response_model")
        key = call_key(llm.model, messages, tools, kind)
        if (known := run.finished.take(key)) is not None:
            if known["streamed"]:
                run.speech.note_said(str(known["answer"]))
            return decode_answer(known["answer"], kind)
        with run.speech.work() as is_streamed:
            answer = call(messages, tools, *args, **kwargs)
            if (encoded := encode_answer(answer)) is not None:
                run.checkpoint({"key": key, "answer": encoded, "streamed": is_streamed()})
            return answer

    llm.call = recorded  # type: ignore[method-assign]


class RecordedTools(CacheHandler):
    """Stands where CrewAI looks for the results of earlier tool calls: those of this run, before it was cut off.

    A crew's own cache works on behind it.
    """

    def __init__(self, run: CrewRun, own: CacheHandler | None) -> None:
        super().__init__()
        self._run, self._own = run, own

    def read(self, tool: str, input: str) -> Any | None:
        """The result of a call that is recorded."""
        known = self._run.finished.take(tool_key(tool, input))
        return known["result"] if known else self._own.read(tool, input) if self._own else None

    def add(self, tool: str, input: str, output: Any) -> None:
        """Record the result of a call. One that is not JSON cannot be recorded."""
        if self._own is not None:
            self._own.add(tool, input, output)
        if output is not None and is_json(output):
            self._run.checkpoint({"key": tool_key(tool, input), "result": output})
