"""What `parley/text` can do to a text. Each operation takes the text, and the number that was named with it, if any."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import TypeAlias

Operation: TypeAlias = Callable[[str, int], str]
"""A text and a number → the answer."""

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_URL = re.compile(r"https?://[^\s<>\"'“”)\]]+", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")


def count_words(text: str, _number: int) -> str:
    """How many words the text has."""
    return f"The text has {_counted(len(text.split()), 'word')}."


def count_characters(text: str, _number: int) -> str:
    """How many characters the text has, spaces included."""
    return f"The text has {_counted(len(text), 'character')}."


def count_lines(text: str, _number: int) -> str:
    """How many lines the text has."""
    return f"The text has {_counted(len(text.splitlines()), 'line')}."


def count_all(text: str, _number: int) -> str:
    """Words, characters and lines of the text."""
    words, lines = _counted(len(text.split()), "word"), _counted(len(text.splitlines()), "line")
    return f"The text has {words}, {_counted(len(text), 'character')} and {lines}."


def uppercase(text: str, _number: int) -> str:
    """The text in capital letters."""
    return text.upper()


def lowercase(text: str, _number: int) -> str:
    """The text in small letters."""
    return text.lower()


def title_case(text: str, _number: int) -> str:
    """The text with a capital letter at the start of each word."""
    return re.sub(r"[^\W\d_][\w'’]*", lambda word: word[0][0].upper() + word[0][1:].lower(), text)


def reverse(text: str, _number: int) -> str:
    """The characters of the text from the last to the first; accents stay on their letters."""
    return "".join(reversed(unicodedata.normalize("NFC", text)))


def reverse_words(text: str, _number: int) -> str:
    """The words of the text from the last to the first."""
    return " ".join(reversed(text.split()))


def reverse_lines(text: str, _number: int) -> str:
    """The lines of the text from the last to the first."""
    return _rearranged(text, lambda items: list(reversed(items)))


def sort_lines(text: str, _number: int) -> str:
    """The lines, or the items between commas, in alphabetical order."""
    return _rearranged(text, lambda items: sorted(items, key=str.casefold))


def unique_lines(text: str, _number: int) -> str:
    """The lines, or the items between commas, each of them once."""
    return _rearranged(text, lambda items: list(dict.fromkeys(items)))


def slug(text: str, _number: int = 0) -> str:
    """The text as a part of a URL: `Crème brûlée!` → `creme-brulee`."""
    ascii_text = "".join(
        character for character in unicodedata.normalize("NFKD", text) if not unicodedata.combining(character)
    )
    return re.sub(r"[\W_]+", "-", ascii_text.lower()).strip("-")


def extract_emails(text: str, _number: int) -> str:
    """The email addresses of the text, a line each."""
    return _listed(_EMAIL.findall(text), "email addresses")


def extract_urls(text: str, _number: int) -> str:
    """The URLs of the text, a line each."""
    return _listed((url.rstrip(".,;:!?") for url in _URL.findall(text)), "URLs")


def extract_numbers(text: str, _number: int) -> str:
    """The numbers of the text, a line each."""
    return _listed(_NUMBER.findall(text), "numbers")


def first_words(text: str, number: int) -> str:
    """So many words from the start."""
    return " ".join(text.split()[:number])


def last_words(text: str, number: int) -> str:
    """So many words from the end."""
    return " ".join(text.split()[-number:]) if number else ""


def first_characters(text: str, number: int) -> str:
    """So many characters from the start."""
    return text[:number]


def first_lines(text: str, number: int) -> str:
    """So many lines from the start."""
    return "\n".join(text.splitlines()[:number])


def _rearranged(text: str, rearrange: Callable[[list[str]], list[str]]) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and "," in text:
        return ", ".join(rearrange([item.strip() for item in text.split(",") if item.strip()]))
    return "\n".join(rearrange(lines))


def _listed(found: Iterable[str], name: str) -> str:
    items = list(dict.fromkeys(found))
    return "\n".join(items) if items else f"There are no {name} in the text."


def _counted(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"
