"""What the events of google-adk say, in pieces, each text once.

With streaming, partial events are increments, and an event that is not partial repeats their whole text. Agents that
work side by side would mix their words: one of them is streamed, and what the others say follows when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.adk.events.event import Event
from google.adk.workflow import BaseNode

from parley.adapters.adapter import Output, Piece, tool_call
from parley.adapters.durable_run import SEPARATOR
from parley.adapters.google_adk.parts import files_of_event, result_part, structured_part, text_of_event

INTERNAL_CALLS = ("adk_request_", "set_model_response")
"""How the names of calls begin that are questions or results, and no work of a tool."""


class Narration:
    """The pieces of a run, which follow the recorded events of its task."""

    def __init__(self, nodes: Sequence[BaseNode], recorded: Sequence[Event]) -> None:
        self._with_schema = {node.name for node in nodes if getattr(node, "output_schema", None)}
        self._asked = {id for event in recorded for id in event.long_running_tool_ids or ()}
        self._has_spoken = False
        self._speaker: object = None
        self._streamed = ""
        self._held_back: set[object] = set()
        self._waiting = ""

    def pieces(self, event: Event) -> Iterator[Piece]:
        """What an event says: text, data, files, tool calls."""
        text = text_of_event(event)
        if event.author in self._with_schema and not event.get_function_calls():
            if text and not event.partial:
                yield Output((structured_part(text),))
        elif said := self._hear(event, text):
            yield said
        if event.partial:
            return
        self._asked |= event.long_running_tool_ids or set()
        if files := files_of_event(event):
            yield Output(tuple(files))
        for call in event.get_function_calls():
            if not str(call.name).startswith(INTERNAL_CALLS):
                yield tool_call(str(call.name), call.args)
        if event.actions.skip_summarization and not event.actions.requested_tool_confirmations:
            results = [one for one in event.get_function_responses() if one.id not in self._asked]
            yield from [Output((result_part(one.response),)) for one in results if one.response != {"result": None}]
        if _has_result(event):
            yield Output((result_part(event.output),))

    @property
    def is_mid_text(self) -> bool:
        """Whether a text has begun that has not ended, or waits."""
        return bool(self._speaker or self._held_back or self._waiting)

    def begin_segment(self) -> None:
        """Note a checkpoint: what follows it is set apart from what was said before it, wherever it is shown."""
        self._has_spoken = False

    def rest(self) -> str:
        """What waits for an agent to end its text."""
        rest, self._waiting = self._waiting, ""
        return rest

    def _hear(self, event: Event, text: str) -> str:
        """What is to be said now."""
        speaker = (event.author, event.branch, event.node_info.path)
        if event.partial:
            if not text:
                return ""
            if speaker in self._held_back or self._speaker not in (None, speaker):
                self._held_back.add(speaker)
                return ""
            begins, self._speaker = self._speaker is None, speaker
            self._streamed += text
            return self._say(text, begins=begins)
        if self._speaker == speaker:
            is_repeated = text.startswith(self._streamed)
            rest = text.removeprefix(self._streamed)  # a callback may have made another text of it
            self._speaker, self._streamed = None, ""
            return self._say(rest, begins=not is_repeated) + self.rest()
        self._held_back.discard(speaker)
        said = self._say(text, begins=True)
        if self._speaker is not None:
            self._waiting, said = self._waiting + said, ""
        return said

    def _say(self, text: str, *, begins: bool) -> str:
        """A text as it follows what was said before: another message is another paragraph."""
        if not text:
            return ""
        gap = SEPARATOR if begins and self._has_spoken else ""
        self._has_spoken = True
        return gap + text


def _has_result(event: Event) -> bool:
    """Whether an event has the output of the whole workflow: the path of its root has one segment."""
    return event.output is not None and any("/" not in path for path in event.node_info.output_for or ())
