"""Our client plays the shared scenario against real servers, each from its own environment and in its own process.

One scenario for all. What a peer cannot do, or does otherwise, is in its table, with the reason, and asserted too: the
day it can, the test says so.
"""

import asyncio
import base64
import itertools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pprint import pformat
from typing import Any
from uuid import uuid4

import pytest

from parley.client.client import Client, Update, ask
from parley.client.credentials.credentials import Credentials
from parley.client.options import Retries, Timeouts
from parley.client.reply import Reply
from parley.contents import File
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.errors import ParleyError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.masking import MASK
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from tests.deadlines import fail_after
from tests.interop.javascript import ENVIRONMENT, find_node
from tests.peer_environments import ROOT, serving_process

STEP_SECONDS = 20  # a step takes milliseconds

PNG = b"\x89PNG\x00\xff"
FILES = (
    File(PNG, "soup.png", "image/png"),
    File("https://files.example/menu.pdf", "menu.pdf", "application/pdf"),
)
DATA = {"guests": 2, "vegan": True, "ratio": 0.5, "note": None, "dishes": ["soup", {"name": "crêpe"}]}
HOOK = PushConfig("https://hooks.example/a2a", token="token-of-the-test")

Seen = Any


# --- the scenario -----------------------------------------------------------------------------------------------------


async def card(client: Client) -> Seen:
    return seen_card(client.card)


async def send(client: Client) -> Seen:
    return outcome(await client.send("echo hello"))


async def get(client: Client) -> Seen:
    """A finished task, with the last message of its history."""
    sent = await client.send("echo again")
    task = (await client.get(task_of(sent), history=1)).task
    assert task is not None
    history = [texts(message.parts) for message in task.history]
    return {**outcome(Reply(client, task)), "same": task.id == task_of(sent).id, "history": history}


async def multi_turn(client: Client) -> Seen:
    asked = await client.send("ask")
    seen = {"needs input": asked.needs_input, "question": asked.question}
    answered = await asked.answer("four")
    same = task_of(asked).id == task_of(answered).id, task_of(asked).context_id == task_of(answered).context_id
    return {**seen, "answered": outcome(answered), "same": same}


async def stream(client: Client) -> Seen:
    fold = Fold()
    async for update in client.stream("count 3"):
        fold.add(update)
    return {"states": fold.states, "chunks": fold.chunks, "grown": fold.grown, "state": fold.task.status.state.value}


async def stream_asks(client: Client) -> Seen:
    """A stream ends where the agent asks."""
    events = client.send_streaming_message(r.SendMessageRequest(client.message("ask")))
    statuses = [event.status async for event in events if isinstance(event, Task | StatusUpdate)]
    states = [state for state, _ in itertools.groupby(status.state.value for status in statuses)]
    said = statuses[-1].message
    return {"states": states, "said": texts(said.parts) if said else ""}


async def resubscribe(client: Client) -> Seen:
    """Leave in the middle, come back, and know everything."""
    gate = str(uuid4())
    before, after = Fold(), Fold()
    async with aclosing(client.stream(f"count 6 pausing after 3 at {gate}")) as updates:
        async for update in updates:
            before.add(update)
            if before.text == "1 2 3 ":
                break
    reading = asyncio.create_task(read(client.subscribe(before.task.id), after))
    # Not every server says something when it has taken the subscription, but each has by the time of the fifth answer.
    for _ in range(5):
        await client.get(before.task.id)
    await client.send(f"open {gate}")
    await reading
    kept = await client.get(before.task.id)
    return {"before": before.text, "after": after.text, "state": after.task.status.state.value, "kept": kept.text}


async def two_readers(client: Client) -> Seen:
    """One reads from the beginning, the other one comes later, and both know everything."""
    gate = str(uuid4())
    first, second = Fold(), Fold()
    async with aclosing(client.stream(f"count 6 pausing after 3 at {gate}")) as updates:
        while first.text != "1 2 3 ":
            first.add(await anext(updates))
        reading = asyncio.create_task(read(client.subscribe(first.task.id), second))
        for _ in range(5):
            await client.get(first.task.id)
        await client.send(f"open {gate}")
        async for update in updates:
            first.add(update)
    await reading
    return {"first": first.text, "second": second.text}


