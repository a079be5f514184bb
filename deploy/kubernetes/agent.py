"""The agent that these manifests serve until you replace it: it counts, so that a rolling restart can be watched."""

from parley import Agent

agent = Agent("Counter", description="Counts, one number a second.")


@agent.on_message
async def count(turn):
    for number in range(1, 31):
        await turn.sleep(1)
        yield f"{number} "
