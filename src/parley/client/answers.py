"""Answers to an agent's question in the form that its framework reads.

The specification lets a caller answer with any message. But an agent that asked by a tool needs data that names the
call: Strands 1.62 refuses every other message with InvalidParams, and google-adk 2.13 gives a text to its model as the
next message, while the tool goes on waiting. So one text or one piece of data becomes the answer to the one question of
such an agent. Anything else is sent as it is: with several questions, only the caller knows which of them it answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, TextPart
from parley.protocol.tasks import TaskState, TaskStatus

ADK_CALL = {"adk_type": "function_call", "adk_is_long_running": True}
"""The metadata of the part in which google-adk asks: `{"id": …, "name": …, "args": {…}}`."""

ADK_RESPONSE: JsonObject = {"adk_type": "function_response"}

ADK_NO_TEXT = ("adk_request_confirmation", "adk_request_credential")
"""Calls of google-adk that a text does not answer: it must say `{"confirmed": true}`, or carry credentials."""


def answer_parts(status: TaskStatus, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of an answer to an agent in this status."""
    questions = list(_questions(status))
    if len(questions) != 1 or len(parts) != 1:
        return parts
    match parts[0], questions[0]:
        case DataPart(data={"interruptResponse": _}), _:
            return parts
        case DataPart(metadata={"adk_type": _}), _:
            return parts
        case TextPart(), {"name": str(name)} if name in ADK_NO_TEXT:
            return parts
        case ((TextPart(text=answer) | DataPart(data=answer)), question):
            return (_answer(question, answer),)
        case _:
            return parts


def _questions(status: TaskStatus) -> Iterator[JsonObject]:
    """What an agent of google-adk or Strands waits for."""
    if status.state is not TaskState.INPUT_REQUIRED or status.message is None:
        return
    for part in status.message.parts:
        match part:
            case DataPart(data={"interrupts": list() as interrupts}):
                yield from (one for one in interrupts if isinstance(one, dict) and "interruptId" in one)
            case DataPart(data={"id": str(), "name": str()} as call) if ADK_CALL.items() <= part.metadata.items():
                yield call
            case _:
                pass


def _answer(question: JsonObject, answer: JsonValue) -> DataPart:
    """The answer to a question of Strands, which has an `interruptId`, or of google-adk."""
    if "interruptId" in question:
        return DataPart({"interruptResponse": {"interruptId": question["interruptId"], "response": answer}})
    response: JsonValue = answer if isinstance(answer, dict) else {"result": answer}
    return DataPart({"id": question["id"], "name": question["name"], "response": response}, metadata=ADK_RESPONSE)
