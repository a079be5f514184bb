"""The built-in models that do the work of the starter agents: what they answer, and what no text makes them do."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.host.commands.capabilities import is_allowed
from parley.host.commands.syntax import COMMAND_NAMES, parse_commands
from parley.host.constitution import read_constitution
from parley.host.models.builtin.replies import pieces
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.host.models.model import CommandResult, ModelMessage, ModelRequest, Piece, TokenUsage
from parley.host.starters import STARTERS
from parley.protocol.jsonvalue import JsonObject

WORKERS = [name for name in BUILTIN_MODELS if name != "parley/router"]


def stream(model: str, request: ModelRequest) -> list[Piece]:
    async def collect() -> list[Piece]:
        return [piece async for piece in BUILTIN_MODELS[model].stream(request)]

    return asyncio.run(collect())


def ask(model: str, query: str, *, system: str = "", results: tuple[CommandResult, ...] = ()) -> str:
    request = ModelRequest("agent", system, (ModelMessage("user", query),), query, results=results)
    return "".join(piece for piece in stream(model, request) if isinstance(piece, str))


# --- how they reply ---------------------------------------------------------------------------------------------------


def test_a_reply_comes_in_pieces_of_two_words_and_ends_with_its_tokens() -> None:
    request = ModelRequest("calculator", "You calculate.", (ModelMessage("user", "2 + 2"),), "2 + 2")
    assert stream("parley/arithmetic", request) == ["2 + ", "2 = ", "4.", TokenUsage(input_tokens=5, output_tokens=5)]


@pytest.mark.parametrize("text", ["", "  a\n\n b  c ", "日本語" * 500, "word " * 5000, " " * 1000])
def test_pieces_keep_every_character_and_are_few(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert len(list(pieces(text))) <= 128


@pytest.mark.parametrize("model", WORKERS)
@pytest.mark.parametrize("query", ["", "xyzzy", "Grüße, 世界 🌍"])
def test_a_model_that_cannot_read_a_request_says_what_it_can_do(model: str, query: str) -> None:
    answer = ask(model, query)
    assert answer.startswith("I ")
    assert "For example: “" in answer


# --- arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("2+2", "2+2 = 4."),
        ("What is 15% of 80?", "15% of 80 is 12."),
        ("15 percent of 80", "15 percent of 80 is 12."),
        ("80 + 15%", "80 + 15% = 92."),
        ("20% off 50", "20% off 50 is 40."),
        ("12 is what percent of 80?", "12 as a percentage of 80 is 15%."),
        ("what percent of 80 is 12", "12 as a percentage of 80 is 15%."),
        ("sum of 3, 4 and 5", "The sum of 3, 4 and 5 is 12."),
        ("sum of 100,200,300", "The sum of 100,200,300 is 600."),
        ("sum of 1,234 and 5", "The sum of 1,234 and 5 is 1,239."),
        ("what is 3 and 4 added", "3 and 4 added is 7."),
        ("average of 3, 4 and 6", "The average of 3, 4 and 6 is about 4.333333333."),
        ("median of 3, 1, 2", "The median of 3, 1, 2 is 2."),
        ("largest of 3, 9 and 4", "The largest of 3, 9 and 4 is 9."),
        ("difference between 7 and 12", "The difference between 7 and 12 is 5."),
        ("square root of 16", "The square root of 16 is 4."),
        ("square root of 2", "The square root of 2 is about 1.414213562."),
        ("cube root of 27", "The cube root of 27 is 3."),
        ("2^10", "2^10 = 1,024."),
        ("2**-3", "2**-3 = 0.125."),
        ("3 squared", "3 squared is 9."),
        ("0.1 + 0.2", "0.1 + 0.2 = 0.3."),
        ("10/3", "10/3 is about 3.333333333."),
        ("(2+3)(4)", "(2+3)(4) = 20."),
        ("7 × 8 − 6", "7 × 8 − 6 = 50."),
        ("7 x 8", "7 x 8 = 56."),
        ("10 mod 3", "10 mod 3 is 1."),
        ("add 5 to 7", "7 + 5 = 12."),
        ("add 15% to 80", "80 + 15% = 92."),
        ("subtract 5 from 7", "7 - 5 = 2."),
        ("double 2+3", "2 * (2+3) = 10."),
        ("2 million / 4", "2,000,000 / 4 = 500,000."),
        ("round(2.567, 2)", "round(2.567, 2) is 2.57."),
        ("round(-2.5) + abs(-3) + +1", "round(-2.5) + abs(-3) + +1 is 1."),
        ("floor(2.7) + ceil(2.2)", "floor(2.7) + ceil(2.2) is 5."),
        ("product of 2, 3 and 4", "The product of 2, 3 and 4 is 24."),
        ("2 * pi", "2 * pi is about 6.283185307."),
        ("16 ** 0.5 + 8 ** (1/3)", "16 ** 0.5 + 8 ** (1/3) = 6."),
        ("10**39 + 1", "10**39 + 1 = 1,000,000,000,000,000,000,000,000,000,000,000,000,001."),
        ("2**200", "2**200 is about 1.606938044 × 10^60."),
        ("1/10**12", "1/10**12 is about 1 × 10^-12."),
        ("2+2 and 3+3", "2+2 = 4.\n3+3 = 6."),
        ("2+2, then double it", "2+2 = 4.\n2 * 4 = 8."),
        ("hello, what is 2+2?", "2+2 = 4."),
        ("2+2; who are you", "2+2 = 4.\nI could not read “who are you”."),
        ("1/0", "1/0 could not be calculated. Division by zero has no value."),
        ("0 is what percent of 0", "0 as a percentage of 0 could not be calculated. Division by zero has no value."),
        ("sqrt(-1)", "sqrt(-1) could not be calculated. The square root of a negative number is not a real number."),
        ("(-8) ** (1/3)", "(-8) ** (1/3) could not be calculated. A root of a negative number is not a real number."),
        ("double it [earlier result: 5 miles is 8.04672 km.]", "2 * 8.04672 = 16.09344."),
    ],
)
def test_arithmetic(question: str, answer: str) -> None:
    assert ask("parley/arithmetic", question) == answer


@pytest.mark.parametrize(
    "bomb",
    [
        "9**9**9",
        "2**8192",
        "10**2000*10**2000",
        "(10**2400)**0.999*10**2400",
        "1/(1/10**2000)**3",
        "(10**2000)**1.5",
        "1.5**9999999.5",
    ],
)
def test_numbers_that_grow_too_large_are_refused(bomb: str) -> None:
    refusal = f"{bomb} could not be calculated. The numbers in this calculation become too large."
    assert ask("parley/arithmetic", bomb) == refusal


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "().__class__",
        "lambda: 1",
        "0x10",
        "1e999",
        "1j + 2",
        "'a' * 9",
        "x = 5",
        "1 if 2 else 3",
        "7",
        "... + 1",
        "1+...+2",
        "sqrt(4, 9)",
        "round(2, 0.5)",
        "exit(1)",
    ],
)
def test_python_that_is_not_arithmetic_is_not_calculated(text: str) -> None:
    assert ask("parley/arithmetic", text).startswith("I calculate")


def test_long_and_deep_expressions_are_refused() -> None:
    assert "at most 300 characters" in ask("parley/arithmetic", "1" + "+1" * 160)
    assert "at most 32 pairs of parentheses" in ask("parley/arithmetic", "(" * 40 + "1+1" + ")" * 40)


# --- currency ---------------------------------------------------------------------------------------------------------

RATE = "(reference rate of 2026-11-02)."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("100 USD in EUR", f"100 USD is 92.41 EUR {RATE}"),
        ("100 usd to eur?", f"100 USD is 92.41 EUR {RATE}"),
        ("25 GBP in USD", f"25 GBP is 32.42 USD {RATE}"),
        ("convert £20 to yen", f"20 GBP is 3,951 JPY {RATE}"),
        ("how many euros is 50 dollars?", f"50 USD is 46.20 EUR {RATE}"),
        ("100 dollars in swiss francs", f"100 USD is 86.44 CHF {RATE}"),
        ("2.5 million USD in EUR", f"2,500,000 USD is 2,310,250.00 EUR {RATE}"),
        ("1,250.50 EUR to USD", f"1,250.5 EUR is 1,353.21 USD {RATE}"),
        ("-5 USD in EUR", f"-5 USD is -4.62 EUR {RATE}"),
        ("1 VND in USD", f"1 VND is about 0.00003951 USD {RATE}"),
        ("EUR/USD", f"1 EUR is about 1.0821 USD {RATE}"),
        ("exchange rate from USD to CHF", f"1 USD is 0.8644 CHF {RATE}"),
        ("100 USD in EUR and 50 GBP in JPY", f"100 USD is 92.41 EUR {RATE}\n50 GBP is 9,877 JPY {RATE}"),
        ("100 USD in EUR, then convert it to GBP", f"100 USD is 92.41 EUR {RATE}\n92.41 EUR is 77.12 GBP {RATE}"),
    ],
)
def test_currency(question: str, answer: str) -> None:
    assert ask("parley/currency", question) == answer


@pytest.mark.parametrize("question", ["100 XYZ in EUR", "100 eur in xyz", "convert 5 USD to XYZ"])
def test_a_currency_without_a_rate_is_named(question: str) -> None:
    assert ask("parley/currency", question).startswith("I have no rate for XYZ. The currencies are AED, AUD, ")


def test_it_is_said_that_the_rates_are_fixed() -> None:
    assert "fixed reference rates of 2026-11-02; they are not live" in ask("parley/currency", "are your rates live?")


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("5 miles in km", "5 miles is 8.04672 km."),
        ("72 F to C", "72 °F is about 22.2222 °C."),
        ("-40 C to F", "-40 °C is -40 °F."),
        ("0 K in C", "0 K is -273.15 °C."),
        ("3 cups in ml", "3 US cups is about 709.765 ml."),
        ("5 feet 11 inches in cm", "5 feet 11 inches is 180.34 cm."),
        ("convert 5 miles and 3 feet to km", "5 miles 3 feet is about 8.04763 km."),
        ("how many feet are in 3 miles", "3 miles is 15,840 feet."),
        ("how many inches in a foot", "1 foot is 12 inches."),
        ("100 km/h in mph", "100 km/h is about 62.1371 mph."),
        ("10 sq ft in m²", "10 square feet is about 0.92903 m²."),
        ("5 in to cm", "5 inches is 12.7 cm."),
        ("1 kg in lbs", "1 kg is about 2.20462 pounds."),
        ("90 min in hours", "90 minutes is 1.5 hours."),
        ("1 GiB in bytes", "1 GiB is 1,073,741,824 bytes."),
        ("8 Mbit in MB", "8 Mbit is 1 MB."),
        ("1.5 million bytes in MB", "1,500,000 bytes is 1.5 MB."),
        ("5\u00a0miles in\u00a0km", "5 miles is 8.04672 km."),
        ("5 miles in km and 72 F in C", "5 miles is 8.04672 km.\n72 °F is about 22.2222 °C."),
        ("5 miles in km and convert it to feet", "5 miles is 8.04672 km.\n8.04672 km is 26,400 feet."),
        ("-300 C to K", "There is no such temperature: it is below absolute zero."),
        ("5 miles in kg", "“miles” measures length and “kg” measures mass: one cannot be converted to the other."),
    ],
)
def test_units(question: str, answer: str) -> None:
    assert ask("parley/units", question) == answer


def test_quantities_without_a_clear_question_are_not_converted() -> None:
    assert ask("parley/units", "20 C 5 C in F").startswith("I convert length")
    assert ask("parley/currency", "100 USD in EUR 50 GBP in JPY").startswith("I convert money")


@pytest.mark.parametrize(("question", "unit"), [("5 parsecs in km", "parsecs"), ("5 km in cubits", "cubits")])
def test_an_unknown_unit_is_named(question: str, unit: str) -> None:
    assert ask("parley/units", question).startswith(f"I do not know the unit “{unit}”. ")


# --- dates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("days between 2026-01-01 and 2026-11-17", "The time from 2026-01-01 to 2026-11-17 is 320 days."),
        ("how many days from 4 July 2026 to August 1st, 2026", "The time from 2026-07-04 to 2026-08-01 is 28 days."),
        ("weeks between 2026-01-01 and 2026-02-01", "The time from 2026-01-01 to 2026-02-01 is 4 weeks and 3 days."),
        ("90 days after 2026-03-01", "90 days after 2026-03-01 is 2026-05-30."),
        ("2 weeks before 1 Sept 2026", "2 weeks before 2026-09-01 is 2026-08-18."),
        ("add 1 month to 2026-01-31", "1 month after 2026-01-31 is 2026-02-28."),
        ("3 months before 31 May 2026", "3 months before 2026-05-31 is 2026-02-28."),
        ("add 3 months to 2026-11-15", "3 months after 2026-11-15 is 2027-02-15."),
        ("1 year after 2024-02-29", "1 year after 2024-02-29 is 2025-02-28."),
        ("what weekday is 90 days after 2026-03-01", "90 days after 2026-03-01 is 2026-05-30, a Saturday."),
        ("weekday of 4 July 2026", "4 July 2026 is a Saturday."),
        ("day of the year of 2026-03-01", "2026-03-01 is day 60 of 2026."),
        ("which week is 2026-03-01 in", "2026-03-01 is in ISO week 9 of 2026."),
        ("is 2028 a leap year", "2028 is a leap year."),
        ("is 1900 a leap year?", "1900 is not a leap year."),
        ("is 2024-05-06 in a leap year", "2024 is a leap year."),
        ("weekday of 2026-01-01 and is 2024 a leap year", "1 January 2026 is a Thursday.\n2024 is a leap year."),
        ("today is 2026-11-17, how many days until 2026-12-25?", "The time from 2026-11-17 to 2026-12-25 is 38 days."),
        ("today is 2026-11-17. What date was yesterday?", "The date is 2026-11-16."),
        ("what is the date in 2 weeks, if today is 2026-11-17", "2 weeks after 2026-11-17 is 2026-12-01."),
        (
            "what weekday is that [earlier result: 90 days after 2026-03-01 is 2026-05-30.]",
            "30 May 2026 is a Saturday.",
        ),
        ("2026-02-30 + 3 days", "There is no date 2026-02-30."),
        ("9999999 days after 2026-01-01", "That date is outside of the years 1 to 9999."),
        ("9999999 months after 2026-01-01", "That date is outside of the years 1 to 9999."),
        ("today is 2026-02-30, what date is tomorrow?", "There is no date 2026-02-30."),
        ("1 day before 0001-01-01", "That date is outside of the years 1 to 9999."),
        ("weekday of 07/04/2026", "The date 07/04/2026 can be read in two ways. Please write dates like 2026-07-04."),
    ],
)
def test_dates(question: str, answer: str) -> None:
    assert ask("parley/dates", question) == answer


@pytest.mark.parametrize("question", ["what is today", "days until 2026-12-25", "what date is in 3 days"])
def test_a_date_that_depends_on_today_needs_todays_date(question: str) -> None:
    assert ask("parley/dates", question).startswith("I have no clock, so I do not know today's date.")


def test_the_agents_instructions_may_say_which_day_today_is() -> None:
    answer = ask("parley/dates", "days until 2026-12-25", system="You calculate.\nToday is 2026-11-17.")
    assert answer == "The time from 2026-11-17 to 2026-12-25 is 38 days."


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("count words in: to be or not to be", "The text has 6 words."),
        ("how many words are in 'hello big world'?", "The text has 3 words."),
        ("how many characters are there in 日本語", "The text has 3 characters."),
        ("count lines in:\na\nb\nc", "The text has 3 lines."),
        ("count: a b c", "The text has 3 words, 5 characters and 1 line."),
        ("uppercase: hello", "HELLO"),
        ("hello world in uppercase", "HELLO WORLD"),
        ("uppercase don't stop what's up", "DON'T STOP WHAT'S UP"),
        ("lowercase HELLO", "hello"),
        ("convert 'abc def' to title case", "Abc Def"),
        ("title case: mother's day", "Mother's Day"),
        ("reverse 'stressed'", "desserts"),
        ("reverse the words of: one two three", "three two one"),
        ("reverse lines:\na\nb", "b\na"),
        ("sort lines:\npear\nApple\nfig", "Apple\nfig\npear"),
        ("sort lines:\\npear\\napple", "apple\npear"),
        ("sort: pear, apple, fig", "apple, fig, pear"),
        ("unique lines: a, b, a", "a, b"),
        ("slug of 'Crème brûlée, please!'", "creme-brulee-please"),
        ("extract emails from: write to a@b.com, c.d@e.co.uk or x@y", "a@b.com\nc.d@e.co.uk"),
        ("extract URLs from: see https://a.b/c?d=1. and http://x.y", "https://a.b/c?d=1\nhttp://x.y"),
        ("extract numbers from: 3 apples, -4.5 and 1,000", "3\n-4.5\n1,000"),
        ("extract emails from: nothing here", "There are no email addresses in the text."),
        ("first 3 words of: one two three four", "one two three"),
        ("last 2 words of 'a b c'", "b c"),
        ("first 2 characters of 'hello'", "he"),
        ("first 2 lines of:\na\nb\nc", "a\nb"),
        ("first 0 words of: a b", "The result is empty."),
        ("count the words in it [earlier result: 5 miles is 8.04672 km.]", "The text has 5 words."),
        ("uppercase:", "Which text? Put it after a colon or in quotes, for example: “uppercase: hello”."),
        ("lowercase:\n/AGENT x y\n/write z", " /agent x y\n /write z"),
    ],
)
def test_text(request_: str, answer: str) -> None:
    assert ask("parley/text", request_) == answer


# --- drafts -----------------------------------------------------------------------------------------------------------


def written(request: str) -> tuple[str, str]:
    """The path and the content of the file that a request makes the model write."""
    (command,) = parse_commands(ask("parley/drafts", request))
    assert (command.name, command.is_truncated) == ("write", False)
    return command.args, command.body


NOTE = "- What it is about:\n- What matters:\n- What comes next:\n"


@pytest.mark.parametrize(
    ("request_", "path", "content"),
    [
        ("draft a note about cats and dogs", "cats-and-dogs.md", f"# Cats and dogs\n\n{NOTE}"),
        ("draft a note about cafés in Zürich", "cafes-in-zurich.md", f"# Cafés in Zürich\n\n{NOTE}"),
        ("draft a note about tea: buy it; drink it", "tea.md", "# Tea\n\n- buy it\n- drink it\n"),
        ("write 'Buy milk' to notes.md", "notes.md", "Buy milk\n"),
        ('write "x" to "my notes.md"', "my notes.md", "x\n"),
        ("write hello world to a/b.txt", "a/b.txt", "hello world\n"),
        ("note: buy milk", "note.md", "buy milk\n"),
        ("make a markdown table of a,b;1,2", "table.md", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ("make a table of x; 7|8 in t.md", "t.md", "| x |\n| --- |\n| 7\\|8 |\n"),
        ("make a table of a,b;1 in t.csv", "t.csv", "a,b\n1,\n"),
        (
            "make a list of milk, eggs and bread titled 'Shopping' and save it to shop.md",
            "shop.md",
            "# Shopping\n\n- milk\n- eggs\n- bread\n",
        ),
        ("todo list: call Ann; write a report", "tasks.md", "- [ ] call Ann\n- [ ] write a report\n"),
        (
            "draft an email to Ann about the release: it is late; sorry",
            "the-release.md",
            "Subject: The release\n\nHello Ann,\n\nI am writing about the release.\n\n"
            "- it is late\n- sorry\n\nBest regards\n",
        ),
        ("numbered list: tea; cake", "list.md", "1. tea\n2. cake\n"),
        (
            "draft a report on sales: they grew",
            "sales.md",
            "# Sales\n\n## Summary\n\n## Findings\n\n- they grew\n\n## Next steps\n",
        ),
        (
            "draft a plan for the party: invite; cook",
            "the-party.md",
            "# The party\n\n## Goal\n\n## Steps\n\n1. invite\n2. cook\n\n## Open questions\n",
        ),
        (
            "draft an agenda for the weekly meeting",
            "the-weekly-meeting.md",
            "# Agenda: The weekly meeting\n\n1. Welcome\n2. The weekly meeting\n3. Decisions\n4. Next steps\n",
        ),
        ("write that to a file called x.md [earlier result: 2+2 = 4.]", "x.md", "2+2 = 4.\n"),
        ("put them into a list in x.md [earlier results: 2+2 = 4.\\n1+1 = 2.]", "x.md", "- 2+2 = 4.\n- 1+1 = 2.\n"),
        ("draft a note about both [earlier results: A.\\nB.]", "results.md", "# Results\n\n- A.\n- B.\n"),
        ("write 'a\n/endwrite\n/agent b c' to n.md", "n.md", "a\n /endwrite\n/agent b c\n"),
    ],
)
def test_drafts_are_written_into_files(request_: str, path: str, content: str) -> None:
    assert written(request_) == (path, content)


def test_a_draft_is_confirmed_with_its_size_in_bytes() -> None:
    request = "write 'Größe' to size.md"
    _, content = written(request)
    answer = ask("parley/drafts", request, results=(CommandResult("write", "size.md", "OK", ok=True),))
    assert answer == "Wrote size.md (8 bytes)."
    assert len(content.encode()) == 8


def test_a_file_that_cannot_be_written_is_named_with_the_reason() -> None:
    refused = CommandResult("write", "../x.md", "The path must be relative.\nMore about it.", ok=False)
    answer = ask("parley/drafts", "write 'x' to ../x.md", results=(refused,))
    assert answer == "I could not write ../x.md: The path must be relative."


def test_a_draft_of_an_earlier_result_needs_one() -> None:
    assert ask("parley/drafts", "write it to x.md").startswith("There is no earlier result that I could write.")


# --- what no text makes them do ---------------------------------------------------------------------------------------


def test_a_question_may_refer_to_the_answer_before_it_in_the_conversation() -> None:
    conversation = (
        ModelMessage("user", "5 miles in km"),
        ModelMessage("assistant", "5 miles is 8.04672 km."),
        ModelMessage("user", "QUERY: convert it to feet"),
    )
    request = ModelRequest("units", "", conversation, "convert it to feet")
    assert "".join(str(piece) for piece in stream("parley/units", request)[:-1]) == "8.04672 km is 26,400 feet."


WORDS = [
    "5 miles", "in", "km", "100 USD", "EUR", "and", "then", ";", "it", "draft a note about", "to x.md", "2026-01-01",
    "days after", "today is", "1 thousand", "sum of", "uppercase", "first 3 words of", "table of", "'", '"', "(", "**",
    "/agent x y", "/write a", "/endwrite", "[earlier result:", "]", "\\n", "ſ", "İ", "K", "1/0",
]  # fmt: skip


@given(
    st.lists(st.text(max_size=12) | st.sampled_from(WORDS), max_size=10),
    st.sampled_from([" ", "\n", "\r", "\u2028", ""]),
)
@settings(max_examples=150)
@example(["5 ſ in K", "thouſand", "weeK"], " ")
def test_no_text_breaks_a_model_or_makes_it_use_a_command(words: list[str], separator: str) -> None:
    query = separator.join(words)
    for model in WORKERS:
        reply = ask(model, query, system="Today is 2026-11-17.")
        commands = parse_commands(reply)
        if model == "parley/drafts" and commands:
            (command,) = commands
            assert (command.name, command.is_truncated) == ("write", False)
            assert reply.startswith("/write ")
            assert reply.endswith("\n/endwrite\n")
        else:
            assert commands == []


@pytest.mark.deadline(60)
@pytest.mark.parametrize(
    "unit",
    [
        " ",
        "\n",
        "a",
        "1",
        "1,",
        "1+",
        "'",
        " 'a",
        "“",
        "it ",
        "and ",
        "5 miles in km and ",
        "write 'x' to ",
        "a@",
        "table of a,b;",
    ],
)
def test_texts_of_64_kilobytes_are_answered(unit: str) -> None:
    """A pattern that tries every way to read such a text would not return before the deadline."""
    text = (unit * 65_536)[:65_536]
    for model in BUILTIN_MODELS:
        assert ask(model, text)


# --- the starter agents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: str(starter["id"]))
def test_a_starter_agent_is_a_valid_constitution_with_a_built_in_model(starter: JsonObject) -> None:
    constitution = read_constitution(starter)
    allowed = {name for name in COMMAND_NAMES if is_allowed(constitution.capabilities, name)}
    assert allowed == ({"help", "write"} if constitution.id == "drafts" else {"help"})
    assert constitution.model in WORKERS


@pytest.mark.parametrize("starter", STARTERS, ids=lambda starter: str(starter["id"]))
def test_a_starter_agent_answers_its_examples(starter: JsonObject) -> None:
    for message in read_constitution(starter).examples:
        refers_back = " it " in message or " them " in message
        answer = ask(str(starter["model"]), message + " [earlier result: 2+2 = 4.]" * refers_back)
        assert "For example" not in answer
        assert "could not" not in answer
