"""What CrewAI gets of a message: the template variables of a crew, a field of a flow's state, files, and the past."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from crewai.flow.flow import Flow
from pydantic import BaseModel

from parley.adapters import adapter as a
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonObject, JsonValue

USUAL_INPUTS = ("message", "input")
"""Template variables that get the text of a message, if there are several."""


@dataclass
class CrewRequest:
    """A message, and what was said before it."""

    text: str
    inputs: JsonObject
    files: dict[str, Any]
    messages: list[JsonObject] = field(default_factory=list[JsonObject])
    state: JsonObject = field(default_factory=dict[str, Any])

    @classmethod
    async def of(cls, start: a.Start) -> CrewRequest:
        """The message of a turn. Raises LocalProtocolError if it has files and CrewAI cannot read any."""
        turn, earlier = start.turn, start.conversation
        files = {file.name or f"file-{number}": await file.read() for number, file in enumerate(turn.files, 1)}
        if files:
            try:
                from crewai_files import File, FileBytes
            except ImportError as exc:
                raise LocalProtocolError("CrewAI reads no files without crewai[file-processing]") from exc
            files = {name: File(source=FileBytes(data=data, filename=name)) for name, data in files.items()}
        inputs, text = turn.data if isinstance(turn.data, dict) else {}, turn.text
        if turn.data is not None and not isinstance(turn.data, dict):
            text = f"{text}\n\n{msgspec.json.encode(turn.data).decode()}".strip()
        return cls(text, dict(inputs), files, **(earlier if isinstance(earlier, dict) else {}))

    def fill(self, name: str | None, variables: set[str], answered: JsonObject) -> None:
        """Add answers, and the text under a name, or under the one name that is left for it."""
        open_names = variables - set(self.inputs)
        names = [name] if name else [usual for usual in USUAL_INPUTS if usual in open_names]
        names = names or (list(open_names) if len(open_names) == 1 else [])
        self.inputs |= ({names[0]: self.text} if names and self.text else {}) | answered

    def conversation_after(self, answer: str, state: JsonObject) -> JsonValue:
        """What the next message of the conversation needs to know."""
        said = {"role": "user", "content": self.text or msgspec.json.encode(self.inputs).decode()}
        return {"messages": [*self.messages, said, {"role": "assistant", "content": answer}], "state": state}

    @property
    def history(self) -> str:
        """What was said before, as text."""
        return "\n".join(f"{message['role']}: {message['content']}" for message in self.messages)


def missing_question(missing: list[str], text: str) -> a.Question:
    """The question for variables of a crew that the message does not fill."""
    form: JsonObject = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in missing},
        "required": missing,
    }
    return a.Question("inputs", f"I need {', '.join(missing)} for this: {text}".strip(), form)


def field_of_state(flow: Flow[Any], input: str | None) -> str:
    """The field of a flow's state that gets the text of a message."""
    if not isinstance(flow.state, BaseModel):
        return input or "message"
    fields = {name: field for name, field in type(flow.state).model_fields.items() if name != "id"}
    texts = [name for name, field in fields.items() if field.annotation is str]
    for name in (input, "message", "input", *(texts if len(texts) == 1 else ())):
        if name in fields:
            return name
    raise LocalProtocolError(
        f"The state of {type(flow).__name__} has no field {input!r}."
        if input
        else f"Which field of the state of {type(flow).__name__} gets the text of a message? Call it `message`, "
        "or name it: adapt(flow, input='…')."
    )