async def subscribe_finished(client: Client) -> Seen:
    done = await client.send("echo over")
    fold = Fold()
    async for update in client.subscribe(task_of(done)):
        fold.add(update)
    return {"states": fold.states}


async def cancel(client: Client) -> Seen:
    started = await start_waiting(client)
    canceled = await client.cancel(started)
    kept = await client.get(started)
    return {"state": canceled.state.value, "kept": kept.state.value}


async def list_tasks(client: Client) -> Seen:
    first = task_of(await client.send("echo one"))
    for text in ("echo two", "echo three"):
        await asyncio.sleep(0.002)  # some sort by timestamps of a millisecond
        await client.send(text, context=first.context_id)
    listed = [task async for task in client.list(context=first.context_id, page_size=2)]
    page = await client.list_tasks(r.ListTasksRequest(first.context_id, page_size=2, include_artifacts=True))
    artifacts = [texts(artifact.parts) for task in page.tasks for artifact in task.artifacts]
    return {
        "states": [task.status.state.value for task in listed],
        "different": len({task.id for task in listed}),
        "total": page.total_size,
        "artifacts": sorted(artifacts),
    }


async def push(client: Client) -> Seen:
    task_id = await start_waiting(client)
    config = PushConfig(HOOK.url, task_id, "hook-1", HOOK.token)
    created = await client.create_push_config(r.CreatePushConfigRequest(task_id, config))
    got = await client.get_push_config(r.GetPushConfigRequest(task_id, "hook-1"))
    await client.cancel(task_id)
    return {"created": seen_push(created, task_id), "got": seen_push(got, task_id)}


async def push_list(client: Client) -> Seen:
    task_id = await start_waiting(client)
    config = PushConfig(HOOK.url, task_id, "hook-1", HOOK.token)
    await client.create_push_config(r.CreatePushConfigRequest(task_id, config))
    page = await client.list_push_configs(r.ListPushConfigsRequest(task_id))
    await client.delete_push_config(r.DeletePushConfigRequest(task_id, "hook-1"))
    left = await client.list_push_configs(r.ListPushConfigsRequest(task_id))
    await client.cancel(task_id)
    return {"listed": [seen_push(one, task_id) for one in page.configs], "left": len(left.configs)}


async def push_in_send(client: Client) -> Seen:
    """The one webhook of a task that older clients know, told in the send already."""
    task_id = task_of(await client.send("ask", push=HOOK)).id
    if client.calls.transport.version is Version.V1_0:
        page = await client.list_push_configs(r.ListPushConfigsRequest(task_id))
        return [seen_push(config, task_id)[1:] for config in page.configs]
    return [seen_push(await client.get_push_config(r.GetPushConfigRequest(task_id)), task_id)[1:]]


async def files(client: Client) -> Seen:
    reply = await client.send("files", *FILES)
    return {"state": reply.state.value, "files": [seen_part(part) for part in reply.files]}


async def data(client: Client) -> Seen:
    reply = await client.send("data", DataPart(DATA))
    return {"state": reply.state.value, "data": reply.data}


async def fail(client: Client) -> Seen:
    return outcome(await client.send("fail"))


async def reject(client: Client) -> Seen:
    return outcome(await client.send("reject"))


async def extended_card(client: Client) -> Seen:
    return seen_card(await client.get_extended_card())["skills"]


async def get_unknown(client: Client) -> Seen:
    return outcome(await client.get("no-such-task"))


async def cancel_unknown(client: Client) -> Seen:
    return outcome(await client.cancel("no-such-task"))


async def cancel_finished(client: Client) -> Seen:
    return outcome(await client.cancel(task_of(await client.send("echo done"))))


async def send_to_finished(client: Client) -> Seen:
    return outcome(await client.send("echo more", task=task_of(await client.send("echo done"))))


async def wrong_content(client: Client) -> Seen:
    return outcome(await client.send("files", File(PNG, "a.mp4", "video/mp4")))


async def no_parts(client: Client) -> Seen:
    return outcome(await client.send())


async def stream_no_parts(client: Client) -> Seen:
    return [type(update.event).__name__ async for update in client.stream()]


