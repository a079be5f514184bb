"""The agents whose tasks are in the files of `tests/golden/stores`. What they do must stay as it is."""

import asyncio
from typing import Any

from parley import Agent, Turn


class Kitchen:
    """A cook, whose stove is cold until a test lights it, and a waiter who replies directly."""

    def __init__(self) -> None:
        self.is_hot = asyncio.Event()
        self.prices: list[str] = []
        """Which prices were looked up: each once, whatever happens."""
        self.cook = Agent("Cook")
        self.cook.on_message(self._cook)
        self.waiter = Agent("Waiter", replies_directly=True)
        self.waiter.on_message(self._wait)

    async def _cook(self, turn: Turn) -> Any:
        await turn.context.set("dish", turn.text)
        price = await turn.step("price", self._look_up, turn.text)
        yield f"{turn.text} costs {price}. "
        if turn.text == "soup":
            yield "Heating. "
            await self.is_hot.wait()
        if turn.text == "cake":
            answer = await turn.ask("For how many?")
            yield f"For {answer.text}. "
        if turn.text == "banquet":
            for number in range(150):
                yield f"{number} "
        if turn.text == "stone":
            await turn.reject("Stones are not cooked here.")
        if turn.text == "fire":
            raise RuntimeError("The kitchen burns")
        yield "Done."

    def _look_up(self, dish: str) -> int:
        self.prices.append(dish)
        return len(dish)

    async def _wait(self, turn: Turn) -> str:
        return f"Welcome, {turn.text}!"
