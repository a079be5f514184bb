"""A model that says and raises what a test scripts, call by call."""

from collections import deque
from collections.abc import AsyncGenerator, Sequence

from parley.host.models.model import ModelError, ModelFailure, ModelMessage, ModelRequest, Piece
from parley.host.models.provider_calls import ProviderCallError

REQUEST = ModelRequest(agent_id="a", system="", messages=(ModelMessage("user", "Hi"),), query="Hi")


def failure(kind: ModelFailure = ModelFailure.PROVIDER_ERROR, status: int | None = None) -> ModelError:
    return ProviderCallError("It failed.", kind, status=status)


class ScriptedModel:
    """Each call takes the next script: pieces to yield, and errors to raise."""

    def __init__(self, *calls: Sequence[Piece | ModelError]) -> None:
        self.calls = deque(calls)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        for step in self.calls.popleft():
            if isinstance(step, ModelError):
                raise step
            yield step
