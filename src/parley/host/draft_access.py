"""What a message from outside may say of its origin: who has sent it, or whose draft is to work on it.

The name is in the message, so that it is known after a restart, when nothing is known of the caller any more. A caller
can only name itself there. The draft of an agent works for its author only.
"""

from __future__ import annotations

from msgspec import structs

from parley.agents.elsewhere import id_in_name
from parley.engine.caller import Caller
from parley.engine.runs.journal import Journal
from parley.host.access.principal import PRINCIPAL, principal_of
from parley.host.origin import EXTERNAL, ORIGIN, RunOrigin, metadata_of, origin_of
from parley.protocol.errors import PermissionDeniedError
from parley.protocol.messages import Message


def names_own_draft(message: Message, caller: Caller) -> bool:
    """Whether a message says of its origin that the caller's own draft is to work on it, and nothing else."""
    own = metadata_of(RunOrigin(draft_of=_name_of(caller)))
    return message.metadata.get(ORIGIN) == own[ORIGIN]


def names_itself(message: Message, caller: Caller) -> bool:
    """Whether a message says of its origin that the caller has sent it, and nothing else."""
    own = metadata_of(RunOrigin(principal=_name_of(caller)))
    return message.metadata.get(ORIGIN) == own[ORIGIN]


def naming_principal(message: Message, caller: Caller) -> Message:
    """A message that begins a task, with the name of the principal that sends it.

    In a shared store a task is durable before its run begins and can record that. Without the name, a crash in between
    would make the tenant itself the requester.
    """
    if message.task_id is not None or EXTERNAL not in caller.claims or PRINCIPAL not in caller.claims:
        return message
    if ORIGIN in message.metadata:  # it is refused, or names a draft and with it its author
        return message
    name = principal_of(caller.tenant, caller.scopes, caller.claims).name
    return structs.replace(message, metadata={**message.metadata, **metadata_of(RunOrigin(principal=name))})


def check_author(journal: Journal, caller: Caller) -> None:
    """Refuse callers from outside who send a message to a task on which the draft of another principal works.

    A decision of an approver is let through; what it may decide is looked at elsewhere.

    Raises:
        PermissionDeniedError: the draft is that of another principal.
    """
    author = origin_of(journal.messages[0]).draft_of if journal.messages else ""
    if not author or EXTERNAL not in caller.claims or author == _name_of(caller):
        return
    if id_in_name(journal.question_just_answered) is None:
        raise PermissionDeniedError("A draft works on this task, and only the author of the draft can call it.")


def _name_of(caller: Caller) -> str:
    return principal_of(caller.tenant, caller.scopes, caller.claims).name
