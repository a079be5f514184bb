"""What a request for a document says: where to, of which kind, with which title, and what it holds.

It reads words and knows nothing of how a document looks; that is in `documents`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from parley.host.models.builtin.quotes import find_quoted, unquoted
from parley.host.models.builtin.references import refers_back, with_line_breaks
from parley.host.models.builtin.replies import count_words
from parley.host.models.builtin.text_operations import slug

_NAME = r"[\w.][\w.-]{0,79}"
_PATH = re.compile(
    r"\b(?:and\s+(?:save|store|write|put)\s+(?:it|them|that|this)\s+)?(?:to|as|in|into|called|named|file)\s+"
    r"(?:(?:a|the)\s+)?(?:new\s+)?(?:markdown\s+)?(?:file\s+)?(?:called\s+|named\s+)?"
    rf"(?:[\"'`“](?P<quoted>[^\"'`”\n]{{1,120}}\.\w{{1,8}})[\"'`”]"
    rf"|(?P<plain>/?(?:{_NAME}/){{1,8}}{_NAME}|/?{_NAME}\.[A-Za-z0-9]{{1,8}})(?![\w/]))",
    re.IGNORECASE,
)
_HEAD, _END = 4000, 400  # where a path or a title is looked for: the text between may be long
_TITLE = re.compile(
    r"\b(?:titled|entitled|with (?:the )?title|title:)\s+"
    r"(?:[\"“'](?P<quoted>[^\"”\n]{1,200}?)[\"”']|(?P<words>[^,;:\n]{1,100}))",
    re.IGNORECASE,
)
_TABLE = re.compile(r"\b(?:markdown |csv )?table\b(?:\s+(?:of|with|from|for|out of))?\s*:?", re.IGNORECASE)
_LIST = re.compile(
    r"\b(?P<style>bullet(?:ed)? |numbered |check ?|to-?do |shopping )?list\b(?:\s+(?:of|with|from|for))?\s*:?",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\b(?P<kind>note|memo|email|e-mail|mail|letter|report|agenda|outline|plan|document|page|readme|article|proposal)\b"
    r"(?:\s+(?:to|for)\s+(?P<to>[^\W\d]{1,40}))?\s+(?:about|on|regarding|concerning|for|of)\s+(?P<topic>[^:\n]{1,400})"
    r"(?::\s*(?P<points>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_WRITE = re.compile(
    r"\b(?:write|save|store|put|note|draft|create|make)\b(?:\s+(?:down|the text|this text|this))?\s*:?\s*", re.I
)
_STYLES = {"numbered": "numbered", "check": "tasks", "todo": "tasks", "to-do": "tasks", "shopping": "tasks"}
_KINDS = {
    "email": "email",
    "e-mail": "email",
    "mail": "email",
    "letter": "email",
    "report": "report",
    "agenda": "agenda",
    "plan": "plan",
    "outline": "plan",
    "proposal": "plan",
}  # all others are notes


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A document to be written."""

    kind: str
    """text, table, list, numbered, tasks, or a form of `documents`: note, email, report, agenda, plan."""
    path: str = ""
    title: str = ""
    topic: str = ""
    to: str = ""
    """Who an email is for."""
    body: str = ""
    """The text, the rows, the items or the points; lines are separated by line breaks."""


def read_document_request(message: str, earlier: str) -> DocumentRequest | None:
    """What the message asks to be written, with the earlier results that it refers to; None if that is not clear."""
    message, path = _without_path(with_line_breaks(message).strip())
    message, title = _without_title(message)
    forms = [
        (found.start(), read(found, message, earlier))
        for pattern, read in ((_TABLE, _table), (_LIST, _list), (_ABOUT, _about))
        if (found := pattern.search(message)) is not None
    ]
    read = [request for _, request in sorted(forms, key=lambda form: form[0]) if request is not None]
    request = read[0] if read else _text(message, earlier, has_path=bool(path))
    if request is None:
        return None
    return replace(request, title=title, path=path or _default_path(title or request.topic, request.kind))


def _without_path(message: str) -> tuple[str, str]:
    """The message without the words that name the file, and its path."""
    for start in (max(0, len(message) - _END), 0):
        found = list(_PATH.finditer(message, start, start + _HEAD))
        if found:
            last = found[-1]
            return message[: last.start()].rstrip(" ,(") + message[last.end() :], last["quoted"] or last["plain"]
    return message, ""


def _without_title(message: str) -> tuple[str, str]:
    found = _TITLE.search(message, 0, _HEAD)
    if found is None:
        return message, ""
    return message[: found.start()].rstrip(" ,") + message[found.end() :], (found["quoted"] or found["words"]).strip()


def _table(found: re.Match[str], message: str, earlier: str) -> DocumentRequest | None:
    rows = unquoted(message[found.end() :]) or earlier
    return DocumentRequest("table", body=rows) if re.search(r"\w", rows) else None


def _list(found: re.Match[str], message: str, earlier: str) -> DocumentRequest | None:
    items = unquoted(message[found.end() :]) or earlier
    style = _STYLES.get((found["style"] or "").strip().lower(), "list")
    return DocumentRequest(style, body=items) if re.search(r"\w", items) else None


def _about(found: re.Match[str], message: str, earlier: str) -> DocumentRequest:
    kind = found["kind"].lower()
    kind = _KINDS.get(kind, "note")
    topic = " ".join(unquoted(found["topic"]).strip(" .!?,").split())
    if earlier and refers_back(topic):
        topic = "results"
    points = (found["points"] or message[found.end() :]).strip()
    return DocumentRequest(kind, topic=topic, to=found["to"] or "", body=f"{points}\n{earlier}".strip())


def _text(message: str, earlier: str, *, has_path: bool) -> DocumentRequest | None:
    order = _WRITE.search(message, 0, _HEAD)
    if order is None:
        return None
    quoted = find_quoted(message)
    rest = message[order.end() :].strip() if has_path or order[0].rstrip().endswith(":") else ""
    if refers_back(rest) and count_words(rest) <= 2:
        rest = ""  # it was meant to refer to an earlier result, and there is none
    text = message[quoted[0] + 1 : quoted[1] - 1] if quoted is not None else earlier or rest
    return DocumentRequest("text", body=text) if text else None


def _default_path(title: str, kind: str) -> str:
    return f"{slug(title)[:60].strip('-') or _FILE_NAMES.get(kind, kind)}.md"


_FILE_NAMES = {"text": "note", "numbered": "list"}
