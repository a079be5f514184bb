"""The model `parley/text`: counts, changes, sorts and searches a text that comes with the request."""

from __future__ import annotations

import re

from parley.host.models.builtin import text_operations as operations
from parley.host.models.builtin.quotes import find_quoted, unquoted
from parley.host.models.builtin.references import question_of, refers_back, split_earlier, with_line_breaks
from parley.host.models.builtin.replies import without_commands
from parley.host.models.model import ModelRequest

HELP = (
    "I work on text: count words, characters or lines; upper, lower or title case; reverse; sort or deduplicate lines; "
    "make a slug; extract emails, URLs or numbers; take the first words. "
    "For example: “count words in: to be or not to be”, “uppercase: hello” or “slug of ‘Hello, World!’”."
)
NO_TEXT = "Which text? Put it after a colon or in quotes, for example: “uppercase: hello”."

_IN = (
    r"(?:\s+(?:are|is))?(?:\s+there)?(?:\s+(?:in|of|from))?(?:\s+(?:the|this))?"
    r"(?:\s+(?:text|sentence|phrase|following))?"
)
_HOW_MANY = r"(?:count|number of|how many)\s+(?:the\s+|of\s+)*"
_TO = r"(?:(?:in|to|into|as)\s+)?(?:all\s+)?"
_OF = r"(?:\s+(?:of|for|from|in))?(?:\s+the)?(?:\s+(?:text|title|following|list))?"
_OPERATIONS: list[tuple[re.Pattern[str], operations.Operation]] = [
    (re.compile(pattern, re.IGNORECASE), operation)
    for pattern, operation in (
        (rf"{_HOW_MANY}words?{_IN}", operations.count_words),
        (rf"{_HOW_MANY}(?:characters?|chars|letters?){_IN}", operations.count_characters),
        (rf"{_HOW_MANY}lines?{_IN}", operations.count_lines),
        (rf"\bword count{_OF}", operations.count_words),
        (rf"\bhow long is{_OF}", operations.count_characters),
        (rf"{_TO}\b(?:upper\s?case|capitals?|capital letters|caps)\b{_OF}", operations.uppercase),
        (rf"{_TO}\b(?:lower\s?case|small letters)\b{_OF}", operations.lowercase),
        (rf"{_TO}\btitle\s?case\b{_OF}|\bcapitali[sz]e\b(?:\s+the words)?{_OF}", operations.title_case),
        (rf"\breverse\s+(?:the\s+)?(?:order\s+of\s+)?(?:the\s+)?words{_OF}", operations.reverse_words),
        (rf"\breverse\s+(?:the\s+)?(?:order\s+of\s+)?(?:the\s+)?lines{_OF}", operations.reverse_lines),
        (rf"\breversed?\b{_OF}|\bbackwards\b", operations.reverse),
        (rf"\bsort(?:ed)?\b(?:\s+(?:the|these))?(?:\s+(?:lines|words|items|list))?{_OF}", operations.sort_lines),
        (rf"\b(?:unique|distinct)\s+(?:lines|items){_OF}", operations.unique_lines),
        (
            rf"\b(?:remove\s+(?:the\s+)?duplicates?(?:\s+lines)?|dedup(?:licate)?(?:\s+lines)?){_OF}",
            operations.unique_lines,
        ),
        (rf"\b(?:make\s+)?(?:a\s+)?(?:url\s+)?(?:slug|slugify)\b{_OF}", operations.slug),
        (
            rf"\b(?:extract|find|list|get)\s+(?:all\s+)?(?:the\s+)?e-?mails?(?:\s+addresses)?{_OF}",
            operations.extract_emails,
        ),
        (rf"\b(?:extract|find|list|get)\s+(?:all\s+)?(?:the\s+)?(?:urls?|links?){_OF}", operations.extract_urls),
        (rf"\b(?:extract|find|list|get)\s+(?:all\s+)?(?:the\s+)?numbers?{_OF}", operations.extract_numbers),
        (rf"\bfirst\s+(?P<number>\d{{1,6}})\s+words?{_OF}", operations.first_words),
        (rf"\blast\s+(?P<number>\d{{1,6}})\s+words?{_OF}", operations.last_words),
        (rf"\bfirst\s+(?P<number>\d{{1,6}})\s+(?:characters?|letters?){_OF}", operations.first_characters),
        (rf"\bfirst\s+(?P<number>\d{{1,6}})\s+lines?{_OF}", operations.first_lines),
        (rf"\bcount\b{_OF}", operations.count_all),
    )
]
_HEAD = re.compile(r"(?P<head>[^:\n]{1,200}?)(?::(?=\s|$)|\n)(?P<text>.*)", re.DOTALL)
_LEAD = re.compile(
    r"^(?:(?:please|can you|could you|make|convert|put|turn|write|change|what is|what's|it|the)\b\s*)+", re.I
)
_SHORT = 200  # an instruction that is longer is text


def reply(request: ModelRequest) -> str:
    """The result of the operation that a request asks for."""
    message, earlier = split_earlier(question_of(request))
    message = with_line_breaks(message)
    if earlier and refers_back(message):
        found = _find(message)
        return without_commands(_run(found, earlier)) if found else HELP
    for head, text in _readings(message):
        found = _find(head)
        if found is not None:
            return without_commands(_run(found, text)) if text.strip() else NO_TEXT
    return without_commands(_inline(message[: _SHORT * 20])) if message.strip() else HELP


def _readings(message: str) -> list[tuple[str, str]]:
    """The ways to read the message as an instruction and a text that is set off from it."""
    readings: list[tuple[str, str]] = []
    head = _HEAD.match(message)
    if head is not None:
        readings.append((head["head"], head["text"].strip()))
    quoted = find_quoted(message)
    if quoted is not None and quoted[0] <= _SHORT:
        start, end = quoted
        readings.append((message[:start] + message[end : end + _SHORT], message[start + 1 : end - 1]))
    return readings


def _inline(message: str) -> str:
    """The result for a text that follows or precedes the instruction: `uppercase hello`, `hello in uppercase`."""
    found = _find(message)
    if found is None:
        return HELP
    match, _ = found
    text = message[match.end() :].strip(" ?.!") or _LEAD.sub("", message[: match.start()].strip())
    return _run(found, text) if text else NO_TEXT


def _find(instruction: str) -> tuple[re.Match[str], operations.Operation] | None:
    for pattern, operation in _OPERATIONS:
        found = pattern.search(instruction)
        if found is not None:
            return found, operation
    return None


def _run(found: tuple[re.Match[str], operations.Operation], text: str) -> str:
    match, operation = found
    number = match.groupdict().get("number")
    return operation(unquoted(text), int(number) if number else 0) or "The result is empty."
