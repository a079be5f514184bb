"""The rules of A2A that concern a server, each with its id, its versions, and what the specification says.

G1 is 1.0; G2 is 0.3, and 0.2 where it does not differ; G3 and A1 are the older releases. `unobservable` is the reason
why no caller can see whether a rule is kept: such a rule is always reported as undecided.

A rule of several sentences has a clause for each, `G1.15a` and `G1.15b`: a case tests one of them, and quotes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase

from parley.protocol.versions import Version

V0_1, V0_2, V0_3, V1_0 = Version


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    id: str
    says: str
    versions: tuple[Version, ...]
    unobservable: str | None = None


_SAYS: dict[str, str | tuple[str, ...]] = {
    # --- 1.0: send
    "G1.1": "A message to a task in a terminal state MUST be refused with UnsupportedOperation.",
    "G1.2": (
        "A message to a task that is unknown or not the caller's MUST be refused with TaskNotFound.",
        "Callers cannot choose the id of a new task.",
    ),
    "G1.3": "Task ids MUST be made by the agent, be unique, and be returned in the task.",
    "G1.4": (
        "A message with a task id and no context id takes the task's context.",
        "A task id and a context id that do not belong together MUST be refused.",
    ),
    "G1.5": (
        "A context id that the caller gives is kept or refused, never silently replaced.",
        "A context id that the agent makes MUST be returned.",
    ),
    "G1.6": "Tasks with one context id SHOULD be treated as one conversation.",
    "G1.7": "The answer to a message is a task or a message.",
    "G1.8": (
        "A send MUST wait for a terminal or interrupted state, unless the caller asks to return immediately.",
        "A send that is to return immediately MUST return once the task exists.",
    ),
    "G1.9": "Reading is idempotent. Whether a message that comes twice is one task is left to the agent.",
    "G1.10": "A part of a media type that neither the agent nor its skills accept is ContentTypeNotSupported.",
    "G1.11": "The output modes that the caller accepts SHOULD shape the output.",
    "G1.12": "Results SHOULD be artifacts, not messages.",
    "G1.13": "Agents SHOULD use the tasks that a message refers to.",
    "G1.14": "Once there is a task for an exchange, the answers are tasks.",
    # --- 1.0: history, get, list, cancel
    "G1.15": (
        "A server MUST NOT return more history than asked for.",
        "A negative history length is invalid, and MUST be refused.",
    ),
    "G1.16": "Reading an unknown task, or another's, MUST be TaskNotFound.",
    "G1.17": "A list MUST show only the tasks that the caller may see.",
    "G1.18": "A list MUST be sorted by the time of the status, newest first.",
    "G1.19": (
        "A list MUST use cursors.",
        "The page size of a list is from 1 to 100, 50 by default; another size is InvalidParams.",
        "A page token that the server did not make is InvalidParams.",
    ),
    "G1.20": "nextPageToken MUST always be there, empty on the last page; totalSize counts the matches before paging.",
    "G1.21": "Unless artifacts are asked for, the member MUST be absent from the tasks of a list.",
    "G1.22": (
        "Filters of a list combine with AND; the time is inclusive.",
        "An unknown status in a list's filter is InvalidParams.",
    ),
    "G1.23": (
        "Cancelling a finished task is TaskNotCancelable.",
        "Cancelling an unknown task is TaskNotFound.",
        "Cancelling returns the task if it succeeds.",
    ),
    # --- 1.0: streams
    "G1.24": "An agent whose card does not declare streaming MUST refuse both streaming operations with "
    "UnsupportedOperation.",
    "G1.25": "A stream MUST be exactly one message, or a task first and then its updates.",
    "G1.26": "A stream MUST close when its task reaches a terminal state.",
    "G1.27": "Events MUST be delivered in the order in which they were made.",
    "G1.28": (
        "Several streams of a task get the same events.",
        "Closing a stream MUST NOT touch the others or the task.",
    ),
    "G1.29": (
        "A subscription MUST begin with the current task.",
        "A subscription to a finished task is UnsupportedOperation.",
        "A subscription to an unknown task is TaskNotFound.",
    ),
    "G1.31": "A caller that goes away does not cancel the task.",
    # --- 1.0: push
    "G1.32": "An agent whose card does not declare push notifications MUST refuse all four operations with "
    "PushNotificationNotSupported.",
    "G1.33": "A webhook is returned with its id and MUST persist until the task ends or it is deleted; a task may have "
    "several.",
    "G1.34": (
        "A missing webhook is TaskNotFound.",
        "Deleting a webhook MUST be idempotent.",
        "A list of webhooks returns all.",
    ),
    "G1.35": "Webhooks MUST be called with what their configuration says, at least once for every update.",
    "G1.36": "Webhooks at loopback, private and link-local addresses SHOULD be refused.",
    # --- 1.0: extensions, versions, bindings
    "G1.38": "An extension is inactive unless the caller lists it.",
    "G1.39": (
        "Unknown extensions that a caller lists are ignored.",
        "Active extensions SHOULD be echoed.",
    ),
    "G1.40": "A call that does not list an extension which the card declares as required MUST be refused with "
    "ExtensionSupportRequired.",
    "G1.42": "Methods of extensions obey the same rules of authentication as the others.",
    "G1.43": (
        "A version is Major.Minor, and a patch number changes nothing.",
        "A version that is not offered MUST be refused with VersionNotSupported.",
    ),
    "G1.44": "All bindings of an agent MUST offer the operations of the specification, with equivalent results.",
    "G1.45": (
        "Unknown members SHOULD be ignored.",
        "Required members SHOULD be validated, and required lists not be empty.",
    ),
    "G1.46": "JSON names MUST be camelCase, enums the names of the protobuf, and times UTC with a Z.",
    "G1.47": "The tenant of the interface is part of every request, and the server interprets it.",
    # --- 1.0: authentication
    "G1.48": (
        "Every request MUST be authenticated as the card declares.",
        "Refusals SHOULD say how to authenticate.",
    ),
    "G1.49": "Authorization MUST be checked before any lookup that could tell what exists.",
    "G1.50": "A task that needs authentication MUST say so by its state, and MUST explain it in its status message.",
    "G1.52": "In production, connections MUST be encrypted.",
    # --- 1.0: card and errors
    "G1.53": (
        "An agent MUST publish a card, with all its required members.",
        "The interfaces of a card are true, the preferred one first.",
        "The skills of a card SHOULD have ids of their own, and schemes that it demands SHOULD be declared.",
    ),
    "G1.54": (
        "The extended card MUST require authentication.",
        "Without the capability the extended card is UnsupportedOperation.",
    ),
    "G1.55": "Cards SHOULD have Cache-Control and ETag headers.",
    "G1.56": "The signatures of a card, if there are any, MUST be JWS that verify.",
    "G1.57": "Secrets and internal addresses do not belong in cards.",
    "G1.58": (
        "Every error has a code, a message and typed details; over HTTP+JSON its ErrorInfo is mandatory.",
        "Validation errors SHOULD name the member.",
    ),
    "G1.59": (
        "JSON-RPC: what cannot be read is answered with an error whose id is null.",
        "JSON-RPC: errors have JSON-RPC's codes.",
        "JSON-RPC: an answer has the id of its request.",
        "JSON-RPC: batches are not part of A2A.",
    ),
    # --- 0.3
    "G2.1": (
        "At least one of JSON-RPC, gRPC and HTTP+JSON MUST be offered.",
        "In production, connections MUST be encrypted.",
    ),
    "G2.2": (
        "An agent MUST publish a card; its url speaks the preferred transport.",
        "All interfaces of an agent SHOULD be listed.",
        "One URL MUST NOT declare conflicting transports.",
        "The skills of a card SHOULD have ids of their own, and schemes that it demands SHOULD be declared.",
    ),
    "G2.4": "message/send, tasks/get and tasks/cancel MUST be implemented.",
    "G2.5": (
        "Streams follow the card's capabilities.",
        "Push notifications follow the card: an agent that declares them keeps, lists and deletes webhooks.",
        "The extended card follows the card, and requires authentication.",
    ),
    "G2.6": "A finished task cannot be restarted: a message to it is an error.",
    "G2.7": (
        "Task ids are made by the server.",
        "Context ids are made by the server, or given.",
    ),
    "G2.8": "Whether a message that comes twice is one task is left to the server.",
    "G2.9": (
        "An answer MUST have a result or an error, and the id of its request (null if that is unreadable).",
        "An answer MUST have the content type application/json.",
    ),
    "G2.10": "A stream MUST be text/event-stream; each frame is a JSON-RPC response with the id of the request; "
    "final marks the last update, and then the stream closes.",
    "G2.11": (
        "A resubscription gets what comes later.",
        "A resubscription to an unknown task is an error.",
    ),
    "G2.12": "A task that needs authentication SHOULD say what it needs in its status message.",
    "G2.13": (
        "Every request MUST be authenticated as the card declares: 401 or 403.",
        "A refusal SHOULD carry WWW-Authenticate.",
    ),
    "G2.14": "Completed tasks SHOULD return their output as artifacts.",
    "G2.15": (
        "A request that does not list a required extension SHOULD be refused.",
        "Unknown extensions that a caller lists are ignored.",
    ),
    "G2.16": "blocking asks the server to wait until the task ends; it may refuse.",
    "G2.17": "acceptedOutputModes is optional.",
    "G2.18": "Errors MUST have the codes of JSON-RPC and of A2A 0.3.",
    "G2.19": "All transports of an agent MUST offer the same functions with equivalent results.",
    "G2.20": (
        "Inputs MUST be validated.",
        "A negative history length is invalid, and SHOULD be refused.",
        "Where the specification marks no member as required, one that is needed SHOULD be validated all the same.",
        "Webhooks at private addresses SHOULD be refused.",
    ),
    # --- 0.1 and 0.2
    "G3.1": (
        "0.1: the caller makes the task's id, and the server keeps it.",
        "0.1: the server makes a session if none is given.",
    ),
    "G3.2": "0.1: input-required is answered by another send with the same id.",
    "G3.3": "0.1: chunks of an artifact are appended by index.",
    "G3.4": "0.2: as 0.3, with the card at agent.json and without the method for the extended card.",
    "A1.1": (
        "0.1: an agent publishes a card, and what it says is true.",
        "0.1: requests and answers are JSON-RPC 2.0 over HTTP; an answer has the id of its request.",
    ),
    "A1.2": (
        "0.1: tasks/send, tasks/get and tasks/cancel are there.",
        "0.1: streams and push follow the capabilities.",
    ),
    "A1.5": "0.1: a stream is updates of status and artifacts; final marks the last one, also where the agent asks, "
    "and then the stream closes.",
    "A1.7": (
        "0.1: errors have the codes of JSON-RPC and of A2A 0.1.",
        "0.1: a negative history length is invalid, and SHOULD be refused.",
    ),
}

_UNOBSERVABLE: dict[str, str] = {
    "G1.6": "what an agent remembers of a conversation depends on the agent",
    "G1.11": "what output an agent could have given depends on the agent",
    "G1.13": "how an agent uses other tasks depends on the agent",
    "G1.17": "this needs a second caller with other credentials",
    "G1.35": "this needs a webhook that the server can reach",
    "G1.38": "what an extension does is defined by the extension",
    "G1.42": "which methods an extension has is defined by the extension",
    "G1.47": "how a server interprets a tenant is up to the server",
    "G2.8": "both are allowed",
    "G2.17": "what output an agent could have given depends on the agent",
}


def _versions(id: str) -> tuple[Version, ...]:
    if id.startswith("G1."):
        return (V1_0,)
    if id.startswith("G2."):
        return (V0_2, V0_3)
    return (V0_2,) if id == "G3.4" else (V0_1,)


def _sentences(says: str | tuple[str, ...]) -> tuple[str, ...]:
    return (says,) if isinstance(says, str) else says


RULES: dict[str, Rule] = {
    id: Rule(id, " ".join(_sentences(says)), _versions(id), _UNOBSERVABLE.get(id)) for id, says in _SAYS.items()
}
"""Every rule by its id."""

CLAUSES: dict[str, tuple[str, str]] = {id: (id, rule.says) for id, rule in RULES.items()} | {
    f"{id}{letter}": (id, sentence)
    for id, says in _SAYS.items()
    if not isinstance(says, str)
    for letter, sentence in zip(ascii_lowercase, says, strict=False)
}
"""By the id of a rule or of a clause, the id of the rule and the text."""
