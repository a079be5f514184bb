"""Most of it in one agent: it asks what it needs to know, streams what a model says, makes a file, and delegates.

Say "3 days in Lisbon"; or say "Rome" and be asked for how long. Stop the server in the middle and start it again: the
days that were planned stay as they are, and the day that was cut off is planned anew. In the end the agent in
currency.py, on the same server, converts the budget, and asks you to which currency.
"""

import asyncio
import csv
import io
import random
import re

from parley import Agent, File

MOST_DAYS = 14
COST = 60
"""What a day costs, in EUR."""
PAUSE = 0.1
"""Seconds that the model takes for a word."""

IDEAS = (
    "walk through the old town and have lunch in a market hall",
    "see the largest museum, with its garden",
    "take a boat along the river, past the mills",
    "go up the hill behind the station for the view",
    "listen to a concert in a church that you like the look of",
)

agent = Agent("Trip planner", description="Plans short trips, with a budget.", output_modes=["text/plain", "text/csv"])


@agent.skill(tags=["travel"], examples=["3 days in Lisbon", "Rome"])
async def plan_trip(turn):
    """Plans a trip day by day, with a budget in the currency of your choice."""
    said = re.search(r"(?:(\d+) *days? *(?:in|to)? *)?(.*)", turn.text.strip(), re.IGNORECASE)
    days, place = int(said[1] or 0), said[2].strip() or "Lisbon"
    while not 1 <= days <= MOST_DAYS:
        answer = await turn.ask(f"How many days in {place}? Up to {MOST_DAYS}.")
        days = int((re.findall(r"\d+", answer.text) or ["0"])[0])
    plan = turn.artifact("plan.md")
    await plan.write(f"# {place}\n\n")
    for day in range(1, days + 1):
        await turn.status(f"Planning day {day} of {days}")
        await plan.write(f"## Day {day}\n\n")
        await plan.write(turn.stream(f"day {day}", model, f"What to do in {place}?"))
        await plan.write("\n\n", last=day == days)
    yield File(budget(days), "budget.csv")
    yield turn.delegate("currency", f"{days * COST} EUR")


async def model(prompt):
    """Stands for a language model: it answers word by word, and differently each time."""
    morning, evening = random.sample(IDEAS, 2)
    for word in f"In the morning, {morning}. In the evening, {evening}.".split(" "):
        await asyncio.sleep(PAUSE)
        yield f"{word} "


def budget(days):
    table = io.StringIO()
    rows = [(day, COST) for day in range(1, days + 1)]
    csv.writer(table).writerows([("day", "EUR"), *rows, ("total", days * COST)])
    return table.getvalue().encode()
