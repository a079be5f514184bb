"""The smallest agent: it greets its caller."""

from parley import Agent

agent = Agent("Hello", description="Greets you.")
agent.on_message(lambda turn: f"Hello, {turn.text}!")
