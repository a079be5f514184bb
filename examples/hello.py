"""The smallest agent: it greets whoever writes to it."""

from parley import Agent

agent = Agent("Hello", description="Greets you.")
agent.on_message(lambda turn: f"Hello, {turn.text}!")
