"""The agents that a new tenant gets: constitutions of agents that work without a provider's key.

Their models are built in. Each goal says what the agent does and what it does not, so that a model can choose by it;
`examples` are messages that the agent answers, by which `parley/router` chooses.
"""

from __future__ import annotations

from parley.protocol.jsonvalue import JsonObject

_NO_COMMANDS = ("/help",)
"""An empty list would allow every command; `/help` is always allowed."""


def _starter(
    id: str,
    name: str,
    role: str,
    goal: str,
    *,
    model: str,
    examples: tuple[str, ...],
    rules: tuple[str, ...] = (),
    capabilities: tuple[str, ...] = _NO_COMMANDS,
) -> JsonObject:
    return {
        "id": id,
        "name": name,
        "role": role,
        "goal": goal,
        "brevity": "ultra",
        "temperature": 0,
        "model": model,
        "rules": list(rules),
        "capabilities": list(capabilities),
        "examples": list(examples),
    }


STARTERS: tuple[JsonObject, ...] = (
    _starter(
        "calculator",
        "Calculator",
        "calculator",
        "Calculates numbers: sums, differences, products, percentages, powers, roots and averages. "
        "Does not convert units or currencies.",
        model="parley/arithmetic",
        rules=("Never guess a number: calculate it, or say why that is not possible.",),
        examples=(
            "15% of 80",
            "(2 + 3) * 4",
            "square root of 2",
            "sum of 3, 4 and 5",
            "average of 10, 20 and 60",
            "12 is what percent of 80",
            "add 5 to 7",
            "double 21",
            "calculate 7 times 6",
            "20% off 50",
        ),
    ),
    _starter(
        "currency",
        "Currency converter",
        "currency converter",
        "Converts amounts of money between currencies, at fixed reference rates that are not live.",
        model="parley/currency",
        rules=("Always give the date of the rate.",),
        examples=("100 USD in EUR", "25 GBP in USD", "convert £20 to yen", "exchange rate from USD to CHF"),
    ),
    _starter(
        "units",
        "Unit converter",
        "unit converter",
        "Converts measurements between units of length, mass, volume, temperature, speed, area, time and data.",
        model="parley/units",
        examples=(
            "5 miles in km",
            "72 F to C",
            "3 cups in ml",
            "convert 5 feet 11 inches to cm",
            "how many days are in 3 weeks",
        ),
    ),
    _starter(
        "dates",
        "Date calculator",
        "date calculator",
        "Calculates with calendar dates: days between two dates, a date some days, weeks, months or years before or "
        "after another, weekdays and leap years.",
        model="parley/dates",
        examples=(
            "days between 2026-01-01 and 2026-11-17",
            "90 days after 2026-03-01",
            "2 weeks before 1 May 2026",
            "weekday of 4 July 2026",
            "is 2028 a leap year",
            "add 3 months to 2026-01-31",
        ),
    ),
    _starter(
        "text",
        "Text tools",
        "text tool",
        "Counts, changes and searches text that is part of the message: words, characters and lines; upper, lower and "
        "title case; reversing, sorting, removing duplicates; slugs; extracting emails, URLs and numbers.",
        model="parley/text",
        examples=(
            "count words in: to be or not to be",
            "uppercase: hello world",
            "lowercase: HELLO",
            "title case: the lord of the rings",
            "reverse 'stressed'",
            "sort lines: pear, apple, fig",
            "unique lines: a, b, a",
            "slug of 'Hello, World!'",
            "slugify 'Hello, World!'",
            "extract emails from: ann@example.com or bob@example.com",
            "first 3 words of: one two three four",
            "how many characters are in 'hello'",
        ),
    ),
    _starter(
        "drafts",
        "Drafts",
        "writer of files",
        "Writes documents into files: notes, emails, reports, agendas, plans, lists and tables, or any given text.",
        model="parley/drafts",
        rules=("Say which file was written, and how large it is.",),
        capabilities=("/write",),
        examples=(
            "draft a note about our release",
            "write 'Buy milk' to todo.md",
            "make a markdown table of name, age",
            "make a list of milk, eggs and bread",
            "draft an email about the meeting",
            "save it to results.md",
            "put them into a file called results.md",
        ),
    ),
)
"""The starter agents as they would be sent to `POST /v1/agents`."""
