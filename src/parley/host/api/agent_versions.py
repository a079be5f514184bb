"""The versions of a tenant's agents: reading and comparing them, going back to one, and pinning one.

A pinned version is called whatever is newer, so that a change can be stored before it is live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from parley.host.api.agent_edits import EDIT_HEADERS, EditMembers, VersionNumber, edit_of, followed
from parley.host.api.agent_views import AgentView
from parley.host.api.agents import own_agent_id, shown_agent
from parley.host.api.query_parameters import LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.constitution import render
from parley.host.constitution_diff import MemberChange, diff_constitutions
from parley.host.data.agent_versions import MAX_PAGE, AgentVersion
from parley.host.data.agents import StoredAgent
from parley.host.errors import BadRequest
from parley.protocol.jsonvalue import JsonObject

LIMIT = LimitParameter(default=20, most=MAX_PAGE)
BEFORE = NumberParameter("before", "Versions with smaller numbers.")
FROM = NumberParameter("from", "The version to compare with; the one before the other if it is not given.")
TO = NumberParameter("to", "The version to compare; the newest if it is not given.")


class VersionView(Struct, frozen=True, kw_only=True):
    """One version of an agent. Times are seconds since 1970."""

    version: int
    by: str
    """The principal that has made it; `unknown` if it was stored before versions were kept."""
    at: int
    note: str
    rollback_to: int | UnsetType = UNSET
    """The version that it repeats."""
    is_live: bool
    """Whether calls go to it."""
    constitution: JsonObject | UnsetType = UNSET
    """Only where one version is read."""


class VersionList(Struct, frozen=True, kw_only=True):
    """A page of versions, the newest first. Without `next_before`, it is the last one."""

    versions: Sequence[VersionView]
    next_before: int | UnsetType = UNSET


class VersionDiff(Struct, frozen=True, rename={"from_version": "from", "to_version": "to"}):
    """What differs between two versions."""

    from_version: int
    to_version: int
    changes: Sequence[MemberChange]


class VersionChoice(EditMembers, frozen=True, kw_only=True):
    """A version to go back to, or to pin."""

    version: VersionNumber


async def list_versions(call: ApiCall[None]) -> Answer:
    """A page of an agent's versions."""
    agent, limit = await _agent(call), call.query(LIMIT)
    found = await call.host.agents.versions(agent, before=call.query(BEFORE), limit=limit)
    more = found[-1].number if len(found) == limit else UNSET
    return Answer(VersionList(versions=[_view(one, agent) for one in found], next_before=more))


async def get_version(call: ApiCall[None]) -> Answer:
    """One version of an agent, with its constitution."""
    agent = await _agent(call)
    return Answer(_view(await call.host.agents.version(agent, call.number("version")), agent, is_whole=True))


async def show_diff(call: ApiCall[None]) -> Answer:
    """What differs between two versions of an agent."""
    agent, agents = await _agent(call), call.host.agents
    to, from_ = call.query(TO), call.query(FROM)
    after = await agents.version(agent, agent.version if to is None else to)
    if from_ is None and after.number == 1:
        raise BadRequest("from: there is no version before the first one")
    before = await agents.version(agent, after.number - 1 if from_ is None else from_)
    changes = diff_constitutions(before.constitution, after.constitution)
    return Answer(VersionDiff(before.number, after.number, changes))


async def roll_back(call: ApiCall[VersionChoice]) -> Answer:
    """Give an agent the constitution of an earlier version, as a new version."""
    agent_id = own_agent_id(call)
    edit = edit_of(call, call.body)
    change = call.host.agents.roll_back(call.tenant.id, agent_id, call.body.version, edit)
    return shown_agent(call, await followed(call, change))


async def pin(call: ApiCall[VersionChoice]) -> Answer:
    """Have calls go to a version, whatever is newer."""
    return await _pin(call, call.body.version, call.body)


async def unpin(call: ApiCall[None]) -> Answer:
    """Have calls go to the newest version again."""
    return await _pin(call, None)


async def _pin(call: ApiCall[Any], number: int | None, members: EditMembers | None = None) -> Answer:
    agent_id = own_agent_id(call)
    change = call.host.agents.pin(call.tenant.id, agent_id, number, edit_of(call, members))
    return shown_agent(call, await followed(call, change))


async def _agent(call: ApiCall[Any]) -> StoredAgent:
    return await call.host.agents.get(call.tenant.id, call.path["id"])


def _view(version: AgentVersion, agent: StoredAgent, *, is_whole: bool = False) -> VersionView:
    return VersionView(
        version=version.number,
        by=version.by,
        at=version.at,
        note=version.note,
        rollback_to=version.rollback_to or UNSET,
        is_live=version.number == agent.live_version,
        constitution=render(version.constitution) if is_whole else UNSET,
    )


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/agents/{id}/versions",
        handler=list_versions,
        summary="List the versions of an agent",
        query=[BEFORE, LIMIT],
        replies=[ApiReply(VersionList)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{id}/versions/{version:int}",
        handler=get_version,
        summary="Read a version of an agent",
        replies=[ApiReply(VersionView)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/agents/{id}/diff",
        handler=show_diff,
        summary="Compare two versions of an agent",
        description="Member by member, with a line diff of long texts and lists.",
        query=[FROM, TO],
        replies=[ApiReply(VersionDiff)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/agents/{id}/rollback",
        handler=roll_back,
        summary="Go back to a version of an agent",
        description="Its constitution becomes the next version. Nothing is lost.",
        body=BodyReader(VersionChoice),
        headers=EDIT_HEADERS,
        replies=[ApiReply(AgentView)],
        errors=[404, 409, 412],
    ),
    ApiRoute(
        method="POST",
        path="/v1/agents/{id}/pin",
        handler=pin,
        summary="Pin a version of an agent",
        description="Calls go to this version, whatever is newer, until another one is pinned or none.",
        body=BodyReader(VersionChoice),
        headers=EDIT_HEADERS,
        replies=[ApiReply(AgentView)],
        errors=[404, 409, 412],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/agents/{id}/pin",
        handler=unpin,
        summary="Have calls go to the newest version of an agent again",
        headers=EDIT_HEADERS,
        replies=[ApiReply(AgentView)],
        errors=[400, 404, 409, 412],
    ),
)
