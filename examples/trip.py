"""All of it in one agent: it asks what it needs to know, plans day by day while you watch, and hands over a file.

Say "3 days in Lisbon"; or say "Rome" and be asked for how long. Stop the server in the middle and start it again: the
plan goes on with the day it was at.
"""

import asyncio
import csv
import io
import re

from parley import Agent, File

MOST_DAYS = 14
PAUSE = 0.5
"""Seconds that looking up a day takes."""

IDEAS = (
    ("the old town", "a market hall", 35),
    ("the largest museum", "a park by the water", 50),
    ("a day trip by train", "the harbour at night", 80),
)

agent = Agent("Trip planner", description="Plans short trips, with a budget.", output_modes=["text/plain", "text/csv"])


@agent.skill(tags=["travel"], examples=["3 days in Lisbon", "Rome"])
async def plan_trip(turn):
    """Plans a trip day by day and makes a budget for it."""
    said = re.search(r"(?:(\d+) *days? *(?:in|to)? *)?(.*)", turn.text.strip(), re.IGNORECASE)
    days, place = said[1], said[2].strip() or "Lisbon"
    while not (days and 1 <= int(days) <= MOST_DAYS):
        answer = await turn.ask(f"How many days in {place}? Up to {MOST_DAYS}.")
        days = (re.findall(r"\d+", answer.text) or [None])[0]
    plan, costs = turn.artifact("plan.md"), []
    await plan.write(f"# {days} days in {place}\n\n")
    for day in range(1, int(days) + 1):
        await turn.status(f"Looking up day {day} of {days}")
        morning, evening, cost = await turn.step(f"day {day}", look_up, place, day)
        costs.append((day, cost))
        await plan.write(f"## Day {day}\n\n")
        await plan.write(f"In the morning {morning}, ")
        await plan.write(f"in the evening {evening}.\n\n", last=day == int(days))
    yield File(budget(costs), "budget.csv")


async def look_up(place, day):
    """What there is to do; imagine a search and a model here, which must not be paid for twice."""
    await asyncio.sleep(PAUSE)
    return IDEAS[day % len(IDEAS)]


def budget(costs):
    table = io.StringIO()
    csv.writer(table).writerows([("day", "EUR"), *costs, ("total", sum(cost for _, cost in costs))])
    return table.getvalue().encode()
