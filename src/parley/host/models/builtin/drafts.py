"""The model `parley/drafts`: writes documents. Its first reply is a `/write` command, the second says what it wrote."""

from __future__ import annotations

from parley.host.models.builtin.document_requests import read_document_request
from parley.host.models.builtin.documents import content_of
from parley.host.models.builtin.references import question_of, refers_back, split_earlier
from parley.host.models.builtin.replies import failure_reason, single_line, without_commands, without_end_marker
from parley.host.models.model import ModelRequest

HELP = (
    "I write documents: notes, emails, reports, agendas, plans, lists and tables. "
    "For example: “draft a note about our release”, “write 'Buy milk' to todo.md” or "
    "“make a markdown table of name, age; Ann, 30”."
)

NOTHING_EARLIER = "There is no earlier result that I could write. Please put the text into the request, in quotes."


def reply(request: ModelRequest) -> str:
    """The command that writes the document; then, what was written."""
    message, earlier = split_earlier(question_of(request))
    document = read_document_request(message, earlier)
    if document is None:
        return NOTHING_EARLIER if refers_back(message) and not earlier else HELP
    path = single_line(document.path)
    content = without_end_marker(content_of(document), "/endwrite")
    results = [result for result in request.results if result.name == "write"]
    if not results:
        return f"/write {path}\n{content}\n/endwrite\n"
    if not results[-1].ok:
        return without_commands(f"I could not write {path}: {failure_reason(results[-1].body)}.")
    return f"Wrote {path} ({len(content.encode()):,} bytes)."