async def subscribe_unknown(client: Client) -> Seen:
    events = client.subscribe_to_task(r.SubscribeToTaskRequest("no-such-task"))
    return [type(event).__name__ async for event in events]


async def unknown_webhook(client: Client) -> Seen:
    done = task_of(await client.send("echo done"))
    return seen_push(await client.get_push_config(r.GetPushConfigRequest(done.id, "no-such-hook")), done.id)


STEPS: tuple[Callable[[Client], Awaitable[Seen]], ...] = (
    card, send, get, multi_turn, stream, stream_asks, resubscribe, two_readers, subscribe_finished, cancel, list_tasks,
    push, push_list, push_in_send, files, data, fail, reject, extended_card, get_unknown, cancel_unknown,
    cancel_finished, send_to_finished, wrong_content, no_parts, stream_no_parts, subscribe_unknown, unknown_webhook,
)  # fmt: skip


async def play(client: Client) -> dict[str, Seen]:
    """What the client sees, step by step; an error is seen by its class."""
    seen: dict[str, Seen] = {}
    for step in STEPS:
        try:
            with fail_after(STEP_SECONDS):
                seen[step.__name__] = await step(client)
        except ParleyError as error:
            seen[step.__name__] = type(error).__name__
    return seen


# --- how things are seen ----------------------------------------------------------------------------------------------


