"""What people read when a task waits for an authorization."""

from __future__ import annotations

from urllib.parse import urlsplit

from parley.network.addresses import is_loopback
from parley.protocol.authorization import AnswerWay, RequestedAuthorization
from parley.safe_text import printable_line


def describe_authorization(asked: RequestedAuthorization | None) -> str:
    """What an agent needs, in a sentence; the URL is in the agent's own text.

    `RequestedAuthorization("Bearer", scopes=("read",))` → "The agent needs a Bearer credential with the scope read."
    """
    if asked is None:
        return "The agent needs authentication."
    wanted = f"a {printable_line(asked.scheme)} credential"
    if asked.scopes:
        scopes = ", ".join(printable_line(scope) for scope in asked.scopes)
        wanted += f" with the scope{'s' if len(asked.scopes) > 1 else ''} {scopes}"
    if asked.answer is AnswerWay.CALLBACK:
        return f"The agent needs {wanted}. Open the URL in a browser; the task then goes on by itself."
    return f"The agent needs {wanted}."


def is_safe_to_open(url: str) -> bool:
    """Whether a browser may be sent to a URL that an agent has named: it is https, or http on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
