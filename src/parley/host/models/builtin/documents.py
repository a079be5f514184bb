"""What documents look like: text, tables, lists, and the forms of notes, emails, reports, agendas and plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from parley.host.models.builtin.document_requests import DocumentRequest


def content_of(request: DocumentRequest) -> str:
    """The text of the document. It ends with a line break."""
    body = re.sub(r"\r\n?", "\n", request.body).strip("\n")
    heading = f"# {_line(request.title)}\n\n" if request.title and request.kind not in _FORMS else ""
    match request.kind:
        case "table":
            rows = _rows(body)
            content = _csv(rows) if request.path.lower().endswith(".csv") else heading + _table(rows)
        case "list":
            content = heading + _bullets(_items(body))
        case "tasks":
            content = heading + "\n".join(f"- [ ] {item}" for item in _items(body))
        case "numbered":
            content = heading + "\n".join(f"{number}. {item}" for number, item in enumerate(_items(body), 1))
        case kind if kind in _FORMS:
            topic = _line(request.title or request.topic)
            content = _FORMS[kind](request, topic[:1].upper() + topic[1:], _points(body))
        case _:
            content = heading + body
    return content.rstrip("\n") + "\n"


def _note(_request: DocumentRequest, title: str, points: list[str]) -> str:
    return f"# {title}\n\n" + _bullets(points or ["What it is about:", "What matters:", "What comes next:"])


def _email(request: DocumentRequest, title: str, points: list[str]) -> str:
    greeting = f"Hello {request.to}," if request.to else "Hello,"
    details = f"\n\n{_bullets(points)}" if points else ""
    return f"Subject: {title}\n\n{greeting}\n\nI am writing about {_line(request.topic)}.{details}\n\nBest regards\n"


def _report(_request: DocumentRequest, title: str, points: list[str]) -> str:
    findings = _bullets(points) if points else "- "
    return f"# {title}\n\n## Summary\n\n## Findings\n\n{findings}\n\n## Next steps\n"


def _agenda(_request: DocumentRequest, title: str, points: list[str]) -> str:
    items = ["Welcome", *(points or [title]), "Decisions", "Next steps"]
    return f"# Agenda: {title}\n\n" + "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def _plan(_request: DocumentRequest, title: str, points: list[str]) -> str:
    steps = points or ["Agree on the goal", "Do the work", "Check the result"]
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    return f"# {title}\n\n## Goal\n\n## Steps\n\n{numbered}\n\n## Open questions\n"


_FORMS: Mapping[str, Callable[[DocumentRequest, str, list[str]], str]] = {
    "note": _note,
    "email": _email,
    "report": _report,
    "agenda": _agenda,
    "plan": _plan,
}


def _items(text: str) -> list[str]:
    """The items of a list: its lines; otherwise what semicolons, or commas and the last `and`, separate."""
    if "\n" in text or ";" in text:
        return _points(text)
    *items, last = text.split(",")
    return [_line(item) for item in (*items, *re.split(r"\band\s", last)) if item.strip()]


def _points(text: str) -> list[str]:
    """The points of a note: its lines, or what semicolons separate. Commas are part of sentences."""
    parts = text.split("\n" if "\n" in text else ";")
    return [_line(part).removeprefix("- ") for part in parts if part.strip()]


MAX_CELLS = 10_000
"""Cells of a table up to which short rows are filled up."""


def _rows(text: str) -> list[list[str]]:
    """The cells of a table: rows are lines or end with semicolons, cells with bars, tabs or commas."""
    lines = [line for line in re.split(r"\n" if "\n" in text else ";", text) if line.strip()]
    separator = next((sign for sign in "|\t" if lines and sign in lines[0]), ",")
    rows = [[_line(cell) for cell in line.strip().strip("|").split(separator)] for line in lines]
    width = max(map(len, rows))
    if len(rows) * width > MAX_CELLS:  # one long row must not make all others as long
        return rows
    return [row + [""] * (width - len(row)) for row in rows]


def _table(rows: list[list[str]]) -> str:
    head, *others = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *others))


def _csv(rows: list[list[str]]) -> str:
    return "\n".join(",".join(_csv_cell(cell) for cell in row) for row in rows)


def _csv_cell(cell: str) -> str:
    quoted = cell.replace('"', '""')
    return f'"{quoted}"' if re.search(r'[",]', cell) else cell


def _bullets(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _line(text: str) -> str:
    return " ".join(text.split())
