"""A host with an agent `writer` whose steps need approval, and what its callers and approvers do.

The agent writes a note with `/mem write`, and then says what came of it. `asking` is a master that delegates to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from parley.host.models.model import ModelRequest
from tests.host.a2a_calls import message, result
from tests.host.function_model import FunctionModel
from tests.host.running_host import HostTenant, ReadEvent, RunningHost, read_events, running_host

RULE = {"on": "command", "match": ["mem"]}
NOTE = "The note."


async def write_note(request: ModelRequest) -> AsyncIterator[str]:
    """Writes a note once, and then says what came of it. The agent `boss` delegates to `writer` instead."""
    if request.results:
        last = request.results[-1]
        yield f"{'Done' if last.ok else 'Not done'}: {last.body}"
    elif request.agent_id in ("boss", "chief"):
        yield f"/agent {'writer' if request.agent_id == 'boss' else 'boss'} Note it.\n"
    else:
        yield f"/mem write {NOTE}\n"


def definition(id: str = "writer", **members: Any) -> dict[str, Any]:
    return {"id": id, "name": id, "role": "writer", "goal": "Writes notes.", "model": "builtin/words", **members}


def models(reply: Any = write_note) -> dict[str, Any]:
    return {"builtin/words": FunctionModel(reply)}


@dataclass(slots=True)
class ApprovingHost:
    """A running host, and clients of its tenant acme."""

    running: RunningHost
    acme: HostTenant

    @property
    def client(self) -> httpx2.AsyncClient:
        """The tenant's own token, which may do everything."""
        return self.acme.client

    async def client_with(self, *scopes: str) -> httpx2.AsyncClient:
        """A client with a new token that has these scopes."""
        made = await self.client.post("/v1/access/tokens", json={"name": "-".join(scopes), "scopes": scopes})
        assert made.status_code == 201, made.text
        return await self.running.client(made.json()["token"])

    async def begin(self, client: httpx2.AsyncClient | None = None, *, agent: str = "writer") -> str:
        """The id of a request that waits."""
        body = {"message": "Note it."}
        events = await read_events(client or self.client, "POST", f"/v1/agents/{agent}/chat", json=body)
        assert events[-1].name == "input_required", events
        return events[0].payload["request_id"]

    async def begin_a2a(self, client: httpx2.AsyncClient | None = None, *, agent: str = "writer") -> dict[str, Any]:
        """A task of A2A 1.0 that waits."""
        sent = await result(client or self.client, "SendMessage", message("Note it."), agent=agent)
        assert sent["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", sent
        return sent["task"]

    async def listed(self, state: str = "pending", **query: Any) -> list[dict[str, Any]]:
        reply = await self.client.get("/v1/approvals", params={"state": state, **query})
        assert reply.status_code == 200, reply.text
        return reply.json()["approvals"]

    async def decide(self, approval_id: str, decision: str = "approve", **members: Any) -> httpx2.Response:
        """The reply to a decision with the tenant's own token."""
        return await self.client.post(f"/v1/approvals/{approval_id}", json={"decision": decision, **members})

    async def events(self, request_id: str) -> list[ReadEvent]:
        """All events of a request, when it is over."""
        path = f"/v1/requests/{request_id}/events"
        while (events := await read_events(self.client, "GET", path))[-1].name != "done":
            await asyncio.sleep(0)  # a stream ends where a request waits
        return events

    async def answer(self, request_id: str) -> str:
        """What the agent says in the end."""
        done = (await self.events(request_id))[-1].payload
        assert done["ok"], done
        return done["content"]

    async def notes(self) -> str:
        """What the agent has written."""
        return (await self.running.host.scratchpads.read(self.acme.id, "writer")).strip()

    async def audit(self) -> list[tuple[str, str]]:
        """The actions about approvals in the audit, oldest first, and who did them."""
        entries = (await self.client.get("/v1/audit")).json()["entries"]
        return [(one["action"], one["actor"]) for one in reversed(entries) if one["target_kind"] == "approval"]


@asynccontextmanager
async def approving_host(
    *rules: dict[str, Any], reply: Any = write_note, agents: tuple[str, ...] = (), **options: Any
) -> AsyncGenerator[ApprovingHost]:
    """A host with an agent `writer` whose constitution has these rules, and others without."""
    async with running_host(models=models(reply), **options) as running:
        host = ApprovingHost(running, running.acme)
        for defined in (definition(approvals=list(rules)), *map(definition, agents)):
            made = await host.client.post("/v1/agents", json=defined)
            assert made.status_code == 201, made.text
        yield host
