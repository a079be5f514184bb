"""The image maker of the documents, on CrewAI: a file artifact, and a second message that changes the image."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from framework_tests.suite import ROOT, say
from parley import Agent
from parley.cli.serving.agent_loading import load_agent
from parley.protocol.messages import RawPart
from parley.protocol.tasks import Task, TaskState
from parley.testing import running

EXAMPLE = ROOT / "examples" / "frameworks" / "crewai_image.py"


@pytest.fixture
def image_maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("IMAGES", str(tmp_path))
    return load_agent(str(EXAMPLE))


def picture(task: Task) -> RawPart:
    """The one file of a task, which is an artifact with its name."""
    [(artifact, part)] = [
        (artifact, part) for artifact in task.artifacts for part in artifact.parts if isinstance(part, RawPart)
    ]
    assert (part.media_type, artifact.name) == ("image/png", part.filename)
    return part


def colors(part: RawPart) -> tuple[object, object, object]:
    """The colors of a picture at its corner, at the corner of a square in it, and in the middle."""
    with Image.open(BytesIO(part.raw)) as image:
        return image.getpixel((0, 0)), image.getpixel((50, 50)), image.getpixel((128, 128))


RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


@pytest.mark.anyio
async def test_a_picture_is_a_file_artifact_and_the_next_message_changes_it(image_maker: Agent) -> None:
    async with running(image_maker) as client:
        first = await say(client, "A red square on white")
        second = await say(client, "Make it blue", after=first)
        other = await say(client, "A circle on blue")
    assert [task.status.state for task in (first, second, other)] == [TaskState.COMPLETED] * 3
    assert colors(picture(first)) == (WHITE, RED, RED)
    assert colors(picture(second)) == (WHITE, BLUE, BLUE)
    assert colors(picture(other)) == (BLUE, BLUE, RED)
    assert client.text(second).endswith("is a blue square on white.")
