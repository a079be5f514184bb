"""Two skills and no function for everything else, which foreign clients must reach without knowing of skill ids."""

from parley import Agent, Turn

agent = Agent("Desk", description="Plays with text.")


@agent.skill(tags=["loud"], examples=["shout hello"])
async def shout(turn: Turn) -> str:
    """Says it louder."""
    return turn.text.upper()


@agent.skill(id="mirror", name="Mirror writing", tags=["backwards"])
async def reverse(turn: Turn) -> str:
    """Says it backwards; greetings get a message and no task."""
    if turn.text == "a backwards greeting":
        await turn.reply("olleH")
    return turn.text[::-1]
