"""A form: the agent asks with a JSON Schema, gets data back, and refuses what is over its limit.

A claim may also come as data with the first message; then nothing is asked.
"""

from parley import Agent

LIMIT = 500

CLAIM = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "title": "Amount in EUR"},
        "purpose": {"type": "string", "title": "What for"},
    },
    "required": ["amount", "purpose"],
}

agent = Agent("Expenses", description="Takes expense claims.", output_modes=["application/json"])


@agent.skill(tags=["finance"], examples=["I want to claim my train ticket"])
async def claim(turn):
    """Files an expense claim of up to 500 EUR."""
    form = turn.data or (await turn.ask("What did you spend?", schema=CLAIM)).data
    while not is_complete(form):
        form = (await turn.ask("I need an amount and a purpose.", schema=CLAIM)).data
    if form["amount"] > LIMIT:
        await turn.reject(f"{form['amount']} EUR is over the limit of {LIMIT} EUR.")
    number = await turn.step("book", book, form)
    return {"claim": number, **form}


def is_complete(form):
    match form:
        case {"amount": int() | float(), "purpose": str()}:
            return True
    return False


def book(form):
    """The number of the claim in the books."""
    return f"{form['purpose'][:3].upper()}-{round(form['amount'] * 100)}"
