"""Artifacts: the files of conversations, described and as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from parley.host.access.scopes import Scope
from parley.host.api.agents import Deleted
from parley.host.api.query_parameters import LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, BodyReader
from parley.host.data.artifacts import DEFAULT_MIME_TYPE, MAX_PAGE, StoredArtifact

LIMIT = LimitParameter(default=MAX_PAGE, most=MAX_PAGE)
BEFORE_ID = NumberParameter("before_id", "Artifacts with smaller ids.")

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; *charset=[\w-]+)?", re.ASCII)


class NewArtifact(Struct, frozen=True):
    """A file to write."""

    path: str
    content: str
    mime_type: str | None = None
    """The path decides if there is none."""


class ArtifactList(Struct, frozen=True):
    """The newest artifacts first."""

    count: int
    artifacts: Sequence[StoredArtifact]


async def list_artifacts(call: ApiCall[None]) -> Answer:
    """A page of all artifacts of the tenant."""
    return await _page(call, None)


async def list_in_conversation(call: ApiCall[None]) -> Answer:
    """A page of the artifacts of a conversation."""
    conversation = await call.host.conversations.get(call.tenant.id, call.number("id"))
    return await _page(call, conversation.id)


async def write_artifact(call: ApiCall[NewArtifact]) -> Answer:
    """Create the file at a path of a conversation, or replace it."""
    tenant, host, body = call.tenant, call.host, call.body
    conversation = await host.conversations.get(tenant.id, call.number("id"))
    written = await host.artifacts.write(
        tenant.id,
        conversation.id,
        body.path,
        body.content,
        mime_type=body.mime_type,
        quota=host.storage_limit(tenant),
    )
    return Answer(written, 201)


async def get_artifact(call: ApiCall[None]) -> Answer:
    """One artifact without its content."""
    return Answer(await call.host.artifacts.get(call.tenant.id, call.number("id")))


async def get_content(call: ApiCall[None]) -> Answer:
    """The content of an artifact. Browsers save it: an agent's page must not run in the name of the host."""
    artifact = await call.host.artifacts.get(call.tenant.id, call.number("id"))
    content = await call.host.artifacts.read(call.tenant.id, artifact.id)
    name = quote(artifact.path.rpartition("/")[2], safe="")
    headers = (
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
        (b"x-content-type-options", b"nosniff"),
    )
    return Answer(content.encode(), content_type=_content_type(artifact), headers=headers)


async def delete_artifact(call: ApiCall[None]) -> Answer:
    """Delete an artifact."""
    await call.host.artifacts.delete(call.tenant.id, call.number("id"))
    return Answer(Deleted())


async def _page(call: ApiCall[Any], conversation_id: int | None) -> Answer:
    found = await call.host.artifacts.list(
        call.tenant.id, conversation_id=conversation_id, before_id=call.query(BEFORE_ID), limit=call.query(LIMIT)
    )
    return Answer(ArtifactList(len(found), found))


def _content_type(artifact: StoredArtifact) -> str:
    """The media type that the writer gave, if it is one; contents are always UTF-8."""
    stated = _MEDIA_TYPE.fullmatch(artifact.mime_type)
    return f"{stated[0].partition(';')[0] if stated else DEFAULT_MIME_TYPE}; charset=utf-8"


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/artifacts",
        handler=list_artifacts,
        summary="List all artifacts",
        query=[BEFORE_ID, LIMIT],
        replies=[ApiReply(ArtifactList)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/artifacts/{id:int}",
        handler=get_artifact,
        summary="Read about an artifact",
        replies=[ApiReply(StoredArtifact)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/artifacts/{id:int}/content",
        handler=get_content,
        summary="Read the content of an artifact",
        replies=[ApiReply(None, description="The content, with the artifact's media type.", content_type="*/*")],
        errors=[404],
    ),
    ApiRoute(
        method="DELETE",
        path="/v1/artifacts/{id:int}",
        handler=delete_artifact,
        scope=Scope.CALL,
        summary="Delete an artifact",
        replies=[ApiReply(Deleted)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/conversations/{id:int}/artifacts",
        handler=list_in_conversation,
        summary="List the artifacts of a conversation",
        query=[BEFORE_ID, LIMIT],
        replies=[ApiReply(ArtifactList)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/conversations/{id:int}/artifacts",
        handler=write_artifact,
        scope=Scope.CALL,
        summary="Write an artifact",
        description="A file at the same path of the conversation is replaced and keeps its id.",
        body=BodyReader(NewArtifact),
        replies=[ApiReply(StoredArtifact, 201)],
        errors=[404, 413],
    ),
)
