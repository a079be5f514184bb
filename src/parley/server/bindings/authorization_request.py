"""The extension that declares in the card how agents ask for a credential in the middle of a task.

Callers need not activate it: every demand is described in its metadata, and in a data part for callers that do not know
the extension.
"""

from __future__ import annotations

from parley.protocol import extensions
from parley.protocol.cards import AgentExtension

AUTHORIZATION_REQUEST = AgentExtension(
    extensions.AUTHORIZATION_REQUEST,
    description=(
        "The metadata of a question in the state auth-required says which credential is needed, and the metadata of "
        "the answer gives it; no reader of the task sees it. A data part with `credentials` gives it, too."
    ),
)
