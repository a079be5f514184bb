"""What an orchestrator's stream looks like: steps are notes, and the answer is printed once."""

import io

import pytest
from rich.console import Console

from parley.cli.output.orchestration import step_of
from parley.cli.output.transcript import Transcript
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import DataPart, Message, Part, RawPart, Role, TextPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus

ANSWER = "5 miles is 8 km.\n"


def completed(*said: Part) -> TaskStatus:
    return TaskStatus(TaskState.COMPLETED, Message("m", Role.AGENT, said))


def marked(kind: str, **facts: object) -> Artifact:
    return Artifact(kind, (DataPart(facts),), kind, metadata={f"x-arbiter.{kind}": True})


def shown(*events: ArtifactUpdate | StatusUpdate | Task) -> tuple[str, str]:
    answers, notes = io.StringIO(), io.StringIO()
    transcript = Transcript(Console(file=answers), Console(file=notes))
    for event in events:
        transcript.show(event)
    transcript.end_line()
    return answers.getvalue(), notes.getvalue()


def update(artifact: Artifact, *, append: bool = False) -> ArtifactUpdate:
    return ArtifactUpdate("t", "c", artifact, append)


def test_steps_of_an_orchestrator_are_notes_and_its_answer_is_printed_once() -> None:
    said, noted = shown(
        update(marked("sub_agent_response", agent="units", depth=1, content="5 miles is 8 km.")),
        update(marked("tool_call", tool="fetch:x", ok=False)),
        update(Artifact("file", (RawPart(b"x", "text/plain", "notes.md"),), "notes.md")),
        update(Artifact("text", (TextPart(ANSWER[:5]),), "response")),
        update(Artifact("text", (TextPart(ANSWER[5:]),)), append=True),
        StatusUpdate("t", "c", completed(TextPart(ANSWER.strip()))),
    )
    assert said == ANSWER
    assert noted.splitlines() == [
        "· units: 5 miles is 8 km.",
        "· fetch:x (failed)",
        "File notes.md (text/plain, 1 bytes). --save DIR keeps it.",
    ]
    task = Task("t", "c", completed(TextPart(ANSWER)), (Artifact("text", (TextPart(ANSWER),), "response"),))
    assert shown(task) == (ANSWER, "")


@pytest.mark.parametrize("said", [(TextPart("Done."),), (TextPart(ANSWER), DataPart({"km": 8}))], ids=str)
def test_a_final_message_that_says_more_than_the_artifacts_is_printed(said: tuple[Part, ...]) -> None:
    answers, _ = shown(
        update(Artifact("text", (TextPart("Worse.\n"),))),
        update(Artifact("text", (TextPart(ANSWER),))),
        StatusUpdate("t", "c", completed(*said)),
    )
    assert answers.startswith(f"Worse.\n{ANSWER}{said[0].text}")  # type: ignore[union-attr]


def test_only_marked_data_is_a_step() -> None:
    assert step_of(Artifact("a", (DataPart({"agent": "units", "content": "x"}),))) is None
    assert step_of(Artifact("a", (TextPart("x"),), metadata={"x-arbiter.tool_call": True})) is None
    part = DataPart({"tool": "search", "ok": True}, metadata={"x-arbiter.tool_call": True})
    assert step_of(Artifact("a", (part,))) == "search"
