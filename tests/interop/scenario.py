"""What every client must see in the scenario: one table for all, and in it what a dialect or an SDK does differently.

The steps are in `tests/peers/scenario_steps.py` and `.mjs`; each client plays them in its own process and environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from parley.protocol.masking import MASK

Seen = dict[str, Any]


class Fault(Enum):
    """What may be wrong with a request of the scenario."""

    TASK_NOT_FOUND = auto()
    TASK_NOT_CANCELABLE = auto()
    UNSUPPORTED = auto()
    CONTENT_TYPE = auto()
    INVALID_PARAMS = auto()
    UNAUTHENTICATED = auto()


Sights = Mapping[Fault, Any]
"""How a client shows a fault to the program that uses it."""

CLASSES: Sights = {
    Fault.TASK_NOT_FOUND: "TaskNotFoundError",
    Fault.TASK_NOT_CANCELABLE: "TaskNotCancelableError",
    Fault.UNSUPPORTED: "UnsupportedOperationError",
    Fault.CONTENT_TYPE: "ContentTypeNotSupportedError",
    Fault.INVALID_PARAMS: "InvalidParamsError",
    Fault.UNAUTHENTICATED: "HTTP Error 401",
}
GRPC_CLASSES: Sights = {**CLASSES, Fault.UNAUTHENTICATED: "gRPC Error UNAUTHENTICATED"}
JS_CLASSES: Sights = {**CLASSES, Fault.INVALID_PARAMS: "RequestMalformedError"}
CODES: Sights = {
    Fault.TASK_NOT_FOUND: -32001,
    Fault.TASK_NOT_CANCELABLE: -32002,
    Fault.CONTENT_TYPE: -32005,
    Fault.INVALID_PARAMS: -32602,
    Fault.UNAUTHENTICATED: 401,
}
STATUSES_0_3: Sights = {
    Fault.TASK_NOT_FOUND: 404,
    Fault.TASK_NOT_CANCELABLE: 409,
    Fault.CONTENT_TYPE: 415,
    Fault.INVALID_PARAMS: 422,
    Fault.UNAUTHENTICATED: 401,
}
GRPC_STATUSES_0_3: Sights = {
    Fault.TASK_NOT_FOUND: "NOT_FOUND",
    Fault.TASK_NOT_CANCELABLE: "UNIMPLEMENTED",
    Fault.CONTENT_TYPE: "UNIMPLEMENTED",
    Fault.INVALID_PARAMS: "INVALID_ARGUMENT",
    Fault.UNAUTHENTICATED: "UNAUTHENTICATED",
}
UNAUTHENTICATED_CODE = -32031  # our own, in the body of a 401


@dataclass(frozen=True)
class Player:
    """A client that plays the scenario. `differs` is what it sees otherwise than the table says, step by step."""

    peer: str  # its environment in `.peers`; none for this one
    script: str
    version: str
    binding: str
    sights: Sights
    differs: Mapping[str, Seen] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.peer or 'raw'}-{self.version}-{self.binding}"


# This SDK wants an event stream before it looks at the status, and calls everything else 400.
NOT_A_STREAM = 400

PLAYERS = (
    Player("a2a-sdk-1.3.0", "scenario_sdk_1_3_0.py", "1.0", "jsonrpc", CLASSES),
    Player("a2a-sdk-1.3.0", "scenario_sdk_1_3_0.py", "1.0", "rest", CLASSES),
    Player("a2a-sdk-1.3.0", "scenario_sdk_1_3_0.py", "1.0", "grpc", GRPC_CLASSES),
    Player("a2a-js", "scenario_js_1_3_0.mjs", "1.0", "jsonrpc", {**JS_CLASSES, Fault.UNAUTHENTICATED: -32031}),
    Player("a2a-js", "scenario_js_1_3_0.mjs", "1.0", "rest", {**JS_CLASSES, Fault.UNAUTHENTICATED: 401}),
    Player("a2a-js", "scenario_js_1_3_0.mjs", "1.0", "grpc", {**JS_CLASSES, Fault.UNAUTHENTICATED: 16}),
    Player("a2a-sdk-0.3.26", "scenario_sdk_0_3_26.py", "0.3", "jsonrpc", CODES),
    Player(
        "a2a-sdk-0.3.26",
        "scenario_sdk_0_3_26.py",
        "0.3",
        "rest",
        STATUSES_0_3,
        {"errors": {"subscribe unknown": NOT_A_STREAM}},
    ),
    Player("a2a-sdk-0.3.26", "scenario_sdk_0_3_26.py", "0.3", "grpc", GRPC_STATUSES_0_3),
    Player(
        "a2a-js",
        "scenario_js_0_3_14.mjs",
        "0.3",
        "jsonrpc",
        {**CODES, Fault.UNAUTHENTICATED: UNAUTHENTICATED_CODE},
    ),
    Player(
        "a2a-sdk-0.2.16",
        "scenario_sdk_0_2_16.py",
        "0.2",
        "jsonrpc",
        CODES,
        {"authenticated": {"stream": NOT_A_STREAM}},
    ),
    Player("", "scenario_raw_0_1.py", "0.1", "jsonrpc", CODES),
)


def expected(player: Player) -> dict[str, Seen]:
    """What a client must see, step by step."""
    steps = {
        "card": {
            "name": "Scenario",
            "version": "4.2.0",
            "skills": ["echo", "count"],
            "streaming": True,
            "push": True,
        },
        "send": completed("hello"),
        "get": {**completed("again"), "same": True, "history": ["echo again"]},
        "multi_turn": {
            "asked": {"state": "input-required", "said": "For how many?", "parts": []},
            "answered": completed("A table for four."),
            "same": True,
        },
        **streams(player),
        "cancel": {"started": True, "state": "canceled", "kept": "canceled"},
        **webhooks(player),
        "files": {
            "state": "completed",
            "said": "",
            "parts": [
                {"text": "soup.png image/png 6; menu.pdf application/pdf https://files.example/menu.pdf"},
                {"raw": "iVBORwD/", "name": "soup.png", "type": "image/png"},
                {"url": "https://files.example/menu.pdf", "name": "menu.pdf", "type": "application/pdf"},
            ],
        },
        "data": {
            "state": "completed",
            "said": "",
            "parts": [
                {
                    "data": {
                        "got": {
                            "guests": 2,
                            "vegan": True,
                            "ratio": 0.5,
                            "note": None,
                            "dishes": ["soup", {"name": "crêpe"}],
                        }
                    }
                }
            ],
        },
        "endings": {
            "fail": {"state": "failed", "said": "The oven is broken.", "parts": []},
            # 0.1 has no word for it.
            "reject": {
                "state": "failed" if player.version == "0.1" else "rejected",
                "said": "Not on Sundays.",
                "parts": [],
            },
        },
        "errors": errors(player),
        **access(player),
    }
    if player.version == "1.0":
        steps["list_tasks"] = {"pages": [["completed", "completed"], ["completed"]], "total": 3, "artifacts": []}
    if player.version == "0.1":
        steps |= {"ids": {"numbers": True, "replays": [True] * 6}, "document": DOCUMENT}
    return {step: {**seen, **player.differs.get(step, {})} for step, seen in steps.items()}


def completed(text: str) -> Seen:
    return {"state": "completed", "said": "", "parts": [{"text": text}]}


def streams(player: Player) -> dict[str, Seen]:
    """1.0 ends a stream by closing it, the others say so. In 0.1 no stream has a task, only what is in it."""
    final = None if player.version == "1.0" else True
    steps = {
        "stream": {
            "first": "status" if player.version == "0.1" else "task",
            "states": ["submitted", "working", "completed"],
            "chunks": [[{"text": "1 "}], [{"text": "2 "}], [{"text": "3 "}]],
            "text": "1 2 3 ",
            "final": final,
        },
        "stream_asks": {"states": ["submitted", "working", "input-required"], "final": final},
        "resubscribe": {
            "before": "1 2 3 ",
            "first": "chunk" if player.version == "0.1" else "task",
            "new": ["4 ", "5 ", "6 "],
            "after": "1 2 3 4 5 6 ",
            "states": ["completed"],
            "final": final,
            "kept": "1 2 3 4 5 6 ",
        },
        # 1.0 lets nobody subscribe to a finished task without a cursor; the others get its last word.
        "subscribe_finished": (
            {"error": player.sights[Fault.UNSUPPORTED]}
            if player.version == "1.0"
            else {"kinds": ["status"], "states": ["completed"], "final": True}
        ),
    }
    if player.binding != "grpc":  # whose messages have no ids
        steps["resume"] = {
            "kinds": ["chunk", "chunk", "chunk", "status"],
            "rest": "4 5 6 ",
            "states": ["completed"],
            "same": True,
        }
    return steps


def webhooks(player: Player) -> dict[str, Seen]:
    """0.1 knows one webhook a task, which it can neither list nor delete."""
    hook = {"url": "https://hooks.example/a2a", "token": MASK}
    unnamed = {"id": "the task's", **hook}
    if player.version == "0.1":
        return {"push": {"created": unnamed, "got": unnamed}, "push_unnamed": unnamed}
    named = {"id": "hook-1", **hook}
    return {"push": {"created": named, "got": named, "listed": [named], "left": []}, "push_unnamed": unnamed}


def errors(player: Player) -> Seen:
    faults: dict[str, Any] = {
        "unknown task": Fault.TASK_NOT_FOUND,
        "cancel unknown": Fault.TASK_NOT_FOUND,
        "cancel finished": Fault.TASK_NOT_CANCELABLE,
        "send to finished": Fault.UNSUPPORTED if player.version == "1.0" else Fault.INVALID_PARAMS,
        "wrong content": Fault.CONTENT_TYPE,
        "bad params": Fault.INVALID_PARAMS,
        "stream bad params": Fault.INVALID_PARAMS,
        "subscribe unknown": Fault.TASK_NOT_FOUND,
        "unknown webhook": Fault.TASK_NOT_FOUND,
    }
    seen = {what: player.sights[fault] for what, fault in faults.items()}
    if player.version == "0.1":  # where a message opens the task again
        seen["send to finished"] = {"no error": completed("more")}
    return seen


def access(player: Player) -> dict[str, Seen]:
    """Who brings the token gets in, and sees the private skill where the dialect has a card for that."""
    refused = player.sights[Fault.UNAUTHENTICATED]
    steps: dict[str, Seen] = {"authenticated": {"known": completed("secret"), "stranger": refused, "stream": refused}}
    if player.version != "0.1":
        steps["extended_card"] = {
            "public": ["echo", "count"],
            "known": ["echo", "count", "vault"],
            "stranger": refused,
        }
    return steps


def _text(text: str) -> Seen:
    return {"type": "text", "text": text}


DOCUMENT: Seen = {
    "joke": {
        "same": True,
        "state": "completed",
        "artifacts": [[_text("Why did the chicken cross the road? To get to the other side!")]],
    },
    "history": [{"role": "user", "parts": [_text("tell me a joke")]}],
    "asked": {"state": "input-required", "artifacts": [], "message": [_text("Select a phone type (iPhone/Android)")]},
    "ordered": {
        "state": "completed",
        "artifacts": [[_text("I have ordered a new Android device for you. Your request number is R12443")]],
    },
    "hook": [{"url": "https://example.com/callback", "authentication": {"schemes": ["jwt"]}}] * 2,
    "streamed": ["submitted", "completed", True],
    "rate": {
        "same": True,
        "state": "completed",
        "artifacts": [[_text("The exchange rate for 1 USD to INR is 85.49.")]],
    },
}
"""The answers that the 0.1 document gives to its own samples."""
