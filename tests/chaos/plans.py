"""Plans: what a client asks the chaos agent to do, as the text of its message, and what a right answer says.

The answer is a pure function of the plan, so a checker knows the final text of a task without having seen its run.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One conversation. The numbers in `steps`, `ask` and `sleep` are those of the word before which it happens."""

    id: str
    words: int
    pause: float = 0.05
    """Seconds before each word."""
    steps: tuple[int, ...] = ()
    ask: int | None = None
    sleep: int | None = None
    hears: bool = False
    """Whether the agent waits at the end for one more message to the task at work."""
    is_endless: bool = False
    """Whether it works until it is canceled."""

    @property
    def text(self) -> str:
        """The message that carries it."""
        return msgspec.json.encode(self).decode()

    @property
    def answer(self) -> str:
        """What the client answers when it is asked."""
        return f"answer-{self.id}"

    @property
    def remark(self) -> str:
        """What the client says to the task at work."""
        return f"remark-{self.id}"

    def word(self, number: int) -> str:
        """One word of the answer."""
        return f"{self.id}.{number}{'!' if number in self.steps else ''} "

    @property
    def expected(self) -> str:
        """All that a completed task says."""
        pieces: list[str] = []
        for number in range(self.words):
            if number == self.ask:
                pieces.append(f"({self.answer}) ")
            pieces.append(self.word(number))
        if self.hears:
            pieces.append(f"[{self.remark}]")
        return "".join(pieces)


def read_plan(text: str) -> Plan:
    """The plan in a message."""
    return msgspec.json.decode(text, type=Plan)


def random_plan(random: Random, plan_id: str, *, kind: str) -> Plan:
    """A plan for a kind of conversation: `plain`, `ask`, `hear` or `cancel`."""
    words = random.randint(4, 16)
    steps = tuple(sorted(random.sample(range(words), random.randint(0, 2))))
    return Plan(
        id=plan_id,
        words=words,
        pause=random.choice((0.02, 0.1, 0.3)),
        steps=steps,
        ask=random.randrange(words) if kind == "ask" else None,
        sleep=random.randrange(words) if random.random() < 0.2 else None,
        hears=kind == "hear",
        is_endless=kind == "cancel",
    )