class Fold:
    """What a reader of a stream knows at any time."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.chunks: list[str] = []
        self.grown = ""
        self._last: Update | None = None

    def add(self, update: Update) -> None:
        self._last = update
        if isinstance(update.event, ArtifactUpdate):
            self.chunks.append(texts(update.event.artifact.parts))
            assert update.artifact is not None
            self.grown = texts(update.artifact.parts)
        if isinstance(update.event, Task | StatusUpdate) and self.states[-1:] != [update.event.status.state.value]:
            self.states.append(update.event.status.state.value)

    @property
    def task(self) -> Task:
        assert self._last is not None
        return self._last.seen.task()

    @property
    def text(self) -> str:
        return "".join(texts(artifact.parts) for artifact in self.task.artifacts) if self._last else ""


async def read(updates: AsyncGenerator[Update], fold: Fold) -> None:
    async with aclosing(updates):
        async for update in updates:
            fold.add(update)


async def start_waiting(client: Client) -> str:
    """The id of a task that is at work until it is canceled."""
    async with aclosing(client.stream("wait")) as updates:
        async for update in updates:
            task = update.seen.task()
            if task.status.state.value == "working":
                return task.id
    raise AssertionError("The stream ended early")


def task_of(reply: Reply) -> Task:
    assert reply.task is not None
    return reply.task


def outcome(reply: Reply) -> dict[str, Seen]:
    said = reply.message.parts if reply.message else ()
    parts = [seen_part(part) for artifact in reply.artifacts for part in artifact.parts]
    return {"state": reply.state.value, "said": texts(said), "parts": parts}


def texts(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def seen_part(part: Part) -> Seen:
    match part:
        case TextPart():
            return part.text
        case RawPart():
            return [base64.b64encode(part.raw).decode(), part.filename, part.media_type]
        case UrlPart():
            return [part.url, part.filename, part.media_type]
        case DataPart():
            return {"data": part.data}


def seen_card(card: AgentCard) -> dict[str, Seen]:
    return {
        "name": card.name,
        "version": card.version,
        "skills": [skill.id for skill in card.skills],
        "streaming": card.capabilities.streaming,
        "push": card.capabilities.push_notifications,
    }


def seen_push(config: PushConfig, task_id: str) -> list[str | None]:
    return ["the task's" if config.id == task_id else config.id, config.url, config.token]


# --- the table --------------------------------------------------------------------------------------------------------

NUMBERS = "1 2 3 4 5 6 "
NAMED = ["hook-1", HOOK.url, HOOK.token]


def completed(text: str) -> Seen:
    return {"state": "completed", "said": "", "parts": [text]}


EXPECTED: Mapping[str, Seen] = {
    "card": {"name": "Scenario", "version": "4.2.0", "skills": ["echo", "count"], "streaming": True, "push": True},
    "send": completed("hello"),
    "get": {**completed("again"), "same": True, "history": ["echo again"]},
    "multi_turn": {
        "needs input": True,
        "question": "For how many?",
        "answered": completed("A table for four."),
        "same": (True, True),
    },
    "stream": {
        "states": ["submitted", "working", "completed"],
        "chunks": ["1 ", "2 ", "3 "],
        "grown": "1 2 3 ",
        "state": "completed",
    },
    "stream_asks": {"states": ["submitted", "working", "input-required"], "said": "For how many?"},
    "resubscribe": {"before": "1 2 3 ", "after": NUMBERS, "state": "completed", "kept": NUMBERS},
    "two_readers": {"first": NUMBERS, "second": NUMBERS},
    "subscribe_finished": {"states": ["completed"]},
    "cancel": {"state": "canceled", "kept": "canceled"},
    "list_tasks": {
        "states": ["completed", "completed", "completed"],
        "different": 3,
        "total": 3,
        "artifacts": ["three", "two"],
    },
    "push": {"created": NAMED, "got": NAMED},
    "push_list": {"listed": [NAMED], "left": 0},
    "push_in_send": [[HOOK.url, HOOK.token]],
    "files": {
        "state": "completed",
        "files": [
            ["iVBORwD/", "soup.png", "image/png"],
            ["https://files.example/menu.pdf", "menu.pdf", "application/pdf"],
        ],
    },
    "data": {"state": "completed", "data": {"got": DATA}},
    "fail": {"state": "failed", "said": "The oven is broken.", "parts": []},
    "reject": {"state": "rejected", "said": "Not on Sundays.", "parts": []},
    "extended_card": ["echo", "count", "vault"],
    "get_unknown": "TaskNotFoundError",
    "cancel_unknown": "TaskNotFoundError",
    "cancel_finished": "TaskNotCancelableError",
    "send_to_finished": "UnsupportedOperationError",
    "wrong_content": "ContentTypeNotSupportedError",
    "no_parts": "InvalidParamsError",
    "stream_no_parts": "InvalidParamsError",
    "subscribe_unknown": "TaskNotFoundError",
    "unknown_webhook": "TaskNotFoundError",
}
"""What a client of 1.0 sees, if the server can do everything."""


@dataclass(frozen=True)
class Differs:
    """What is seen instead, and why."""

    seen: Seen
    because: str


Differences = Mapping[str, Differs]

NO_LIST = Differs("UnsupportedOperationError", "the dialect has no such method, and this client says so itself")
OF_0_3: Differences = {"list_tasks": NO_LIST}
OF_0_2: Differences = OF_0_3
OF_0_1: Differences = {
    "list_tasks": NO_LIST,
    "extended_card": NO_LIST,
    "push_list": NO_LIST,
    "push": Differs({"created": [None, *NAMED[1:]], "got": [None, *NAMED[1:]]}, "webhooks have no ids in 0.1"),
    "reject": Differs({"state": "failed", "said": "Not on Sundays.", "parts": []}, "0.1 has no word for it"),
    "no_parts": Differs("LocalProtocolError", "0.1 cannot say this, and this client does not try"),
    "stream_no_parts": Differs("LocalProtocolError", "0.1 cannot say this, and this client does not try"),
    "send_to_finished": Differs(
        {"state": "completed", "said": "", "parts": ["done", "more"]}, "in 0.1 a message opens the task again"
    ),
}
OF_DIALECT: Mapping[Version, Differences] = {
    Version.V1_0: {},
    Version.V0_3: OF_0_3,
    Version.V0_2: OF_0_2,
    Version.V0_1: OF_0_1,
}


class Doubled:
    """A text in which all that came after the pause is twice, in whatever order."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and sorted(other.split()) == ["1", "2", "3", "4", "4", "5", "5", "6", "6"]

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "1 2 3 and twice 4 5 6"


BREAKS = Differs("UnreachableError", "the server raises inside its event stream and cuts the connection")
DOUBLES = "each subscriber of this server writes what it reads into the stored task once more"

