"""Delegation: another agent's answer streams through, and its questions are put to our caller.

`parley serve examples/concierge.py examples/currency.py` serves both; an agent elsewhere is named by its URL.
"""

from parley import Agent

agent = Agent("Concierge", description="Leaves money to the agent that knows about it.")


@agent.on_message
async def relay(turn):
    yield turn.delegate("currency", turn.text)
