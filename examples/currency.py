"""A conversation: the agent asks for what is missing, looks the rate up once, and streams its answer.

Say "100 USD in EUR"; or say "100 USD" and be asked. Between question and answer the process may be restarted.
"""

import re

from parley import Agent

PER_DOLLAR = {"USD": 1.0, "EUR": 0.92, "GBP": 0.79, "JPY": 150.0}

agent = Agent("Currency", description="Converts money.")


@agent.skill(tags=["fx"], examples=["100 USD in EUR", "100 USD"])
async def convert(turn):
    """Converts an amount from one currency into another."""
    said = re.search(r"([\d.]*\d) *([A-Z]{3})(?: (?:IN|TO) ([A-Z]{3}))?", turn.text.upper())
    if said is None:
        await turn.reject("Say an amount and a currency, such as 100 USD.")
    amount, source, target = float(said[1]), said[2], said[3]
    if source not in PER_DOLLAR:
        await turn.reject(f"I do not know {source}.")
    while target not in PER_DOLLAR:
        answer = await turn.ask(f"To which currency? I know {', '.join(PER_DOLLAR)}.")
        target = answer.text.strip().upper()
    rate = await turn.step("rate", fetch_rate, source, target)
    yield f"{amount:g} {source} "
    yield f"is {amount * rate:.2f} {target}."


def fetch_rate(source, target):
    """What one unit is worth; imagine a slow, paid service here, which must not be called twice."""
    return PER_DOLLAR[target] / PER_DOLLAR[source]
