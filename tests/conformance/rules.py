"""The rules of A2A's behaviour that concern a server, each with an id, where it comes from, and what it says.

The ids are those of the checklist that Parley was designed against: G1 is 1.0, G2 is 0.3, G3 is 0.1 and 0.2. Rules for
clients, agents' authors and operators are in `OTHERS` with the reason why no test of the server can show them.
`test_ledger.py` keeps this list and the tests together, both ways.
"""

from __future__ import annotations

RULES: dict[str, str] = {
    # --- 1.0: send
    "G1.1": "A message to a task in a terminal state is UnsupportedOperation.",
    "G1.2": "A message to an unknown or foreign task is TaskNotFound; callers cannot choose the id of a new task.",
    "G1.3": "Task ids are made by the agent, unique, and returned.",
    "G1.4": "A task id without a context id takes the task's context; a pair that does not match is refused.",
    "G1.5": "A context id that is given is kept; one that is made is returned.",
    "G1.6": "Tasks with one context id belong to one conversation.",
    "G1.7": "The answer is a task or a message; a message has no task behind it.",
    "G1.8": "A send waits for a terminal or interrupted state, unless the caller wants its answer at once.",
    "G1.9": "The same message twice is one task; a second cancel is TaskNotCancelable.",
    "G1.10": "A part of a media type that the agent does not take is ContentTypeNotSupported.",
    "G1.11": "The agent knows which output modes its caller accepts.",
    "G1.12": "Results are artifacts.",
    "G1.14": "Once there is a task, the answers are tasks.",
    # --- 1.0: history, get, list
    "G1.15": "No more history than asked for; a negative length is invalid.",
    "G1.16": "An unknown task and a foreign one look the same.",
    "G1.17": "A list shows the caller's own tasks only.",
    "G1.18": "A list is sorted by the time of the status, newest first.",
    "G1.19": "Pages have cursors; a page size from 1 to 100, 50 by default; anything else is InvalidParams.",
    "G1.20": "nextPageToken is always there, empty on the last page; totalSize counts before paging.",
    "G1.21": "Artifacts are listed only when asked for.",
    "G1.22": "Filters combine with AND; the time is inclusive; an unknown status is InvalidParams.",
    # --- 1.0: cancel
    "G1.23": "Cancelling: a finished task is TaskNotCancelable, an unknown one TaskNotFound, success gives the task.",
    # --- 1.0: streams
    "G1.24": "Without the capability, streams are UnsupportedOperation.",
    "G1.25": "A stream is one message, or a task and then its updates.",
    "G1.26": "A stream closes at a terminal state, and at an interrupted one.",
    "G1.27": "Events come in the order in which they were made.",
    "G1.28": "Several streams of a task get the same events; closing one touches nothing.",
    "G1.29": "A subscription begins with the task; a finished one is UnsupportedOperation, an unknown TaskNotFound.",
    "G1.31": "A client that goes away cancels nothing.",
    # --- 1.0: push
    "G1.32": "Without the capability, all four push operations are PushNotificationNotSupported.",
    "G1.33": "A webhook comes back with its id, stays until deleted, and there may be several.",
    "G1.34": "A missing webhook is TaskNotFound; deleting twice is fine; a list shows them all.",
    "G1.35": "A webhook is called with what authenticates the sender.",
    "G1.36": "Webhooks at private addresses are refused.",
    # --- 1.0: extensions
    "G1.38": "An extension is inactive unless the caller lists it.",
    "G1.39": "Unknown extensions are ignored; active ones are echoed.",
    "G1.40": "A required extension that is not listed is ExtensionSupportRequired.",
    # --- 1.0: versions and bindings
    "G1.43": "The version is Major.Minor; a patch number changes nothing; an unknown one is VersionNotSupported.",
    "G1.44": "All bindings offer the same operations with the same results, errors and authentication.",
    "G1.45": "Unknown members are ignored; required ones must be there, and not empty.",
    "G1.46": "JSON names are camelCase, enums are the protobuf's names, times are UTC with a Z.",
    "G1.47": "The tenant that a caller names is part of what it sees.",
    # --- 1.0: authentication
    "G1.48": "Every request is authenticated as the card declares; failures say how to authenticate.",
    "G1.49": "Authorization comes before any lookup that could tell what exists.",
    "G1.50": "Authentication within a task: it is AUTH_REQUIRED, says why, and takes a message to go on.",
    # --- 1.0: card
    "G1.53": "There is a card; its interfaces are true, the preferred one first.",
    "G1.54": "The extended card needs authentication; without the capability it is UnsupportedOperation.",
    "G1.55": "Cards have caching headers.",
    "G1.56": "A signed card verifies.",
    # --- 1.0: errors
    "G1.58": "Errors have a code, a message and typed details; invalid members are named.",
    "G1.59": "JSON-RPC: an unreadable request is answered with the id null; a batch is refused.",
    # --- 0.3
    "G2.1": "At least one of the three bindings is there; here all are.",
    "G2.2": "There is a card; its url speaks the preferred transport, and all interfaces are listed.",
    "G2.4": "message/send, tasks/get and tasks/cancel are there.",
    "G2.5": "Streams, push and the extended card follow the capabilities.",
    "G2.6": "A finished task takes no message: InvalidParams.",
    "G2.7": "Task ids are the server's; context ids the server's or given.",
    "G2.8": "The same message twice is one task.",
    "G2.9": "Result or error; the id mirrors the request's; the content type is application/json.",
    "G2.10": "A stream is text/event-stream; each frame a response with the request's id; final marks the end.",
    "G2.11": "A resubscription gets what comes later; a finished task its final status.",
    "G2.12": "auth-required says what is needed and goes on with message/send.",
    "G2.13": "Every request is authenticated: 401 with WWW-Authenticate, 403.",
    "G2.14": "The output of a completed task is artifacts.",
    "G2.15": "X-A2A-Extensions activates extensions and is echoed; a missing required one is refused.",
    "G2.16": "blocking waits, and false does not.",
    "G2.17": "acceptedOutputModes is optional, and known to the agent.",
    "G2.18": "The error codes are 0.3's.",
    "G2.19": "All transports offer the same functions with equivalent results.",
    "G2.20": "Inputs are validated.",
    # --- 0.1 and 0.2
    "G3.1": "0.1: the caller names its task; sending again goes on with it or reopens it; sessionId groups tasks.",
    "G3.2": "0.1: input-required is answered by another send with the same id.",
    "G3.3": "0.1: chunks of an artifact are appended by index.",
    "G3.4": "0.2: as 0.3, with the card at agent.json, without the extended card's method.",
}

OTHERS: dict[str, str] = {
    "G1.13": "for clients: referenceTaskIds in follow-ups; the engine keeps what they say (tests/agents)",
    "G1.30": "allowed, not demanded: a final snapshot before a stream closes is not sent",
    "G1.37": "for receivers of webhooks",
    "G1.41": "for designers of extensions: they put their data into metadata, which is carried (tests/dialects)",
    "G1.42": "Parley has no extension methods",
    "G1.51": "for clients that are agents themselves",
    "G1.52": "for operators: TLS is a setting (tests/server/test_tls.py)",
    "G1.57": "for authors and operators: what they write into a card",
    "G2.3": "for clients: which interface to choose",
}