PARLEY_0_3_GRPC: Differences = {
    "send_to_finished": Differs("InvalidParamsError", "0.3 has no details in gRPC, and one status for both errors"),
}
PARLEY_0_1: Differences = {
    "reject": Differs(EXPECTED["reject"], "Parley says beside the word of 0.1 what is meant, and understands that"),
    "send_to_finished": Differs(
        completed("more"), "in 0.1 a message opens the task again, and its answer is a new one"
    ),
}
COMPAT_JSONRPC: Differences = {
    "push_in_send": Differs("InvalidParamsError", "the compatibility layer demands the id that 0.3 lets one leave out"),
}
COMPAT_REST: Differences = {
    "subscribe_finished": BREAKS,
    "subscribe_unknown": BREAKS,
    "stream_no_parts": BREAKS,
    "push_list": Differs("VersionNotSupportedError", "the route of 0.3 is missing, and that of 1.0 answers"),
}
SDK_0_3: Differences = {
    "resubscribe": Differs({**EXPECTED["resubscribe"], "after": Doubled(), "kept": Doubled()}, DOUBLES),
    "two_readers": Differs({"first": NUMBERS, "second": Doubled()}, DOUBLES),
    "send_to_finished": Differs("InvalidParamsError", "the server's word for it"),
    "no_parts": Differs("InternalError", "the server does not look at the message, its helpers fail on it"),
    "stream_no_parts": BREAKS,
    "unknown_webhook": Differs("InternalError", "the server's word for it"),
}
SDK_0_3_REST: Differences = {
    **SDK_0_3,
    "subscribe_finished": BREAKS,
    "subscribe_unknown": BREAKS,
    "push_list": Differs("InternalError", "the handler of this route is not written: HTTP 500"),
}
SDK_0_3_GRPC: Differences = {
    **SDK_0_3,
    "no_parts": Differs("UnknownRemoteError", "the server does not look at the message, its helpers fail on it"),
    "stream_no_parts": Differs("UnknownRemoteError", "the server does not look at the message, its helpers fail on it"),
    "push_list": Differs("UnsupportedOperationError", "the server has no such method: UNIMPLEMENTED"),
    "extended_card": Differs(["echo", "count"], "over gRPC the server knows its public card only"),
}
SDK_0_2: Differences = {
    **SDK_0_3,
    "resubscribe": Differs("TimedOutError", "who leaves a stream stops the agent; the task is at work for ever"),
}
NOT_LOOKED_AT = "it does not look at types"
FASTA2A: Differences = {
    "card": Differs({**EXPECTED["card"], "push": False}, "the server sends no notifications"),
    "multi_turn": Differs(
        {**EXPECTED["multi_turn"], "question": "", "same": (False, True)},
        "its storage has no place for a status message, and a message to a task begins another one",
    ),
    "stream_asks": Differs({**EXPECTED["stream_asks"], "said": ""}, "what is told is not kept, and told again empty"),
    "cancel": Differs({"state": "working", "kept": "canceled"}, "it answers before its worker has heard of it"),
    "list_tasks": Differs("UnsupportedOperationError", "not implemented"),
    "push": Differs("InternalError", "a method that it does not know ends in HTTP 500"),
    "push_list": Differs("InternalError", "a method that it does not know ends in HTTP 500"),
    "push_in_send": Differs("InternalError", "a method that it does not know ends in HTTP 500"),
    "unknown_webhook": Differs("InternalError", "a method that it does not know ends in HTTP 500"),
    "extended_card": Differs("InternalError", "a method that it does not know ends in HTTP 500"),
    "fail": Differs({"state": "failed", "said": "", "parts": []}, "its storage has no place for the reason"),
    "reject": Differs({"state": "rejected", "said": "", "parts": []}, "its storage has no place for the reason"),
    "cancel_finished": Differs(completed("done"), "it answers before its worker has heard of it"),
    "send_to_finished": Differs(completed("more"), "a message to a task begins another one"),
    "wrong_content": Differs(
        {"state": "completed", "said": "", "parts": [["iVBORwD/", "a.mp4", "video/mp4"]]}, NOT_LOOKED_AT
    ),
    "no_parts": Differs("PeerProtocolError", "it takes such a message, and shows it in the task's history"),
    "stream_no_parts": Differs("PeerProtocolError", "it takes such a message, and shows it in the task's history"),
}
JS: Differences = {
    "no_parts": Differs("PeerProtocolError", "it takes such a message, and shows it in the task's history"),
    "stream_no_parts": Differs("PeerProtocolError", "it takes such a message, and shows it in the task's history"),
}
JS_0_3: Differences = {
    **JS,
    "send_to_finished": Differs("InvalidRequestError", "the server's word for it"),
    "wrong_content": Differs(
        {"state": "completed", "said": "", "parts": [["iVBORwD/", "a.mp4", "video/mp4"]]}, NOT_LOOKED_AT
    ),
    "unknown_webhook": Differs("InternalError", "the server's word for it"),
}
NAMELESS: Differences = {
    "files": Differs(
        {
            "state": "completed",
            "files": [["iVBORwD/", None, "image/png"], ["https://files.example/menu.pdf", None, "application/pdf"]],
        },
        "its protobuf is older than the names of files",
    ),
    "wrong_content": Differs(
        {"state": "completed", "said": "", "parts": [["iVBORwD/", None, "video/mp4"]]}, NOT_LOOKED_AT
    ),
}
JS_0_3_REST: Differences = {
    **JS_0_3,
    **NAMELESS,
    "subscribe_unknown": Differs("InternalError", "it has a mistake where it would say so, and says that"),
}
JS_0_3_GRPC: Differences = {
    **JS_0_3,
    **NAMELESS,
    "data": Differs({"state": "completed", "data": {"got": {**DATA, "note": 0}}}, "it reads null as 0"),
    "cancel_finished": Differs("UnsupportedOperationError", "0.3 has no details in gRPC, and one status for both"),
    "send_to_finished": Differs("InvalidParamsError", "0.3 has no details in gRPC, and one status for both"),
}
RAW_0_1: Differences = {
    "stream": Differs({**EXPECTED["stream"], "states": ["working", "completed"]}, "as in the document's sample"),
    "stream_asks": Differs({**EXPECTED["stream_asks"], "states": ["working", "input-required"]}, "as in the sample"),
    "unknown_webhook": Differs("PeerProtocolError", "the document's schema answers null where there is none"),
}


