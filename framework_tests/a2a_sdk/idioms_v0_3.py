"""What executors of a2a-sdk 0.3 write differently: pydantic parts, states and errors."""

import base64

from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    Artifact,
    DataPart,
    FilePart,
    FileWithBytes,
    InvalidParamsError,
    Message,
    Part,
    Task,
    TaskState,
    TaskStatus,
    TextPart,
)
from a2a.utils import new_agent_text_message
from a2a.utils import new_task as new_task
from a2a.utils.errors import ServerError

WORKING = TaskState.working
COMPLETED = TaskState.completed
INPUT_REQUIRED = TaskState.input_required
IS_V1 = False


def text(said: str) -> Part:
    return Part(root=TextPart(text=said))


def data(value: dict[str, object]) -> Part:
    return Part(root=DataPart(data=value))


def message(said: str) -> Message:
    return new_agent_text_message(said)


def files(sent: Message) -> list[bytes]:
    found = [part.root.file for part in sent.parts if isinstance(part.root, FilePart)]
    return [base64.b64decode(file.bytes) for file in found if isinstance(file, FileWithBytes)]


def texts(parts: list[Part]) -> list[str]:
    return [part.root.text for part in parts if isinstance(part.root, TextPart)]


def invalid_params(why: str) -> Exception:
    return ServerError(error=InvalidParamsError(message=why))


CARD = AgentCard(
    name="Worker",
    description="Charges and says so.",
    version="2.1.0",
    url="http://localhost:9999",
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[AgentSkill(id="charge", name="Charge", description="Charges.", tags=["money"], examples=["charge 5"])],
)


def application(executor: object) -> object:
    """What a program of the SDK serves, with executor and card in it."""
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore())
    return A2AStarletteApplication(agent_card=CARD, http_handler=handler)


def set_status(task: Task, state: TaskState, said: Message) -> None:
    task.status = TaskStatus(state=state, message=said)


def add_artifact(task: Task, artifact_id: str, said: str) -> None:
    task.artifacts = [*(task.artifacts or []), Artifact(artifact_id=artifact_id, parts=[text(said)])]
