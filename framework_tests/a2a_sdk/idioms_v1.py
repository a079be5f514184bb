"""What executors of a2a-sdk 1.x write differently: protobuf parts, states and errors."""

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.helpers.proto_helpers import get_raw_parts
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role, Task, TaskState
from a2a.utils.errors import InvalidParamsError

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED
INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED
IS_V1 = True


def text(said: str) -> Part:
    return new_text_part(said)


def data(value: object) -> Part:
    return new_data_part(value)


def message(said: str) -> Message:
    return new_text_message(said, role=Role.ROLE_AGENT)


def new_task(sent: Message) -> Task:
    return new_task_from_user_message(sent)


def files(sent: Message) -> list[bytes]:
    return get_raw_parts(sent.parts)


def texts(parts: list[Part]) -> list[str]:
    return [part.text for part in parts if part.HasField("text")]


def invalid_params(why: str) -> Exception:
    return InvalidParamsError(message=why)


CARD = AgentCard(
    name="Worker",
    description="Charges and says so.",
    version="2.1.0",
    supported_interfaces=[AgentInterface(url="http://localhost:9999", protocol_binding="JSONRPC")],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[AgentSkill(id="charge", name="Charge", description="Charges.", tags=["money"], examples=["charge 5"])],
)


def application(executor: object) -> object:
    """What a program of the SDK serves, with executor and card in it."""
    return DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=CARD)


def set_status(task: Task, state: TaskState, said: Message) -> None:
    task.status.state = state
    task.status.message.CopyFrom(said)


def add_artifact(task: Task, artifact_id: str, said: str) -> None:
    task.artifacts.add(artifact_id=artifact_id).parts.add(text=said)