@dataclass(frozen=True)
class Peer:
    """A server that the client talks to, and what it does otherwise than the table says."""

    environment: str
    script: str
    version: Version
    binding: Binding
    differs: Differences = field(default_factory=dict[str, Differs])
    quiet: float = 90.0  # how long the client waits for a stream that says nothing

    def __str__(self) -> str:
        return f"{self.environment}-{self.version}-{self.binding}"

    def expected(self) -> dict[str, Seen]:
        differs = {**OF_DIALECT[self.version], **self.differs}
        seen = {**EXPECTED, **{step: difference.seen for step, difference in differs.items()}}
        return {step: masked(value) for step, value in seen.items()} if self.environment == "parley" else seen


def masked(seen: Any) -> Any:
    """What is seen of a server that shows no secrets: ours."""
    if isinstance(seen, dict):
        return {name: masked(value) for name, value in seen.items()}
    if isinstance(seen, list):
        return [masked(value) for value in seen]
    return MASK if seen == HOOK.token else seen


V1, V03 = Version.V1_0, Version.V0_3
JSONRPC, REST, GRPC = Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC
SDK_1_3_0, PYDANTIC = "server_sdk_1_3_0.py", "server_sdk_pydantic.py"

PEERS = (
    *(Peer("a2a-sdk-1.3.0", SDK_1_3_0, V1, binding) for binding in Binding),
    Peer("a2a-sdk-1.3.0", SDK_1_3_0, V03, JSONRPC, COMPAT_JSONRPC),
    Peer("a2a-sdk-1.3.0", SDK_1_3_0, V03, REST, COMPAT_REST),
    Peer("a2a-sdk-1.3.0", SDK_1_3_0, V03, GRPC),
    Peer("a2a-sdk-0.3.26", PYDANTIC, V03, JSONRPC, SDK_0_3),
    Peer("a2a-sdk-0.3.26", PYDANTIC, V03, REST, SDK_0_3_REST),
    Peer("a2a-sdk-0.3.26", PYDANTIC, V03, GRPC, SDK_0_3_GRPC),
    Peer("a2a-sdk-0.2.16", PYDANTIC, Version.V0_2, JSONRPC, SDK_0_2, quiet=2.0),
    Peer("fasta2a", "server_fasta2a.py", V1, JSONRPC, FASTA2A),
    *(Peer("a2a-js", "server_js_1_3_0.mjs", V1, binding, JS) for binding in Binding),
    Peer("a2a-js", "server_js_0_3_14.mjs", V03, JSONRPC, JS_0_3),
    Peer("a2a-js", "server_js_0_3_14.mjs", V03, REST, JS_0_3_REST),
    Peer("a2a-js", "server_js_0_3_14.mjs", V03, GRPC, JS_0_3_GRPC),
    Peer("document", "server_raw_0_1.py", Version.V0_1, JSONRPC, RAW_0_1),
    *(Peer("parley", "tests.interop.serve", V1, binding) for binding in Binding),
    Peer("parley", "tests.interop.serve", V03, JSONRPC),
    Peer("parley", "tests.interop.serve", V03, REST),
    Peer("parley", "tests.interop.serve", V03, GRPC, PARLEY_0_3_GRPC),
    Peer("parley", "tests.interop.serve", Version.V0_2, JSONRPC),
    Peer("parley", "tests.interop.serve", Version.V0_1, JSONRPC, PARLEY_0_1),
)

