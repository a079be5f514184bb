"""Streams with the task that the server makes of them, for the page's own fold (console/src/a2a/fold.test.ts).

`python -m tests.console.fold_cases` writes them to console/src/a2a/fold.cases.json. The sequences are random, with a
fixed seed, and legal: only then do server and page promise the same.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from parley.dialects.v1_0 import DIALECT
from parley.protocol import operations as ops
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.lifecycle import TERMINAL, TRANSITIONS, fold, is_terminal
from parley.protocol.messages import DataPart, Message, Part, Role, TextPart, UrlPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

CASES = Path(__file__).parent.parent.parent / "console" / "src" / "a2a" / "fold.cases.json"
COUNT = 25
EVENTS = 16
TASK, CONTEXT = "t-1", "c-1"
BEGINNING = datetime(2026, 11, 18, 6, 30, tzinfo=UTC)


def written() -> str:
    """The text of the file."""
    random = Random(17)
    return "[\n" + ",\n".join(json.dumps(_case(random), ensure_ascii=False) for _ in range(COUNT)) + "\n]\n"


def _case(random: Random) -> JsonObject:
    events = [TaskCreated(TASK, CONTEXT, TaskStatus(TaskState.SUBMITTED, timestamp=BEGINNING))]
    rest = _events(random)
    first, task = fold(None, events), fold(None, [*events, *rest])
    return {"start": _task(first), "events": [_event(event) for event in rest], "task": _task(task)}


def _events(random: Random) -> list[TaskEvent]:
    state, events = TaskState.SUBMITTED, list[TaskEvent]()
    for number in range(EVENTS):
        match random.choice(["status", "artifact", "artifact", "artifact", "message"]):
            case "status":
                # The order of a set changes with every process.
                state = random.choice(sorted(TRANSITIONS[state] - (TERMINAL if random.random() < 0.8 else set())))
                message = _message(random, number, Role.AGENT) if random.random() < 0.5 else None
                status = TaskStatus(state, message, BEGINNING + timedelta(seconds=number))
                events.append(StatusUpdate(TASK, CONTEXT, status, _metadata(random)))
                if is_terminal(state):
                    break
            case "artifact":
                events.append(_artifact_update(random))
            case _:
                events.append(MessageAdded(TASK, CONTEXT, _message(random, number, Role.USER)))
    return events


def _artifact_update(random: Random) -> ArtifactUpdate:
    artifact = Artifact(
        random.choice(["a-1", "a-2"]),
        tuple(_part(random) for _ in range(random.randint(1, 3))),
        random.choice([None, None, "report"]),
        random.choice([None, None, "What was found"]),
        _metadata(random),
        random.choice([(), (), ("https://x.example/e1",), ("https://x.example/e2",)]),
    )
    return ArtifactUpdate(TASK, CONTEXT, artifact, append=random.random() < 0.75)


def _part(random: Random) -> Part:
    choices: list[Part] = [
        TextPart(random.choice(["Paris ", "is", " sunny. ", "日本", "😀", ""])),
        TextPart(random.choice(["a", "b"])),
        TextPart("code", media_type="text/x-python"),
        TextPart("noted", metadata={"n": 1}),
        DataPart(random.choice([None, 7, {"city": "Rome"}])),
        UrlPart("https://files.example/a.png", "image/png", "a.png"),
    ]
    return random.choices(choices, [6, 6, 1, 1, 1, 1])[0]


def _message(random: Random, number: int, role: Role) -> Message:
    return Message(f"m-{number}", role, (TextPart(random.choice(["Which city?", "Rome", "Soon"])),), CONTEXT, TASK)


def _metadata(random: Random) -> JsonObject:
    return random.choice([{}, {}, {}, {"step": 1}, {"step": 2, "by": "x"}])


def _task(task: Task) -> JsonObject:
    return json.loads(DIALECT.encode_result(ops.GET_TASK, task))


def _event(event: TaskEvent) -> JsonObject:
    """An event as the stream has it; a message that joined the history, which no stream has, as `added`."""
    if isinstance(event, MessageAdded):
        holder = Task(TASK, CONTEXT, TaskStatus(TaskState.WORKING), history=(event.message,))
        return {"added": _task(holder)["history"][0]}  # type: ignore[index]
    assert isinstance(event, StatusUpdate | ArtifactUpdate)
    (frame,) = DIALECT.encode_event(event)
    return json.loads(frame)


if __name__ == "__main__":
    CASES.write_text(written(), encoding="utf-8")
    print(f"wrote {CASES}")
