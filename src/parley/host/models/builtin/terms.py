"""What a text is about, as terms that can be compared: the stems of its words, and the shapes of its values.

"100 USD in EUR" and "25 GBP in USD" share no word but have the same shapes: an amount of money, and a currency. Only
the beginning of a text counts: what follows is what the request is about, not what it wants.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from sys import intern

from parley.host.models.builtin.date_text import DATE
from parley.host.models.builtin.number_text import NUMBER
from parley.host.models.builtin.rates import CODES
from parley.host.models.builtin.unit_table import UNITS

SHAPE_WEIGHTS = {
    "<expression>": 1.2,
    "<money>": 0.8,
    "<quantity>": 0.8,
    "<percent>": 0.8,
    "<date>": 0.8,
    "<currency>": 0.7,
    "<unit>": 0.7,
    "<url>": 0.5,
    "<file>": 0.5,
    "<email>": 0.4,
    "<number>": 0.2,
    "<quoted>": 0.2,
}
"""How much a shape says about what is wanted; a word counts 1."""

_MOST_CHARACTERS = 600
_MOST_TERMS = 48

_STOP_WORDS = frozenset(
    {
        "a", "about", "agent", "agents", "all", "also", "am", "an", "and", "any", "are", "as", "ask", "at",
        "be", "been", "but", "by", "can", "chat", "could", "did", "do", "does", "for", "from", "get", "give",
        "had", "has", "have", "hello", "help", "her", "here", "hey", "hi", "him", "his", "how", "i", "if", "in",
        "into", "is", "it", "its", "just", "let", "like", "many", "may", "me", "mine", "more", "most", "much",
        "my", "need", "no", "not", "now", "of", "off", "on", "one", "or", "our", "out", "over", "please",
        "request", "shall", "she", "should", "show", "so", "some", "tell", "than", "thank", "thanks", "that",
        "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "up", "us",
        "use", "very", "via", "want", "was", "we", "were", "what", "what's", "when", "where", "which", "who",
        "why", "will", "with", "would", "you", "your",
    }
)  # fmt: skip
_SIGNS = "".join(name for name in CODES if not name[0].isalpha())
_AMBIGUOUS_UNITS = {"in", "min", "ms", "pt", "ha", "kn", "mi", "second"}
"""Units that are rather words of another kind, unless a number or a preposition precedes them."""
_WORD = r"[^\W\d_][\w'’]*"
_WITHOUT_DIGITS = (
    r"(?P<quoted>\"[^\"]*\"|“[^“”]*”|‘[^‘’]*’|(?<!\w)'[^']*'(?!\w))",
    r"(?P<url>https?://\S+)",
    r"(?P<email>[\w.+-]{1,64}@[\w-]+\.\w+)",
    r"(?P<file>[\w-]{1,64}\.(?:md|txt|csv|json|html|yaml|pdf)\b)",
    rf"(?P<currency>[{_SIGNS}])",
    r"(?P<expression>\bsqrt\b)",
    rf"(?P<word>(?:(?<=\bin )|(?<=\bto )|(?<=\binto ))°?{_WORD}(?:/[a-z]+)?|{_WORD})",
)
_WITH_DIGITS = (
    rf"(?P<date>{DATE})",
    rf"(?P<percent>{NUMBER}\s*(?:%|percent\b))",
    rf"(?P<money>[{_SIGNS}]\s*{NUMBER}|{NUMBER}\s*[{_SIGNS}])",
    rf"(?P<operation>(?:{NUMBER}|\))\s*(?:[+*/^×÷−-]|\*\*)\s*(?:{NUMBER}|\(|-))",
    rf"(?P<number>{NUMBER}(?:\s*(?P<counted>(?:sq |square |fl )?[^\W\d_°]*°?[^\W\d_]+(?:/[a-z]+|[²³])?))?)",
)
_TOKEN = re.compile("|".join(_WITHOUT_DIGITS), re.IGNORECASE)
_TOKEN_OR_VALUE = re.compile("|".join((*_WITHOUT_DIGITS[:4], *_WITH_DIGITS, *_WITHOUT_DIGITS[4:])), re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_BEFORE_TARGET = (["in"], ["to"], ["into"])
_CONVERSION = re.compile(r"\s+(?:to|in|into)\s", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s?$")
_HEAD = re.compile(r"[^:\n]*?:(?=\s|$)")


def terms_of(text: str) -> tuple[str, ...]:
    """The terms of the beginning of a text, in their order, each once. Shapes are in angle brackets."""
    text = unicodedata.normalize("NFKC", text[:_MOST_CHARACTERS])
    pattern = _TOKEN_OR_VALUE if _DIGIT.search(text) else _TOKEN
    terms: dict[str, None] = {}
    for found in pattern.finditer(text):
        terms |= dict.fromkeys(_terms_of_token(found, text))
    return tuple(terms)[:_MOST_TERMS]


def _terms_of_token(found: re.Match[str], text: str) -> list[str]:
    kind, token = found.lastgroup, found[0].casefold()
    if kind == "operation":
        return ["<expression>"]
    if kind == "counted" or kind == "number":
        name = (found["counted"] or "").casefold()
        return [*(_shapes_of_value(name, text[found.end() :]) or ["<number>"]), *_stems(name)]
    if kind == "word":
        is_target = text[max(0, found.start() - 8) : found.start()].casefold().split()[-1:] in _BEFORE_TARGET
        return [*_shapes_of_name(token, is_target=is_target), *_stems(token)]
    return [intern(f"<{kind}>")]


def _shapes_of_value(name: str, rest: str) -> list[str]:
    """The shapes of a number that is followed by a name: of money, or of a measurement. Pounds are both."""
    if name == "in" and not _CONVERSION.match(rest):
        return []
    shapes = ["<money>"] if name in CODES else []
    return [*shapes, "<quantity>"] if name in UNITS else shapes


def _shapes_of_name(name: str, *, is_target: bool) -> list[str]:
    """The shapes of a name without a number. Short names are units only if something is converted to them."""
    shapes = ["<currency>"] if name in CODES else []
    is_unit = name in UNITS and (is_target or (len(name) > 1 and name not in _AMBIGUOUS_UNITS))
    return [*shapes, "<unit>"] if is_unit else shapes


def head_of(text: str) -> str:
    """The text up to the colon that sets off what it is about; all of it if there is none."""
    found = _HEAD.match(text[:_MOST_CHARACTERS])
    return found[0] if found is not None else text[:_MOST_CHARACTERS]


def weight_of(term: str) -> float:
    """How much a term says about what is wanted. The name of a unit or currency says little more than its shape."""
    return 0.1 if term in _NAMES_OF_VALUES else SHAPE_WEIGHTS.get(term, 1.0)


def is_word(term: str) -> bool:
    """Whether a term is a word, and neither a shape nor the name of a unit or currency."""
    return not term.startswith("<") and term not in _NAMES_OF_VALUES


def _stems(text: str) -> list[str]:
    return [stem(word) for word in re.findall(_WORD, text) if word not in _STOP_WORDS]


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The word without the ending of a plural, or of a form of a verb."""
    word = _POSSESSIVE.sub("", word)
    for ending, shortest in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if len(word) >= shortest and word.endswith(ending) and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


_NAMES_OF_VALUES = frozenset(stem(name) for name in (*CODES, *UNITS) if len(name) > 1)