# --- servers in processes of their own --------------------------------------------------------------------------------

TOKEN = "token-of-the-tester"  # which only our own server asks for


def command_of(peer: Peer, folder: Path) -> tuple[list[str | Path], Path]:
    """What runs a server, and where."""
    script = ROOT / "tests" / "peers" / peer.script
    match peer.environment:
        case "parley":
            return [sys.executable, "-m", peer.script, f"sqlite:///{folder}/tasks.db", TOKEN], ROOT
        case "document":
            return [sys.executable, script], ROOT
        case "a2a-js":
            return [find_node()[0], script], ENVIRONMENT
        case environment:
            return [ROOT / ".peers" / environment / "bin" / "python", script], ROOT


@contextmanager
def served(peer: Peer, folder: Path) -> Iterator[str]:
    """The URL of a peer's server, for the length of the block."""
    command, place = command_of(peer, folder)
    if not all(Path(part).exists() for part in (command[0], place)):
        pytest.fail(f"The environment of {peer.environment} is missing: run `make peers`", pytrace=False)
    with serving_process(command, cwd=place, log=folder / "server.log") as (url, _):
        yield url


@pytest.fixture(scope="module")
def url_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Peer], str]]:
    """Where a peer's server is; each is started when it is asked for first."""
    urls: dict[str, str] = {}
    with ExitStack() as stack:

        def find(peer: Peer) -> str:
            server = f"{peer.environment} {peer.script}"
            if server not in urls:
                urls[server] = stack.enter_context(served(peer, tmp_path_factory.mktemp("peer")))
            return urls[server]

        yield find


# --- the tests --------------------------------------------------------------------------------------------------------


def client_of(peer: Peer, url: str) -> Client:
    if peer.environment == "parley":  # whose card of today does not list what only older ones speak
        url = f"{url}/.well-known/agent-card.json?A2A-Version={peer.version}"
    return Client(
        url,
        bindings=[peer.binding],
        versions=[peer.version],
        # gRPC listens on a port of its own, which is another origin.
        credentials=Credentials({"bearer": TOKEN}, origins=["*"]) if peer.environment == "parley" else None,
        timeouts=Timeouts(quiet=peer.quiet),
        retries=Retries(attempts=2, first_pause=0.01),
    )


@pytest.mark.anyio
@pytest.mark.parametrize("peer", PEERS, ids=str)
async def test_the_client_sees_what_the_scenario_says(peer: Peer, url_of: Callable[[Peer], str]):
    async with client_of(peer, url_of(peer)) as client:
        assert (client.interface.binding, client.calls.transport.version) == (peer.binding, peer.version)
        seen, wanted = await play(client), peer.expected()
    wrong = {step: (seen[step], wanted[step]) for step in wanted if seen[step] != wanted[step]}
    assert not wrong, pformat(wrong, width=110)


@pytest.mark.anyio
async def test_one_line_asks_any_agent(url_of: Callable[[Peer], str]):
    one_each = {(peer.environment, peer.script): peer for peer in PEERS if peer.environment != "parley"}
    answers = [await ask(url_of(peer), "echo hello") for peer in one_each.values()]
    assert answers == ["hello"] * len(one_each)
