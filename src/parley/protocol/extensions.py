"""The URIs of the extensions that Parley itself defines; its servers declare them, and its clients look for them."""

from __future__ import annotations

CURSOR = "urn:parley:cursor:1"
"""Each event of a stream has its number in its metadata, and `last-event-id` resumes after it."""

IDEMPOTENT_SEND = "urn:parley:idempotent-send:1"
"""The same message twice is one task."""
