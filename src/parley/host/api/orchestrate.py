"""`/v1/orchestrate`: a message to any agent, to `index` if none is named."""

from __future__ import annotations

from parley.host.access.scopes import Scope
from parley.host.api.event_stream import stream_events
from parley.host.api.route import ApiCall, ApiRoute, BodyReader
from parley.host.api.run_requests import RUN_HEADERS, STREAMED_EVENTS, MessageBody, begin_run


class OrchestrateBody(MessageBody, frozen=True):
    """A message to an agent that the body names."""

    agent: str | None = None
    """The agent's id; `index` if there is none."""


async def orchestrate(call: ApiCall[OrchestrateBody]) -> None:
    """Send a message, and stream what happens."""
    request_id = await begin_run(call, call.body, named=call.body.agent, route="orchestrate", surface="orchestrate")
    await stream_events(call, request_id, scope=Scope.CALL)


ROUTES = (
    ApiRoute(
        method="POST",
        path="/v1/orchestrate",
        handler=orchestrate,
        scope=Scope.CALL,
        summary="Send a message to `index`, or to another agent",
        body=BodyReader(OrchestrateBody),
        headers=RUN_HEADERS,
        replies=[STREAMED_EVENTS],
        errors=[404, 409, 429],
        streams=True,
    ),
)
