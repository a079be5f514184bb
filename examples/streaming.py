"""A model's answer, streamed as it comes. Killed in the middle, it is given again, and never spliced from two answers.

The model follows a script; put your own in its place: any function that yields text will do.
"""

from parley import Agent
from parley.testing import FakeModel

model = FakeModel(["Rome ", 0.3, "was ", 0.3, "not ", 0.3, "built ", 0.3, "in ", 0.3, "a ", 0.3, "day."])
agent = Agent("Proverbs", description="Streams what a model says.")


@agent.on_message
async def answer(turn):
    yield turn.stream("answer", model.stream, turn.text)
