"""What schemathesis shall check beside its own rules. It runs in the environment of schemathesis, not in ours.

Its own rules know statuses. These know our errors: a request that the document allows may be refused for what it is
about (no such task, a task that has ended), never for how it is spelled; and JSON-RPC says no with HTTP 200.
"""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation

SPELLING = {"JSON_PARSE", "INVALID_REQUEST", "INVALID_PARAMS"}
MEANING = {
    # A request that is spelled well may still say what cannot be.
    "$.pageToken": "the token of no page",
    "$.tenant": "a tenant with the name of a route",
    "$.message.contextId": "a task of another context",
    "$.message.metadata.skillId": "a skill that the agent has not",
}
MEANT = ("there is none with number", "A webhook's URL", "Invalid URL", "webhooks", "deeper than")


@schemathesis.check
def what_the_document_allows_is_understood(ctx: Any, response: Any, case: Any) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    error = _error(response)
    reason, path = _reason(error), _path(error)
    if reason in SPELLING and path not in MEANING and not any(word in str(error) for word in MEANT):
        raise AssertionError(f"The document allows it, but the server says {json.dumps(error)}")


@schemathesis.check
def what_the_document_forbids_is_refused(ctx: Any, response: Any, case: Any) -> None:
    if case.meta is None or case.operation.path != "/" or case.method != "POST":
        return
    body = case.meta.components.get(ParameterLocation.BODY)
    if body is not None and body.mode.is_negative and response.status_code == 200 and _error(response) is None:
        raise AssertionError(f"The document forbids it, but the server answers {response.text[:300]}")


def _error(response: Any) -> dict[str, Any] | None:
    text = response.text
    if response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        text = data[0] if data else "{}"
    try:
        value = json.loads(text)
    except ValueError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else None


def _reason(error: dict[str, Any] | None) -> str | None:
    if error is None:
        return None
    details = error.get("details") or error.get("data")
    first = details[0] if isinstance(details, list) and details else details
    return first.get("reason") if isinstance(first, dict) else None


def _path(error: dict[str, Any] | None) -> str | None:
    details = (error or {}).get("details") or (error or {}).get("data")
    if isinstance(details, dict):
        return details.get("path")
    for detail in details or ():
        for violation in detail.get("fieldViolations", ()):
            return f"$.{violation['field']}"
    return None
