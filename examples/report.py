"""Long work: the agent says how far it is, writes section by section, and after a restart goes on where it was.

The research for a section is a step: once it is done it is in the log, and no restart does it again.
"""

import asyncio

from parley import Agent

SECTIONS = ("Summary", "Background", "Findings", "Outlook")
PAUSE = 0.2
"""Seconds that research takes."""

agent = Agent("Reporter", description="Writes reports.")


@agent.skill(tags=["writing"], examples=["Tidal power"])
async def write_report(turn):
    """Writes a report on a topic."""
    report = turn.artifact("report.md")
    for number, title in enumerate(SECTIONS, start=1):
        await turn.status(f"{title} ({number} of {len(SECTIONS)})")
        sentences = await turn.step(title, research, title, turn.text)
        await report.write(f"## {title}\n\n")
        for sentence in sentences:
            await report.write(f"{sentence} ")
        await report.write("\n\n", last=number == len(SECTIONS))


async def research(title, topic):
    """What there is to say about a topic under a title."""
    await asyncio.sleep(PAUSE)
    return [f"This is the {title.lower()} of {topic}.", "More could be said.", "It was not."]
