"""CrewAI's questions go to the caller, and never to the terminal: reviews of drafts, `Flow.ask` and `@human_feedback`.

CrewAI asks in the middle of its work. `ask` returns the answer if there is one, else it ends the run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from crewai.core.providers.human_input import SyncHumanInputProvider
from crewai.flow.async_feedback.providers import ConsoleProvider

ACCEPTED = {"", "ok", "okay", "yes", "accept", "accepted", "approve", "approved", "good", "fine"}
"""Answers that leave a draft as it is."""

asking: ContextVar[Callable[[str], str] | None] = ContextVar("parley_crewai_asking", default=None)
"""How the run that a thread belongs to asks its caller."""


class DraftReview(SyncHumanInputProvider):
    """Has the caller review the results of tasks with `human_input=True`."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask

    def handle_feedback(self, formatted_answer: Any, context: Any) -> Any:
        """Ask until the caller accepts the draft."""
        while feedback := self._feedback(formatted_answer):
            context.messages.append(context._format_feedback_message(feedback))
            formatted_answer = context._invoke_loop()
        return formatted_answer

    async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
        """The same for a crew that runs in an event loop."""
        while feedback := self._feedback(formatted_answer):
            context.messages.append(context._format_feedback_message(feedback))
            formatted_answer = await context._ainvoke_loop()
        return formatted_answer

    def _feedback(self, draft: Any) -> str:
        text = self._get_output_string(draft)
        answer = self._ask(f"{text}\n\nAnswer ok to accept this result, or say what to change.")
        return "" if answer.strip().rstrip(".!").casefold() in ACCEPTED else answer


class CallerProvider(ConsoleProvider):
    """Has the caller answer `Flow.ask` and `@human_feedback`. Flows that are not served ask on the terminal."""

    def request_input(self, message: str, flow: Any, metadata: dict[str, Any] | None = None) -> str | None:
        """The answer to `Flow.ask`."""
        ask = asking.get()
        return super().request_input(message, flow, metadata) if ask is None else ask(message)

    def request_feedback(self, context: Any, flow: Any) -> str:
        """The feedback on a method's result."""
        ask = asking.get()
        if ask is None:
            return super().request_feedback(context, flow)
        outcomes = f"\n\nPossible outcomes: {', '.join(context.emit)}." if context.emit else ""
        return ask(f"{context.method_output}\n\n{context.message}{outcomes}")
