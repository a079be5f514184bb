"""Edits of an agent: what a caller says of the version that it has seen, and what it is told if there is a newer one.

The version is in the header `If-Match`, as the `ETag` of the agent gave it, or in the member `expected_version` of the
body. A caller that names none replaces whatever there is. A newer version is status 412 for the header and 409 for the
member, with the difference between the version that the caller has seen and the newest one, so that it can merge them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, to_builtins

from parley.dialects.fields import Fault, Reader
from parley.host.api.route import ApiCall
from parley.host.constitution_diff import diff_constitutions
from parley.host.data.agent_changes import MAX_NOTE, AgentEdit
from parley.host.data.agents import StaleVersionError, StoredAgent
from parley.host.errors import BadRequest, Conflict, PreconditionFailed
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.server.bindings.failures import Header

VersionNumber: TypeAlias = Annotated[int, Meta(ge=1, lt=10**15)]
Note: TypeAlias = Annotated[str, Meta(max_length=MAX_NOTE)]

EDIT_HEADERS = {
    "If-Match": 'The `ETag` of the agent, such as `"3"`: if it has another version, nothing is changed (412).'
}

# Proxies that compress a reply make its tag weak. It still names the version.
_ENTITY_TAG = re.compile(r'\s*(?:W/)?"([1-9][0-9]{0,14})"\s*', re.ASCII)


class EditMembers(Struct, frozen=True):
    """What a body says of an edit, beside what is to be changed."""

    note: Note = ""
    """Why the agent is changed; versions show it."""
    expected_version: VersionNumber | None = None
    """The newest version that the caller has seen. If there is a newer one, nothing is changed (409)."""


_edit_members = Reader(EditMembers)


def edit_of(call: ApiCall[Any], members: EditMembers | None = None) -> AgentEdit:
    """The edit that a caller wants.

    Raises:
        BadRequest: the header is not valid, or names another version than the body.
    """
    members = members or EditMembers()
    matched = _if_match(call)
    if None not in (matched, members.expected_version) and matched != members.expected_version:
        raise BadRequest("$.expected_version: differs from If-Match")
    expected = members.expected_version if matched is None else matched
    return AgentEdit(actor=call.actor, note=members.note, expected_version=expected)


def edit_members_in(body: JsonObject) -> EditMembers:
    """What a body says of an edit that holds a constitution as well. Raises BadRequest."""
    known = {name: body[name] for name in ("note", "expected_version") if name in body}
    try:
        return _edit_members.read_value(known)
    except Fault as fault:
        raise BadRequest(f"{fault.path}: {fault.reason}") from None


@contextmanager
def conflicts_shown(call: ApiCall[Any]) -> Generator[None]:
    """A block in which an edit for an older version is refused with what has changed since.

    Raises:
        Conflict, PreconditionFailed: the agent has a newer version.
    """
    try:
        yield
    except StaleVersionError as error:
        kind = PreconditionFailed if "if-match" in call.request.headers else Conflict
        raise kind(error.message, more=_about(error)) from None


async def followed(call: ApiCall[Any], change: Coroutine[Any, Any, StoredAgent]) -> StoredAgent:
    """Change an agent, and have new messages go to what it is then, also if the caller goes away meanwhile."""

    async def make() -> StoredAgent:
        stored = await change
        call.host.catalogue.put(stored)
        return stored

    with conflicts_shown(call):
        return await asyncio.shield(asyncio.ensure_future(make()))


def version_headers(agent: StoredAgent) -> tuple[Header, ...]:
    """The headers of a reply that shows an agent."""
    return ((b"etag", b'"%d"' % agent.version),)


def _about(error: StaleVersionError) -> JsonObject:
    current, before = error.current, error.before
    diff: JsonValue = None
    if before is not None:
        diff = to_builtins(diff_constitutions(before, current.constitution))
    return {
        "current_version": current.version,
        "base_version": error.base,
        "changed_by": current.changed_by,
        "changed_at": current.updated_at,
        "diff": diff,
    }


def _if_match(call: ApiCall[Any]) -> int | None:
    value = call.request.headers.get("if-match")
    if value is None or value.strip() == "*":
        return None
    tag = _ENTITY_TAG.fullmatch(value)
    if tag is None:
        raise BadRequest('If-Match: must be * or the ETag of the agent, such as "3"')
    return int(tag[1])
