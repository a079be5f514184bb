"""What a turn says: as it comes, or, if a gate checks the answers of its agent, when the gate has let it pass."""

from __future__ import annotations

from parley.host.models.model import ModelMessage
from parley.host.orchestration.advisor import check_answer
from parley.host.orchestration.narration import PREFIX
from parley.host.orchestration.turn_context import TurnContext, TurnFailedError

INTERRUPTED = " … [interrupted]"
"""What readers see after a text that a message has interrupted."""


class ReplyText:
    """The visible text of a turn."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._narration = context.narration
        advisor = context.constitution.advisor
        self._most_redirects = advisor.max_redirects if advisor is not None and advisor.mode == "gate" else 0
        self._is_gated = advisor is not None and advisor.mode == "gate"
        """Whether text waits until the gate has let it pass."""
        self._held: list[str] = []
        self._redirects = self._most_redirects
        self._is_separated = True
        self.shown: list[str] = []
        """What readers got since the last model call began, in pieces."""

    def begin_call(self, number: int) -> None:
        """A model call begins. The text of a later call gets a line of its own."""
        self.shown.clear()
        self._is_separated = number == 1

    def begin_answer(self) -> None:
        """The answer to another message begins."""
        self._redirects = self._most_redirects

    async def tell(self, text: str) -> None:
        """Say some more."""
        if not text:
            return
        if not self._is_separated:
            text, self._is_separated = self._separated(text), True
        if self._is_gated:
            self._held.append(text)
        else:
            await self._show(text)

    async def _show(self, text: str) -> None:
        if text:
            self.shown.append(text)
            await self._narration.text(text)

    def _separated(self, text: str) -> str:
        said = self._narration.reply + "".join(self._held)
        return text if not said or said.endswith("\n\n") else f"\n{text}" if said.endswith("\n") else f"\n\n{text}"

    async def release(self) -> None:
        """Say what was held."""
        held, self._held = "".join(self._held), []
        await self._show(held)

    # --- the gate -----------------------------------------------------------------------------------------------------

    async def may_pass(self, number: int, reply: str, messages: list[ModelMessage], *, is_last: bool) -> bool:
        """Whether the answer of a model call is the last one; a gate may want another, and then tells the model so.

        Raises:
            TurnFailedError: the gate stops the agent.
        """
        if not self._is_gated:
            return True
        context = self._context
        decision = await check_answer(context, "".join(self._held), f"gate {number}")
        kind = decision.verdict
        if kind == "redirect" and (self._redirects == 0 or is_last):
            kind = "budget"
        about = {"detail": decision.text} if decision.text else {}
        flag = {"malformed": True} if decision.is_malformed else {}
        context.narration.note("advisor", agent=context.agent_id, stream_id=0, kind=f"gate_{kind}", **about, **flag)
        if kind == "halt":
            raise TurnFailedError(f"The advisor stopped the agent: {decision.text}", "advisor_halt")
        if kind == "redirect":
            self._redirects -= 1
            self._held.clear()
            advice = f"[ADVISOR]\n{decision.text}\n[END ADVISOR]\nAnswer the request again."
            messages += [ModelMessage("assistant", reply), ModelMessage("user", advice)]
            return False
        context.turn.annotate({f"{PREFIX}gate_approved": kind == "continue"})
        await self.release()
        return True

    # --- interruptions ------------------------------------------------------------------------------------------------

    async def interrupt(self) -> None:
        """End the text where a message has interrupted it. What an earlier run had said of it stays.

        `shown` is then all that readers got of the interrupted call.
        """
        self._held.clear()
        for piece in self._narration.text_left_over():
            await self._show(piece)
        if self.shown and self.shown[-1] != INTERRUPTED:  # an earlier run may have come so far
            await self._show(INTERRUPTED)

    async def repeat(self, shown: tuple[str, ...]) -> None:
        """Say again what an earlier run had said of a call until it was interrupted."""
        for piece in shown:
            await self._show(piece)
