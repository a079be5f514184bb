"""The URIs of the extensions that Parley itself defines.

Servers declare in their cards what callers may use. Those that mark messages between agents only are not declared.
"""

from __future__ import annotations

CURSOR = "urn:parley:cursor:1"
"""Each event of a stream has its number in its metadata, and `last-event-id` resumes after it."""

IDEMPOTENT_SEND = "urn:parley:idempotent-send:1"
"""The same message twice is one task."""

DELEGATION = "urn:parley:delegation:1"
"""The member of a message's metadata that an agent sets which delegates a task to another: the id of its own task in
`taskId`, and how many agents have delegated to one another in `depth`."""

ANSWERED_ELSEWHERE = "urn:parley:answered-elsewhere:1"
"""The member of a question's metadata that says that not the caller answers it: what it is known by in `id`, and the
task that it belongs to in `taskId`."""

WHEN_BUSY = "urn:parley:when-busy:1"
"""The member of a message's metadata that says what a host does with the message while the task, or another task of the
same context, is at work: `queue`, `interrupt` or `refuse`."""

PRIORITY = "urn:parley:priority:1"
"""The member of a message's metadata that says how urgent the message is among those of its tenant: `low`, `normal`,
`high`, or a number from 0 to 9."""

WEBHOOK_AUTH = "urn:parley:webhook-auth:1"
"""How calls to webhooks can be authenticated: the names of `schemes` that a webhook's config may have, and for signed
tokens the URL of the public keys in `jwks` and the `issuer`."""

AUTHORIZATION_REQUEST = "urn:parley:authorization-request:1"
"""The member of metadata that asks for a credential, and gives it. In the message of an `auth-required` status it
describes what is needed: `scheme`, `url`, `scopes`, `answer`, `expiresAt`, and `text` if a message that is one text
without spaces is the credential, too. In the message that continues the task it holds `credential`, and `scheme` and
`expiresAt` if they are known; readers of the task see `masked` instead. Empty, it says that there is no credential."""
