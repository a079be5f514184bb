"""What a model says to the caller, found in all that it says: agents may be told to think aloud before they answer."""

from __future__ import annotations

FINAL_ANSWER = "Final Answer:"
"""What agents whose models do not call tools themselves are told to write before their answer."""


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
