"""An agent that is called by agents of frameworks."""

from parley import Agent

agent = Agent("Echo", description="Repeats what it is told.")


@agent.on_message
async def echo(turn):
    return f"You said: {turn.text}"
