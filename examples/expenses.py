"""A form: the agent asks with the fields of a class, gets an object of it back, and refuses what is over its limit."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from parley import Agent

LIMIT = 500


@dataclass
class Claim:
    amount: Annotated[float, Meta(gt=0, title="Amount in EUR")]
    purpose: Annotated[str, Meta(min_length=3, title="What for")]


agent = Agent("Expenses", description="Takes expense claims.", output_modes=["application/json"])


@agent.skill(tags=["finance"], examples=["I want to claim my train ticket"])
async def claim(turn):
    """Files an expense claim of up to 500 EUR."""
    claim = await turn.ask("What did you spend?", form=Claim)
    if claim.amount > LIMIT:
        await turn.reject(f"{claim.amount:g} EUR is over the limit of {LIMIT} EUR.")
    number = await turn.step("book", book, claim.amount, claim.purpose)
    return {"claim": number, "amount": claim.amount, "purpose": claim.purpose}


def book(amount, purpose):
    """The number of the claim in the books."""
    return f"{purpose[:3].upper()}-{round(amount * 100)}"
